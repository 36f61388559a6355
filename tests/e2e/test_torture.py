"""The short form of `make torture`: every party is killed once, in training, as it saves, and as
it says goodbye."""

from __future__ import annotations

import signal

import pytest

from tests.alliance import Forked
from tests.torture import IN_STEP, Killer, Torture, main


class Chosen:
    """Chance, where it has been decided beforehand."""

    def __init__(self, *moments):
        self._moments = list(moments)

    def choices(self, options, weights):
        return [self._moments.pop(0)]

    def choice(self, options):
        return options[0]

    def random(self):
        return 0.5

    def randrange(self, least, most):
        return least


@pytest.mark.parametrize(
    "method",
    ["celu", *(pytest.param(each, marks=pytest.mark.slow) for each in ("fedsgd", "masked"))],
)
def test_a_job_outlives_its_parties(tmp_path, method):
    torture = Torture(tmp_path, method, Forked, rounds=150, limit_s=60)
    if method in IN_STEP:
        torture.undisturbed()
    with torture.alliance("disturbed") as alliance:
        killer = Killer(alliance, Chosen("training", "checkpoint", "goodbye"))
        alliance.start()
        for victim in ("lab", "clinic", "insurer"):
            killer.strike(victim)
        killer.rage(0, 60)
        torture.check(alliance)
        assert killer.count() == 3, killer.kills
        assert "goes on from" in alliance.log("lab")


def test_the_command_runs_in_its_smoke_form(capsys):
    """As `make torture` starts it, and with one of the scenes that follow the kills."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert main(["--smoke"]) == 0
    finally:
        signal.signal(signal.SIGTERM, handler)
    shown = capsys.readouterr().out
    assert "1 kills" in shown and "all connections reset" in shown
