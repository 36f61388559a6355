"""A training clocked again on another network is what it would have been there."""

from __future__ import annotations

import msgspec
import pytest
import torch

from colonnade import Compute, Costs, JobError, reclock, simulate, simulate_clock
from tests.small import small, with_network

LOCK_STEP = {
    "fedsgd": {"name": "fedsgd"},
    "fedbcd": {"name": "fedbcd", "updates": 3},
    "fedbcd-s": {"name": "fedbcd", "updates": 3, "order": "sequential"},
    "cvfl": {"name": "cvfl", "q": 3, "compressor": "scalar:4"},
    "cvfl, lattice": {"name": "cvfl", "q": 2, "compressor": "lattice:3"},
    "cvfl, gradients": {"name": "cvfl", "q": 2, "exchange": "gradients"},
    "pbcd": {"name": "pbcd"},
    "held workset": {"name": "celu", "w": 3, "r": 3, "overlap": False},
    "compressed": {"name": "fedsgd", "compress": {"embedding": "half", "gradient": "scalar:8"}},
}


def near_and_far(method, label_only=False, **options):
    case = small(3, "split", label_only, method=method, rounds=15, labels="shared",
                 evaluate_every="4 rounds", full_loss=True, batch_size=20, **options)  # fmt: skip
    near = with_network(case.job, latency="1ms")
    slow = {"forward": "3ms", "backward": "5ms", "aggregate": "2ms", "top": "1ms", "codec": "1ms"}
    far = with_network(case.job, slow, latency="70ms", bandwidth="200kbit")
    return case, near, far


@pytest.mark.parametrize("label_only", [False, True])
@pytest.mark.parametrize("name", LOCK_STEP)
def test_it_equals_a_training_there(name, label_only):
    case, near, far = near_and_far(LOCK_STEP[name], label_only)
    trained = simulate(far, case.data, case.modules)
    clocked = reclock(simulate(near, case.data, case.modules), far)
    assert clocked.history == trained.history
    assert clocked.losses == trained.losses
    assert clocked.summary() == trained.summary()
    for party in trained.parties:
        assert clocked.parties[party].ledger == trained.parties[party].ledger
        assert clocked.parties[party].spans == trained.parties[party].spans
        assert clocked.parties[party].exchanges == trained.parties[party].exchanges
        for key, tensor in trained.weights[party].items():
            assert torch.equal(tensor, clocked.weights[party][key])


def test_it_stops_at_the_target_as_the_training_does():
    case, near, far = near_and_far(
        {"name": "fedsgd"}, target=0.4, stop="target", optimizer={"name": "sgd", "lr": 1.0}
    )
    trained = simulate(far, case.data, case.modules)
    assert trained.status == "target" and 4 < trained.rounds < 15
    assert reclock(simulate(near, case.data, case.modules), far).history == trained.history


SPEEDS = {
    "p0": Costs(backward=[("0s", "50ms"), ("1s", "30ms")]),
    "p1": Costs(backward=[("0s", "10ms"), ("1s", "15ms")], top="2ms"),
    "p2": Costs(forward="3ms", backward="20ms"),
}
BY_COUNTS = {
    "flexvfl": {"name": "flexvfl", "momentum": 0.9},
    "adaptive": {"name": "flexvfl", "adaptive": True, "average": "ema:0.9"},
    "gradients": {"name": "flexvfl", "exchange": "gradients"},
    "sync_min": {"name": "sync_min"},
    "sync_max": {"name": "sync_max"},
}


def at_speeds(job, speeds, **link):
    return msgspec.structs.replace(
        with_network(job, **link), compute=Compute(overrides=dict(speeds))
    )


@pytest.mark.parametrize("label_only", [False, True])
@pytest.mark.parametrize("name", BY_COUNTS)
def test_where_only_the_number_of_updates_matters_it_equals_a_training_that_has_the_same(
    name, label_only
):
    case, near, _ = near_and_far(BY_COUNTS[name], label_only)
    constant = SPEEDS | {"p0": Costs(backward="50ms"), "p1": Costs(backward="10ms", top="2ms")}
    near = at_speeds(near, constant, latency="1ms")
    far = at_speeds(near, constant, latency="700ms", bandwidth="200kbit")
    trained = simulate(far, case.data, case.modules)
    clocked = reclock(simulate(near, case.data, case.modules), far)
    assert clocked.history == trained.history and clocked.summary() == trained.summary()
    for party in trained.parties:
        efforts = list(trained.parties[party].efforts)
        assert list(clocked.parties[party].efforts) == efforts
        assert clocked.parties[party].ledger == trained.parties[party].ledger
        for key, tensor in trained.weights[party].items():
            assert torch.equal(tensor, clocked.weights[party][key])
    assert max(count for count, _ in efforts) > 1


@pytest.mark.parametrize("name", BY_COUNTS)
def test_where_other_updates_would_be_done_it_is_refused(name):
    case, near, _ = near_and_far(BY_COUNTS[name])
    near = at_speeds(near, SPEEDS, latency="1ms")
    far = at_speeds(near, SPEEDS, latency="1s")
    run = simulate(near, case.data, case.modules)
    with pytest.raises(JobError, match="simulate the job instead"):
        reclock(run, far)


@pytest.mark.parametrize("name", ["pasta", "celu", "flexvfl", "sync_min", "vafl", "flexvfl_s"])
def test_methods_that_go_by_the_clock_are_refused(name):
    case, near, far = near_and_far({"name": name})
    with pytest.raises(JobError, match="simulate the job instead"):
        reclock(simulate(near, case.data, case.modules), far)


def test_another_job_is_refused():
    case, near, far = near_and_far({"name": "fedsgd"})
    run = simulate(near, case.data, case.modules)
    with pytest.raises(JobError, match="only for its own job"):
        reclock(run, msgspec.structs.replace(far, seed=9))


@pytest.mark.parametrize("method", [{"name": "pbcd"}, LOCK_STEP["cvfl"], {"name": "vafl"}])
def test_the_clock_alone_sends_as_much_as_a_training(method):
    case, near, _ = near_and_far(method)
    job = msgspec.structs.replace(
        near, train=msgspec.structs.replace(near.train, evaluate_every="never", full_loss=False)
    )
    trained = simulate(job, case.data, case.modules)
    widths = dict.fromkeys(case.parties, 4)
    # The small job's own top model is ready-made; the clock builds the one that the job names.
    top = msgspec.structs.replace(job.top, hidden=[4])
    clocked = simulate_clock(msgspec.structs.replace(job, top=top), 48, widths)
    assert clocked.time_s == trained.time_s
    assert after_greeting(clocked) == after_greeting(trained)


def after_greeting(run):
    """What crossed, but for the greeting, which names the labels that a clock does not have."""
    return {
        name: [entry for entry in party.ledger if entry["kind"] not in ("Hello", "Welcome")]
        for name, party in run.parties.items()
    }
