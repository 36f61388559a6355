"""Alignments through crashes: little is repeated, and the result is the same."""

from __future__ import annotations

import random

import pytest

from colonnade.party.session import run_session
from colonnade.testing.lossy import LossySimulator
from colonnade.testing.stores import MemoryStore
from tests.aligning import check_exact, job_of, party, programs, simulated
from tests.small import with_network

SETS = {
    "bank": [f"c{n}" for n in range(1000)],
    "telco": [f"c{n}" for n in range(300, 1200)],
    "shop": [f"c{n}" for n in range(100, 800, 2)],
}


MORE = {
    "bank": [*SETS["bank"], *(f"d{n}" for n in range(120))],
    "telco": ["c101", *(f"d{n}" for n in range(100)), *SETS["telco"]],
    "shop": [*SETS["shop"], *(f"d{n}" for n in range(50, 250))],
}


def seeds(first):
    """Ten, of which most are among the slow tests."""
    few, many = range(first, first + 4), range(first + 4, first + 10)
    return [*few, *(pytest.param(seed, marks=pytest.mark.slow) for seed in many)]


@pytest.mark.parametrize("seed", seeds(0))
def test_a_crash_at_any_moment_repeats_little_and_changes_nothing(tmp_path, monkeypatch, seed):
    monkeypatch.setattr("colonnade.align.plan.CHUNK", 50)
    monkeypatch.setattr("colonnade.align.garbled.BUCKET", 300)
    through_crashes(tmp_path, seed, SETS, 0)


@pytest.mark.parametrize("seed", seeds(10))
def test_a_crash_in_an_update_changes_nothing_either(tmp_path, monkeypatch, seed):
    monkeypatch.setattr("colonnade.align.plan.CHUNK", 20)
    monkeypatch.setattr("colonnade.align.garbled.BUCKET", 150)
    job = job_of(SETS)
    simulated(job, programs(job, SETS, tmp_path))
    through_crashes(tmp_path, seed, MORE, 1)


def through_crashes(tmp_path, seed, sets, step):
    rng = random.Random(seed)
    active = rng.choice(list(sets)) if not step else "bank"
    job = with_network(job_of(sets, active=active), latency="10ms")
    stores = {name: MemoryStore() for name in sets}
    asked = []

    def fresh(name):
        own = party(job, name, sets[name], tmp_path, store=stores[name], step=step)
        begin = own.begin

        def begins(world, welcome):
            asked.append((name, welcome.start))
            begin(world, welcome)

        own.begin = begins
        return own

    simulator = LossySimulator(job, until_ns=10**13)
    victim, crashed = rng.choice(list(sets)), []

    def crash():
        if simulator.crash(victim):
            crashed.append(simulator.now_ns)
            again = run_session(simulator.worlds[victim], [fresh(victim)])
            later = simulator.now_ns + rng.randrange(10**6, 10**8)
            simulator.call_at(later, lambda: simulator.restart(victim, again))

    for _ in range(3):
        simulator.call_at(rng.randrange(10**6, 10**8), crash)
    parties = {name: fresh(name) for name in sets}
    started = {name: run_session(simulator.worlds[name], [own]) for name, own in parties.items()}
    outcomes = simulator.run(started)
    check_exact(sets, {name: outcome[0] for name, outcome in outcomes.items()})
    assert crashed
    # Each return goes back by no more than the rounds that were in flight.
    starts = [start for name, start in asked if name == active]
    assert starts == sorted(starts)
