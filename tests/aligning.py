"""Alignments in the simulator and over mTLS, for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from colonnade.align.desk import IDS, Desk
from colonnade.align.idset import IdSet
from colonnade.align.program import Align
from colonnade.align.roles import Found
from colonnade.align.workers import Threads
from colonnade.job.records import Job, Party
from colonnade.party.session import run_session
from colonnade.protect.keys import Unsigned
from colonnade.sim.kernel import Simulator

Sets = Mapping[str, Sequence[str]]


def job_of(sets: Sets, active: str | None = None, **more) -> Job:
    """A job whose first party is the active one, unless said otherwise."""
    active = active or next(iter(sets))
    parties = {name: Party(role="active" if name == active else "passive") for name in sets}
    return Job(parties=parties, **more)


def drawn(name: str):
    """Bytes that only look random: the same in each run."""
    count = iter(range(10**9))
    return lambda size: hashlib.shake_256(f"{name} {next(count)}".encode()).digest(size)


def party(job: Job, name: str, texts, folder: Path, workers=None, **more) -> Align:
    desk = Desk(folder / name)

    def ids() -> str:
        texts_ = pa.array(list(texts), pa.large_string())
        IdSet.build(desk.folder / IDS, [texts_], job.ids, name)
        return ""

    given = {"credentials": Unsigned(), "randomness": drawn(name), **more}
    return Align(job, name, ids, desk, workers or Threads(1), **given)


def programs(job: Job, sets: Sets, folder: Path, **more) -> dict[str, Align]:
    return {name: party(job, name, texts, folder, **more) for name, texts in sets.items()}


def simulated(job: Job, parties: Mapping[str, Align], simulator: Simulator | None = None):
    """The outcome of each party, and their worlds."""
    simulator = simulator or Simulator(job)
    started = {name: run_session(simulator.worlds[name], [own]) for name, own in parties.items()}
    outcomes = simulator.run(started)
    return {name: outcome[0] for name, outcome in outcomes.items()}, simulator.worlds


def check_exact(sets: Sets, found: Mapping[str, Found]) -> None:
    """All parties have exactly the common ids, in one order."""
    common = set.intersection(*(set(texts) for texts in sets.values()))
    orders = {name: [sets[name][row] for row in each.rows] for name, each in found.items()}
    first = next(iter(orders.values()))
    assert sorted(first) == sorted(common)
    assert all(order == first for order in orders.values())
    assert len({each.common for each in found.values()}) == 1
