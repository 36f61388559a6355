"""Two worlds, one result: what a lock-step method learns, measures and sends does not depend on
whether its parties meet in the simulator, behind lossy links, or over mTLS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from colonnade import methods, simulate
from colonnade.party.training import Training
from colonnade.run.setup import prepare
from colonnade.sim.links import Drop, Pass
from colonnade.testing.expect import expect_same
from colonnade.testing.lossy import LossySimulator
from colonnade.testing.stores import MemoryStore
from tests.netrun import run_program, run_trainings
from tests.small import small, with_network

OPTIONS = {
    "fedbcd, sequential": {"name": "fedbcd", "updates": 3, "order": "sequential"},
    "fedbcd, proximal": {"name": "fedbcd", "updates": 3, "step": "proximal:0.1"},
    "fedbcd, averaged": {"name": "fedbcd", "updates": 2, "average": "ema:0.9"},
    "cvfl, lattice": {"name": "cvfl", "q": 3, "compressor": "lattice:4"},
    "cvfl, feedback": {"name": "cvfl", "q": 2, "compressor": "ef+topk:2"},
    "efvfl, both": {"name": "efvfl", "both": True, "compressor": "topk:2"},
    "efvfl, snapshot": {"name": "efvfl", "exchange": "snapshot"},
    "cvfl, gradients": {"name": "cvfl", "q": 3, "exchange": "gradients", "compressor": "scalar:4"},
}
# Ten local updates, as it does unless told otherwise, show no more than three.
NAMED = {name: {"name": name} for name in methods.known()} | {"cvfl": {"name": "cvfl", "q": 3}}
LOCKSTEP = NAMED | OPTIONS
LOCKSTEP = {name: table for name, table in LOCKSTEP.items() if not methods.build(table).by_clock}


@dataclass(frozen=True)
class Played:
    """What a training came to, without its times: for a method in lock-step the same anywhere."""

    weights: dict[str, Any]
    best: dict[str, Any]
    history: list[dict[str, Any]]
    losses: list[dict[str, Any]]
    ledger: dict[str, Any]

    def expect_equal(self, other, sentence):
        expect_same(self.weights, other.weights, sentence)
        one, two = ({n: kept or {} for n, kept in each.best.items()} for each in (self, other))
        expect_same(one, two, f"{sentence}, in its best round")
        assert self.history == other.history, f"{sentence}: its evaluations differ"
        assert self.losses == other.losses, f"{sentence}: its losses differ"
        assert self.ledger == other.ledger, f"{sentence}: it sends something else"


def timeless(rows, *fields):
    """The rows without their times, or with these fields only."""
    return [{key: row[key] for key in fields or row.keys() - {"time_s"}} for row in rows]


def simulated(case):
    run = simulate(case.job, case.data, case.modules)
    ledger = {name: party.ledger for name, party in run.parties.items()}
    losses = timeless(run.losses, "round", "loss")
    return Played(run.weights, run.best_weights, timeless(run.history), losses, ledger)


def trainings_of(case):
    parties = prepare(case.job, case.data, case.modules)
    return {name: Training.of(party, MemoryStore()) for name, party in parties.items()}


def played(case, outcomes, worlds):
    history = outcomes[case.job.active].history
    return Played(
        {name: outcome.weights for name, outcome in outcomes.items()},
        {name: outcome.best_weights for name, outcome in outcomes.items()},
        timeless(history.evaluations),
        timeless(history.rounds),
        {name: world.ledger.entries() for name, world in worlds.items()},
    )


def networked(case):
    return played(case, *run_trainings(case.job, trainings_of(case)))


def lossy(case):
    """Every seventh segment is lost."""
    rule = lambda envelope: Drop() if envelope.number % 7 == 3 else Pass()  # noqa: E731
    simulator = LossySimulator(case.job, [rule], until_ns=10**13)
    trainings, worlds = trainings_of(case), simulator.worlds
    sessions = {name: run_program(worlds[name], own) for name, own in trainings.items()}
    return played(case, simulator.run(sessions), worlds)


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


# A training with checkpoints does all that one without does.
WITHOUT = [pytest.param(name, None, marks=[pytest.mark.slow] * (name != "fedsgd"))
           for name in LOCKSTEP]  # fmt: skip


@pytest.mark.parametrize(("method", "every"), [*((name, 7) for name in LOCKSTEP), *WITHOUT])
def test_all_worlds_give_one_result(method, every):
    case = small(3, method=LOCKSTEP[method], rounds=20, evaluate_every="5 rounds",
                 labels="shared", checkpoint_every=every)  # fmt: skip
    case.job = with_network(case.job, latency="5ms")
    usual = simulated(case)
    usual.expect_equal(networked(case), f"{method} is another training over the network")
    usual.expect_equal(lossy(case), f"{method} is another training behind links that lose")
