"""Choices are made on validation rows, and the test rows are looked at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colonnade import methods, simulate
from colonnade.learn.schedule import Schedule
from colonnade.record.metrics import METRICS
from tests.small import small, with_network

NAMED = {name: {"name": name} for name in methods.known()}
NAMED["cvfl"] |= {"compressor": "plain"}


def job(method="fedsgd", **train):
    options = {"rounds": 24, "evaluate_every": "4 rounds", "labels": "shared"} | train
    case = small(3, method=NAMED[method], validation=0.25, **options)
    case.job = with_network(case.job, latency="5ms")
    return case


def predicted(case, run, split):
    """The joint model with every party's best weights, put together by hand."""
    embeddings = []
    for name in case.parties:
        module = case.modules[name]
        own = {
            key.removeprefix("bottom."): value
            for key, value in run.best_weights[name].items()
            if key.startswith("bottom.")
        }
        module.load_state_dict(own)
        embeddings.append(module(torch.as_tensor(case.data.features[name].part(split))))
    top = case.modules["top"]
    best = run.best_weights[case.job.active]
    top.load_state_dict(
        {key.removeprefix("top."): v for key, v in best.items() if key.startswith("top.")}
    )
    return top(embeddings).detach().numpy()


@pytest.mark.parametrize("method", NAMED)
def test_the_test_rows_are_looked_at_once_with_the_best_weights(method):
    case = job(method, evaluate_plain=True)
    run = simulate(case.job, case.data, case.modules)
    auc = METRICS["auc"].measure
    best = max(row["auc"] for row in run.history)
    assert run.best() == best
    for split, value in (("validation", run.best()), ("test", run.tested())):
        assert auc(predicted(case, run, split), case.data.labels.part(split)) == value
    assert [name for name in run.history[0] if name.endswith("_loss")] == ["validation_loss"]
    assert run.test["round"] == next(row["round"] for row in run.history if row["auc"] == best)
    asked = {entry["messages"] for entry in run.parties["p1"].ledger
             if entry["kind"] == "Evaluate"}  # fmt: skip
    assert asked == {len(run.history) + 1}


def test_the_summary_says_what_was_chosen_on_which_rows():
    case = job()
    metric = simulate(case.job, case.data, case.modules).summary()["metric"]
    assert metric["chosen_on"] == "validation" and metric["test"] is not None
    plain = small(3, rounds=24, evaluate_every="4 rounds")
    metric = simulate(plain.job, plain.data, plain.modules).summary()["metric"]
    assert metric["chosen_on"] == "test" and metric["test"] == metric["best"]


def test_target_and_patience_go_by_the_validation_rows():
    """Labels of the test rows that are turned round change nothing but the test."""
    case = job(patience=2)
    run = simulate(case.job, case.data, case.modules)
    case.data.labels.test[:] = 1 - case.data.labels.test
    turned = simulate(case.job, case.data, case.modules)
    assert run.history == turned.history and run.rounds == turned.rounds
    assert turned.tested() == pytest.approx(1 - run.tested())


def test_a_run_that_diverges_is_not_tested():
    case = small(3, validation=0.25, rounds=24, evaluate_every="1 round", dtype="float32",
                 optimizer={"name": "sgd", "lr": 1e38})  # fmt: skip
    with pytest.warns(UserWarning, match="the training diverged"):
        run = simulate(case.job, case.data, case.modules)
    assert run.status == "diverged" and run.test == {} and run.tested() is None


def test_evaluation_leaves_training_as_it_is():
    """Encoders that remember, or draw, go on as if nobody had asked."""
    for compressor in ("ef+topk:2", "scalar:3:clipped:dither", "diminishing+scalar:2"):
        method = {"name": "fedsgd", "compress": {"embedding": compressor}}
        runs = [
            simulate(case.job, case.data, case.modules)
            for case in (
                small(3, method=method, validation=0.25, rounds=24, evaluate_every=every)
                for every in ("never", "3 rounds")
            )
        ]
        for name, weights in runs[0].weights.items():
            for key, tensor in weights.items():
                assert torch.equal(tensor, runs[1].weights[name][key]), (compressor, key)


def test_evaluation_embeddings_are_in_the_agreed_encoding():
    sizes = {}
    for compressor in ("plain", "scalar:4"):
        method = {"name": "fedsgd", "compress": {"embedding": compressor}}
        case = small(3, method=method, validation=0.25, evaluate_every="5 rounds", full_loss=True)
        run = simulate(case.job, case.data, case.modules)
        (entry,) = (e for e in run.parties["p0"].ledger if e["kind"] == "EvaluationEmbedding")
        assert entry["messages"] == 4 * 2 + 1
        sizes[compressor] = entry["bytes"]
    # Doubles of eight bytes against four bits a component.
    assert sizes["scalar:4"] < sizes["plain"] / 2


def test_the_number_of_evaluations():
    rows = {"train": 1, "validation": 1, "test": 1}
    for rounds, period in ((10, 3), (9, 3), (2, 5)):
        schedule = Schedule(rounds, period, rows=rows)
        assert len(schedule) == np.sum([schedule.due(round) for round in range(-3, rounds + 5)])
    assert len(Schedule(10, None)) == 0 and not Schedule(10, None, rows=rows).tests
    assert not Schedule(10, 3, rows={"test": 3}).tests
    assert not Schedule(10, 3, rows={"validation": 3, "test": 0}).tests
