"""Two worlds, one result: what a lock-step method learns, measures and sends does not depend on
whether its parties meet in the simulator, behind lossy links, or over mTLS."""

from __future__ import annotations

import pytest
import torch

from colonnade import methods, simulate
from colonnade.party.session import attend
from colonnade.run.setup import prepare, seat
from colonnade.sim.kernel import Simulator
from colonnade.sim.links import Drop, Pass
from colonnade.testing.lossy import LossyWorld
from tests.netrun import run_seats
from tests.small import small, with_network
from tests.stores import MemoryStore

OPTIONS = {
    "fedbcd, sequential": {"name": "fedbcd", "updates": 3, "order": "sequential"},
    "fedbcd, proximal": {"name": "fedbcd", "updates": 3, "step": "proximal:0.1"},
    "cvfl, lattice": {"name": "cvfl", "q": 3, "compressor": "lattice:4"},
    "cvfl, feedback": {"name": "cvfl", "q": 2, "compressor": "ef+topk:2"},
    "cvfl, gradients": {"name": "cvfl", "exchange": "gradients", "compressor": "scalar:4"},
}
LOCKSTEP = {name: {"name": name} for name in methods.known()} | OPTIONS
LOCKSTEP = {name: table for name, table in LOCKSTEP.items() if not methods.build(table).by_clock}


def by_hand(case, worlds, outcomes):
    """A run in the terms that are compared."""
    history = outcomes[case.job.active].history
    return {
        "weights": {name: outcome.weights for name, outcome in outcomes.items()},
        "best": {name: outcome.best_weights for name, outcome in outcomes.items()},
        "history": [_timeless(row) for row in history.evaluations],
        "rounds": [_timeless(row) for row in history.rounds],
        "ledger": {name: world.ledger.entries() for name, world in worlds.items()},
    }


def _timeless(row):
    return {key: value for key, value in row.items() if key != "time_s"}


def simulated(case):
    run = simulate(case.job, case.data, case.modules)
    return {
        "weights": run.weights,
        "best": {name: party.best_weights for name, party in run.parties.items()},
        "history": [_timeless(row) for row in run.history],
        "rounds": [{key: row[key] for key in ("round", "loss")} for row in run.losses],
        "ledger": {name: party.ledger for name, party in run.parties.items()},
    }


def seated(case):
    parties = prepare(case.job, case.data, case.modules)
    return {name: seat(party, MemoryStore()) for name, party in parties.items()}


def networked(case):
    outcomes, worlds = run_seats(case.job, seated(case))
    return by_hand(case, worlds, outcomes)


def lossy(case):
    seats = seated(case)
    lost = [lambda e: Drop() if e.number % 7 == 3 else Pass()]
    simulator = Simulator(case.job, lost, LossyWorld, until_ns=10**13)
    started = {name: attend(simulator.worlds[name], seat) for name, seat in seats.items()}
    outcomes = simulator.run(started)
    return by_hand(case, simulator.worlds, outcomes)


def assert_equal(one, other):
    for kind in ("weights", "best"):
        for party, weights in one[kind].items():
            for name, tensor in weights.items():
                assert torch.equal(tensor, other[kind][party][name]), (kind, party, name)
    assert one["history"] == other["history"]
    assert one["rounds"] == other["rounds"]
    assert one["ledger"] == other["ledger"]


AHEAD = {
    "pasta": {"name": "pasta"},
    "vafl": {"name": "vafl"},
    "celu, pipelined": {"name": "celu", "window": "pipelined:3"},
}


@pytest.mark.parametrize("world", [networked, lossy])
@pytest.mark.parametrize("method", AHEAD)
def test_both_ends_count_what_is_under_way_at_an_early_end(method, world):
    case = small(3, method=AHEAD[method], rounds=40, evaluate_every="5 rounds",
                 metric="accuracy", target=0.1, stop="target")  # fmt: skip
    case.job = with_network(case.job, latency="30ms")
    ledger = world(case)["ledger"]
    mirror = {"sent": "received", "received": "sent"}
    for passive in case.job.passives:
        own = [(e["direction"], e["kind"], e["messages"], e["bytes"]) for e in ledger[passive]]
        theirs = [(mirror[e["direction"]], e["kind"], e["messages"], e["bytes"])
                  for e in ledger[case.job.active] if e["peer"] == passive]  # fmt: skip
        assert sorted(own) == sorted(theirs)


@pytest.mark.parametrize("world", [networked, lossy])
@pytest.mark.parametrize("every", [None, 7])
@pytest.mark.parametrize("method", LOCKSTEP)
def test_two_worlds_give_one_result(method, world, every):
    case = small(3, method=LOCKSTEP[method], rounds=20, evaluate_every="5 rounds",
                 labels="shared", checkpoint_every=every)  # fmt: skip
    case.job = with_network(case.job, latency="5ms")
    assert_equal(simulated(case), world(case))
