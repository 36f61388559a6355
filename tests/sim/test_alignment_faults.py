"""Alignments through crashes: little is repeated, and the result is the same."""

from __future__ import annotations

import random

import pytest

from colonnade.party.session import run_session
from colonnade.testing.lossy import LossySimulator
from colonnade.testing.stores import MemoryStore
from tests.aligning import check_exact, job_of, party
from tests.small import with_network

SETS = {
    "bank": [f"c{n}" for n in range(1000)],
    "telco": [f"c{n}" for n in range(300, 1200)],
    "shop": [f"c{n}" for n in range(100, 800, 2)],
}


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_at_any_moment_repeats_little_and_changes_nothing(tmp_path, monkeypatch, seed):
    monkeypatch.setattr("colonnade.align.plan.CHUNK", 50)
    monkeypatch.setattr("colonnade.align.garbled.BUCKET", 300)
    rng = random.Random(seed)
    active = rng.choice(list(SETS))
    job = with_network(job_of(SETS, active=active), latency="10ms")
    stores = {name: MemoryStore() for name in SETS}
    asked = []

    def fresh(name):
        own = party(job, name, SETS[name], tmp_path, store=stores[name])
        begin = own.begin

        def begins(world, welcome):
            asked.append((name, welcome.start))
            begin(world, welcome)

        own.begin = begins
        return own

    simulator = LossySimulator(job, until_ns=10**13)
    victim, crashed = rng.choice(list(SETS)), []

    def crash():
        if simulator.crash(victim):
            crashed.append(simulator.now_ns)
            again = run_session(simulator.worlds[victim], [fresh(victim)])
            later = simulator.now_ns + rng.randrange(10**6, 10**8)
            simulator.call_at(later, lambda: simulator.restart(victim, again))

    for _ in range(3):
        simulator.call_at(rng.randrange(10**6, 10**8), crash)
    parties = {name: fresh(name) for name in SETS}
    started = {name: run_session(simulator.worlds[name], [own]) for name, own in parties.items()}
    outcomes = simulator.run(started)
    check_exact(SETS, {name: outcome[0] for name, outcome in outcomes.items()})
    assert crashed
    # Each return goes back by no more than the rounds that were in flight.
    starts = [start for name, start in asked if name == active]
    assert starts == sorted(starts)
