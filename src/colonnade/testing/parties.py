"""Whole parties for checks: how they are set up, run, and what they announce.

The other modules of this room know only `simulate` and what is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from colonnade.party.program import Program
from colonnade.party.session import run_session
from colonnade.party.training import Training
from colonnade.party.world import World
from colonnade.record.checkpoints import Store
from colonnade.record.run import Run
from colonnade.run.ceiling import Most, ceiling
from colonnade.run.setup import prepare
from colonnade.sim.kernel import Simulator
from colonnade.sim.links import Drop, Envelope, Pass, Rule, Verdict
from colonnade.sim.world import SimulatedWorld
from colonnade.testing.expect import Weights, expect, expect_same
from colonnade.testing.lossy import LossyWorld
from colonnade.testing.small import Small
from colonnade.wire.messages import CONTROL

Entry = Mapping[str, Any]
Rows = list[dict[str, Any]]
UNTIL_NS = 10**13
"""When a run behind lossy links is given up, in virtual time."""


@dataclass(frozen=True)
class Played:
    """What a training came to, without its times: for a method in lock-step the same anywhere."""

    weights: Weights
    best: Mapping[str, Mapping[str, torch.Tensor] | None]
    history: Rows
    losses: Rows
    ledger: Mapping[str, Sequence[Entry]]

    @classmethod
    def of(cls, run: Run) -> Played:
        """What a simulated run came to."""
        return cls(
            run.weights,
            {name: party.best_weights for name, party in run.parties.items()},
            [_timeless(row) for row in run.history],
            [{key: row[key] for key in ("round", "loss")} for row in run.losses],
            {name: party.ledger for name, party in run.parties.items()},
        )

    def expect_equal(self, other: Played, sentence: str) -> None:
        """Hold another training against this one, to the last bit."""
        expect_same(self.weights, other.weights, sentence)
        one, two = ({n: kept or {} for n, kept in each.best.items()} for each in (self, other))
        expect_same(one, two, f"{sentence}, in its best round")
        expect(self.history == other.history, f"{sentence}: its evaluations differ")
        expect(self.losses == other.losses, f"{sentence}: its losses differ")
        expect(self.ledger == other.ledger, f"{sentence}: it sends something else")


@dataclass(frozen=True)
class Announced:
    """What a party says beforehand that it sends and receives, control messages apart."""

    sends: frozenset[str]
    receives: frozenset[str]
    most: Most
    """At a passive party, the most messages and bytes of each kind that it can be made to send."""


async def run_program(world: World, program: Program) -> Any:
    """What comes out of a session of one program."""
    (outcome,) = await run_session(world, [program])
    return outcome


def play(case: Small, *, lossy: bool = False, stores: Mapping[str, Store] | None = None) -> Played:
    """Train a case with checkpoints in `stores`, perhaps behind links that lose every 7th segment.

    >>> from colonnade.testing.small import small
    >>> sorted(play(small(2, rounds=2), lossy=True).weights)
    ['p0', 'p1']
    """
    parties, kept = prepare(case.job, case.data, case.modules), stores or {}
    rules: Sequence[Rule] = [_every_seventh_lost] if lossy else ()
    world, until_ns = (LossyWorld, UNTIL_NS) if lossy else (SimulatedWorld, None)
    simulator = Simulator(case.job, rules, world, until_ns)
    sessions = {
        name: run_program(simulator.worlds[name], Training.of(party, kept.get(name)))
        for name, party in parties.items()
    }
    outcomes = simulator.run(sessions)
    return played(case, outcomes, {name: w.ledger for name, w in simulator.worlds.items()})


def played(case: Small, outcomes: Mapping[str, Any], ledgers: Mapping[str, Any]) -> Played:
    """What the parties' outcomes and ledgers come to."""
    history = outcomes[case.job.active].history
    return Played(
        {name: outcome.weights for name, outcome in outcomes.items()},
        {name: outcome.best_weights for name, outcome in outcomes.items()},
        [_timeless(row) for row in history.evaluations],
        [_timeless(row) for row in history.rounds],
        {name: ledger.entries() for name, ledger in ledgers.items()},
    )


def announced(case: Small) -> dict[str, Announced]:
    """What each party of a case announces.

    >>> from colonnade.testing.small import small
    >>> sorted(announced(small(2))["p0"].sends)
    ['Embedding']
    """
    found = {}
    for name, party in prepare(case.job, case.data, case.modules).items():
        sends, receives = Training.of(party).kinds.names()
        most = {} if party.leads else ceiling(party)
        found[name] = Announced(frozenset(sends), frozenset(receives), most)
    return found


def without_control(entries: Sequence[Entry]) -> list[Entry]:
    """The entries of a ledger that carry something of the data."""
    return [entry for entry in entries if entry["kind"] not in CONTROL]


def _timeless(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "time_s"}


def _every_seventh_lost(envelope: Envelope) -> Verdict:
    return Drop() if envelope.number % 7 == 3 else Pass()
