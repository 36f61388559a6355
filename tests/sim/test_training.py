"""Evaluation, best weights, stopping, losses, schedules, clipping: what surrounds the method."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from colonnade import JobError, Top, load, simulate, vertical
from colonnade.job.records import Train
from colonnade.models.top import build_top
from colonnade.policies.weight import Uniform
from tests.small import small, with_network


def run(case, **replaced):
    return simulate(msgspec.structs.replace(case.job, **replaced), case.data, case.modules)


def same(a, b) -> bool:
    return all(torch.equal(a[p][n], b[p][n]) for p in a for n in a[p])


def test_evaluation_is_off_the_clock_and_counted_apart():
    quiet = small(3, rounds=20)
    loud = small(3, rounds=20, evaluate_every="1 round", full_loss=True)
    jobs = [with_network(case.job, latency="50ms", bandwidth="1mbit") for case in (quiet, loud)]
    plain = simulate(jobs[0], quiet.data, quiet.modules)
    watched = simulate(jobs[1], loud.data, loud.modules)
    assert watched.time_s == plain.time_s
    assert same(watched.weights, plain.weights)
    assert watched.bytes("training") == plain.bytes("training")
    assert watched.bytes("evaluation")["total"] > 0 == plain.bytes("evaluation")["total"]
    assert len(watched.history) == 20
    assert "full_loss" in watched.history[0]


def test_the_full_loss_is_that_of_the_joint_model():
    case = small(3, rounds=6, evaluate_every="6 rounds", full_loss=True)
    trained = run(case)
    modules = {}
    for name, module in case.modules.items():
        party = case.job.active if name == "top" else name
        part = "top" if name == "top" else "bottom"
        state = {
            key.removeprefix(f"{part}."): tensor
            for key, tensor in trained.weights[party].items()
            if key.startswith(part)
        }
        module.load_state_dict(state)
        modules[name] = module
    with torch.no_grad():
        embeddings = [modules[name](case.x(name)) for name in case.parties]
        expected = nn.functional.binary_cross_entropy_with_logits(
            modules["top"](embeddings), case.y()
        )
    assert trained.history[-1]["full_loss"] == pytest.approx(expected.item(), abs=1e-12)


def test_the_best_rounds_weights_are_kept_at_all_parties():
    """Stop at the best round: the last weights there are the best ones of the longer run."""
    case = small(3, rounds=40, evaluate_every="1 round", metric="accuracy", batch_size=8,
                 optimizer={"name": "sgd", "lr": 1.5})  # fmt: skip
    long = run(case)
    best = [row["round"] for row in long.history if row["best"]][-1]
    assert 1 < best < 40, "the case should have its best round in the middle"
    train = msgspec.structs.replace(case.job.train, rounds=best)
    short = run(case, train=train)
    assert same(long.best_weights, short.weights)
    assert not same(long.best_weights, long.weights)


def test_target_ends_the_run_and_is_reported():
    case = small(3, rounds=400, evaluate_every="5 rounds", metric="accuracy", target=0.8,
                 stop="target", optimizer={"name": "sgd", "lr": 0.5})  # fmt: skip
    stopped = simulate(with_network(case.job, latency="50ms"), case.data, case.modules)
    summary = stopped.summary()
    assert stopped.status == "target"
    assert stopped.history[-1]["accuracy"] >= 0.8 > stopped.history[-2]["accuracy"]
    assert summary["rounds_to_target"] == stopped.rounds < 400
    assert summary["time_to_target_s"] == pytest.approx(stopped.rounds * 0.140)
    assert summary["bytes_to_target"] <= summary["bytes"]["total"]


def test_a_missed_target_is_null():
    case = small(3, rounds=10, evaluate_every="5 rounds", metric="accuracy", target=1.0)
    summary = run(case).summary()
    assert summary["status"] == "end"
    for key in ("time_to_target_s", "rounds_to_target", "bytes_to_target"):
        assert summary[key] is None


def test_patience_ends_the_run():
    case = small(3, rounds=400, evaluate_every="2 rounds", metric="accuracy", patience=3,
                 optimizer={"name": "sgd", "lr": 1e-9})  # fmt: skip
    stopped = run(case)
    assert (stopped.status, stopped.rounds) == ("patience", 8)


def test_divergence_ends_the_run_readably(tmp_path):
    case = small(3, rounds=50, dtype="float32", optimizer={"name": "sgd", "lr": 1e38})
    with pytest.warns(UserWarning, match="the training diverged after .*: lower the learning"):
        diverged = run(case)
    assert diverged.status == "diverged"
    assert diverged.rounds < 50
    diverged.save(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "diverged"


def test_bytes_to_target_are_those_of_the_rounds_up_to_it():
    case = small(3, rounds=20, evaluate_every="10 rounds", metric="accuracy", target=0.0)
    job = with_network(case.job, latency="5ms")
    fast = {"p0": {"forward": "1ms", "backward": "2ms"}}
    compute = msgspec.structs.replace(
        job.compute, overrides={n: msgspec.structs.replace(job.compute.costs, **c)
                                for n, c in fast.items()})  # fmt: skip
    trained = simulate(msgspec.structs.replace(job, compute=compute), case.data, case.modules)
    short = run(case, train=msgspec.structs.replace(case.job.train, rounds=10))
    finish = [e["bytes"] for e in short.parties["p1"].ledger if e["kind"] == "Finish"]
    total = short.bytes("training")["total"] - sum(finish)
    assert trained.summary()["bytes_to_target"] == total


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtypes_cross_the_wire_as_they_are(dtype):
    case = small(2, rounds=3, dtype=dtype)
    trained = run(case)
    (up,) = [e for e in trained.parties["p0"].ledger if e["kind"] == "Embedding"]
    item = {"float32": 4, "float64": 8}[dtype]
    assert 3 * 8 * 4 * item < up["bytes"] < 3 * (8 * 4 * item + 100)
    assert all(t.dtype == getattr(torch, dtype) for t in trained.weights["p0"].values())


def test_sample_weights_of_nought_leave_rows_out():
    """Two thirds of the rows count nothing: the same as a data set of the others' loss."""
    generator = np.random.default_rng(0)
    x = {"a": generator.normal(size=(30, 2)), "b": generator.normal(size=(30, 3))}
    y = (x["a"][:, 0] > 0).astype(int)
    weights = np.where(np.arange(30) % 3 == 0, 1.0, 0.0)
    modules = {"a": nn.Linear(2, 1), "b": nn.Linear(3, 1)}
    job = small(2, "agg", rounds=20, batch_size=24).job
    job = msgspec.structs.replace(
        job, parties={"a": job.parties["p1"], "b": job.parties["p0"]}, top=Top(kind="agg"),
        train=Train(rounds=30, batch_size=24, shuffle="never", evaluate_every="never",
                    dtype="float64"))  # fmt: skip
    held = {n: v[:2] for n, v in x.items()}
    test = {"test_features": held, "test_labels": [0, 1], "validation": 0}
    rows = slice(0, 24)
    full = vertical({n: v[rows] for n, v in x.items()}, y[rows], weights=weights[rows], **test)
    kept = np.flatnonzero(weights[rows])
    part = vertical({n: v[kept] for n, v in x.items()}, y[kept], **test)
    weighted = simulate(job, full, modules).weights
    small_train = msgspec.structs.replace(job.train, batch_size=len(kept))
    alone = simulate(msgspec.structs.replace(job, train=small_train), part, modules).weights
    for party in weighted:
        for name, tensor in weighted[party].items():
            torch.testing.assert_close(tensor, alone[party][name], atol=1e-12, rtol=0)


def test_clipping_bounds_each_partys_step():
    case = small(3, rounds=1, clip_norm=1e-3, optimizer={"name": "sgd", "lr": 1.0})
    trained = run(case)
    for party, weights in trained.weights.items():
        moved = 0.0
        for name, tensor in weights.items():
            part, _, key = name.partition(".")
            start = case.modules["top" if part == "top" else party].state_dict()[key]
            moved += (tensor - start).norm().item() ** 2
        assert moved**0.5 <= 1e-3 + 1e-9
        assert moved > 0


def test_a_schedule_by_epoch_is_torchs_loop():
    """StepLR after every epoch: from the second epoch on nothing moves at a rate of nought."""
    case = small(2, rounds=24, batch_size=8)
    schedule = {"name": "StepLR", "step_size": 1, "gamma": 0.0}
    parties = {
        name: msgspec.structs.replace(party, schedule=schedule)
        for name, party in case.job.parties.items()
    }
    per_epoch = case.data.train_count // 8
    one = run(case, train=msgspec.structs.replace(case.job.train, rounds=per_epoch))
    assert same(run(case, parties=parties).weights, one.weights)


def test_the_top_may_have_its_own_optimizer():
    still = small(3, rounds=5)
    top = Top(kind="split", optimizer={"name": "adam", "lr": 0.0})
    trained = run(still, top=top)
    for name, tensor in trained.weights["p1"].items():
        part, _, key = name.partition(".")
        start = still.modules["top" if part == "top" else "p1"].state_dict()[key]
        assert torch.equal(start, tensor) == (part == "top"), name


@pytest.mark.parametrize(
    ("top", "widths", "outputs", "words"),
    [
        (Top(kind="agg"), {"a": 1, "b": 2}, 1, "b has 2 and not 1"),
        (Top(kind="agg", hidden=[4]), {"a": 1, "b": 2}, 1, "all embeddings have one width"),
        (Top(kind="dot"), {"a": 1, "b": 2}, 1, "all embeddings have one width"),
        (Top(kind="dot"), {"a": 2, "b": 2}, 10, "use 'split'"),
        (Top(kind="module"), {"a": 2}, 1, "needs top.module"),
        (Top(kind="module", module="math:sqrt2"), {"a": 2}, 1, "no function 'sqrt2'"),
    ],
)
def test_tops_that_do_not_fit(top, widths, outputs, words):
    with pytest.raises(JobError, match=words):
        build_top(top, widths, outputs)


def test_any_module_may_be_the_top():
    class Mean(nn.Module):
        def forward(self, embeddings):
            return torch.stack(list(embeddings)).mean(0).sum(1, keepdim=True)

    case = small(3, rounds=5)
    case.modules["top"] = Mean()
    assert run(case).rounds == 5


def test_regression_end_to_end():
    generator = np.random.default_rng(0)
    x = {"a": generator.normal(size=(200, 2)), "b": generator.normal(size=(200, 3))}
    y = x["a"][:, 0] - 2 * x["b"][:, 1]
    job = load("digits", ["train.rounds=300", "train.batch_size=32", "train.metric=mae",
                          "train.target=0.1"])  # fmt: skip
    party = msgspec.structs.replace(
        job.parties["lab"], model={"name": "linear", "embedding": 1}, view=None
    )
    job = msgspec.structs.replace(
        job, data=None, parties={"a": msgspec.structs.replace(party, role="active"), "b": party},
        top=Top(kind="agg"),
    )  # fmt: skip
    trained = simulate(job, vertical(x, y))
    assert trained.summary()["rounds_to_target"] is not None


def test_extra_metrics_are_recorded():
    made = simulate(load("digits", ["train.epochs=1", "train.extra_metrics=['f1', 'top5']"]))
    assert {"accuracy", "f1", "top5", "validation_loss"} <= set(made.history[-1])


class Half(Uniform):
    """Every stale row counts half."""

    weighs = True

    def rows(self, stale, current):
        assert stale.shape == current.shape
        return stale.new_full((len(stale),), 0.5)


class Full(Half):
    def rows(self, stale, current):
        return stale.new_ones(len(stale))


@pytest.fixture
def weighted(monkeypatch):
    from colonnade import methods
    from colonnade.methods.method import Method
    from colonnade.policies.local import repeat

    def with_weight(case, weight):
        made = Method(local=repeat(3), weight=weight)
        monkeypatch.setattr(methods, "build", lambda table: made)
        return run(case).weights

    return with_weight


def test_row_weights_scale_local_updates(weighted):
    case = small(3, rounds=10)
    plain = weighted(case, Uniform())
    full = weighted(case, Full())
    for party in plain:
        for name, tensor in plain[party].items():
            torch.testing.assert_close(tensor, full[party][name], atol=1e-13, rtol=0)
    assert not same(plain, weighted(case, Half()))


def test_models_are_copied_not_changed():
    case = small(2, rounds=5)
    before = {n: [p.clone() for p in m.parameters()] for n, m in case.modules.items()}
    run(case)
    for name, module in case.modules.items():
        assert all(
            torch.equal(a, b) for a, b in zip(before[name], module.parameters(), strict=True)
        )


def test_a_run_folder_can_be_read_again(tmp_path):
    import pyarrow.parquet as pq
    from safetensors.torch import load_file

    from colonnade.job import load as load_job

    made = simulate(load("digits", ["train.epochs=2"]))
    made.save(tmp_path / "run")
    folder = tmp_path / "run"
    assert load_job(folder / "job.toml") == made.job
    assert pq.read_table(folder / "history.parquet").num_rows == 2
    assert pq.read_table(folder / "rounds.parquet").num_rows == made.rounds
    timeline = pq.read_table(folder / "timeline.parquet").to_pylist()
    assert {row["kind"] for row in timeline} == {
        *("forward", "backward", "aggregate", "wait", "send", "receive")
    }
    ledger = json.loads((folder / "ledger.json").read_text())
    sent = sum(e["bytes"] for e in ledger["lab"] if e["direction"] == "sent")
    got = sum(e["bytes"] for e in ledger["clinic"]
              if (e["direction"], e["peer"]) == ("received", "lab"))  # fmt: skip
    assert sent == got
    for name in made.parties:
        weights = load_file(folder / "parties" / name / "best.safetensors")
        assert same({name: weights}, {name: made.best_weights[name]})
    assert json.loads((folder / "summary.json").read_text()) == json.loads(
        json.dumps(made.summary())
    )
    assert made.frame().shape[0] == 2
    assert made.plot("bytes").data[0].y[-1] == made.history[-1]["accuracy"]


def test_the_end_does_not_overtake_the_last_reply():
    """A passive party fills the wait for its last reply with local updates, as every wait before:
    the news that the job is over comes after the reply, and not before."""
    case = small(2, method={"name": "celu", "w": 3, "r": 4}, rounds=19)
    run = simulate(with_network(case.job, latency="300ms"), case.data, case.modules)
    waits, locals_ = [], 0
    for _, action, _ in run.parties["p0"].actions:
        locals_ = {"send": 0, "local": locals_ + 1}.get(action, locals_)
        waits += [locals_] if action == "fresh" else []
    assert waits[-3:] == waits[-6:-3] == [1, 1, 7]


@pytest.mark.parametrize("method", ["fedsgd", "cvfl"])
@pytest.mark.parametrize("events", [0, 1, 4, 40])
def test_a_run_that_is_interrupted_whenever_it_may_be_has_what_each_party_had(method, events):
    labels = "shared" if method == "cvfl" else "private"
    case = small(3, method={"name": method}, rounds=20, labels=labels)
    left = iter(range(events))
    run = simulate(case.job, case.data, case.modules, should_stop=lambda: next(left, None) is None)
    assert run.status == "interrupted" and run.rounds < 20
    for name in case.job.parties:
        assert run.weights[name]
