"""Two worlds, one result: what a lock-step method learns, measures and sends does not depend on
whether its parties meet in the simulator, behind lossy links, or over mTLS."""

from __future__ import annotations

import pytest

from colonnade import methods, simulate
from colonnade.party.training import Training
from colonnade.run.setup import prepare
from colonnade.testing.parties import Played, play, played
from colonnade.testing.stores import MemoryStore
from tests.netrun import run_trainings
from tests.small import small, with_network

OPTIONS = {
    "fedbcd, sequential": {"name": "fedbcd", "updates": 3, "order": "sequential"},
    "fedbcd, proximal": {"name": "fedbcd", "updates": 3, "step": "proximal:0.1"},
    "cvfl, lattice": {"name": "cvfl", "q": 3, "compressor": "lattice:4"},
    "cvfl, feedback": {"name": "cvfl", "q": 2, "compressor": "ef+topk:2"},
    "cvfl, gradients": {"name": "cvfl", "exchange": "gradients", "compressor": "scalar:4"},
}
LOCKSTEP = {name: {"name": name} for name in methods.known()} | OPTIONS
LOCKSTEP = {name: table for name, table in LOCKSTEP.items() if not methods.build(table).by_clock}


def networked(case):
    parties = prepare(case.job, case.data, case.modules)
    trainings = {name: Training.of(party, MemoryStore()) for name, party in parties.items()}
    outcomes, worlds = run_trainings(case.job, trainings)
    return played(case, outcomes, {name: world.ledger for name, world in worlds.items()})


def lossy(case):
    return play(case, lossy=True, stores={name: MemoryStore() for name in case.job.parties})


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
    ledger = world(case).ledger
    mirror = {"sent": "received", "received": "sent"}
    for passive in case.job.passives:
        own = [(e["direction"], e["kind"], e["messages"], e["bytes"]) for e in ledger[passive]]
        theirs = [(mirror[e["direction"]], e["kind"], e["messages"], e["bytes"])
                  for e in ledger[case.job.active] if e["peer"] == passive]  # fmt: skip
        assert sorted(own) == sorted(theirs)


@pytest.mark.parametrize("every", [None, 7])
@pytest.mark.parametrize("method", LOCKSTEP)
def test_two_worlds_give_one_result(method, every):
    """Behind lossy links as well: `check_method` has seen to that."""
    case = small(3, method=LOCKSTEP[method], rounds=20, evaluate_every="5 rounds",
                 labels="shared", checkpoint_every=every)  # fmt: skip
    case.job = with_network(case.job, latency="5ms")
    simulated = Played.of(simulate(case.job, case.data, case.modules))
    simulated.expect_equal(networked(case), f"{method} is another training over the network")
