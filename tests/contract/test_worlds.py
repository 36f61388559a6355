"""Every world passes the public checks."""

from __future__ import annotations

import random

import pytest

from colonnade.sim.kernel import Simulator
from colonnade.sim.links import Drop, Pass, Repeat
from colonnade.testing import check_world
from colonnade.testing.lossy import LossySimulator
from tests.netrun import run_programs

MS = 1_000_000


def started(simulator, programs):
    worlds = simulator.worlds
    return simulator.run({name: programs[name](worlds[name]) for name in worlds}), worlds


def simulated(job, programs):
    return started(Simulator(job), programs)


def lossy(job, programs):
    """Behind sessions, on links that lose, repeat and reorder."""
    chance = random.Random(1)

    def rule(envelope):
        draw = chance.random()
        if draw < 0.1:
            return Drop()
        return Repeat((2 * MS, 9 * MS)) if draw < 0.3 else Pass()

    return started(LossySimulator(job, [rule], until_ns=600_000 * MS), programs)


@pytest.mark.parametrize("run", [simulated, lossy, run_programs], ids=["sim", "lossy", "network"])
def test_it_keeps_the_contract_of_a_world(run):
    check_world(run)
