"""Long work shows how far it is: a bar on a terminal, else lines; nothing where that is wanted."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from colonnade.cli.progress import follow_runs, follow_steps, follow_study
from colonnade.job import load
from colonnade.run.pool import Trial


def console(terminal):
    return Console(file=StringIO(), force_terminal=terminal, width=80)


def steps(out, quiet=False):
    with follow_steps(out, "attack", quiet) as told:
        told(0, 2, "norm on bank's labels")
        told(1, 2, "ridge on telco's columns")
    return out.file.getvalue()


def study(out, quiet=False):
    with follow_study(out, quiet) as say:
        say("the rates are tuned")
        say("credit, seed 0: done", 3, 7)
    return out.file.getvalue()


def stages(out, quiet=False):
    with follow_runs(out, None, quiet) as following:
        following.on_plan("rung 1", 3, 5)
        following.on_done(Trial("fedsgd, seed 7", load("digits"), None, [], "it failed"))
        following.on_plan("the table", 2, 2)
    return out.file.getvalue()


def test_without_a_terminal_there_are_lines():
    assert steps(console(False)).splitlines() == [
        "attack 1 of 2: norm on bank's labels",
        "attack 2 of 2: ridge on telco's columns",
    ]
    assert stages(console(False)).splitlines() == [
        "rung 1: 3 runs to do, and 2 are there already",
        "run 1 of 3: fedsgd, seed 7: failed",
        "the table: 2 runs to do",
    ]
    assert study(console(False)).splitlines() == ["the rates are tuned", "credit, seed 0: done"]


def test_on_a_terminal_there_is_a_bar():
    shown = steps(console(True))
    assert "attacks" in shown and "1/2" in shown and "ridge on telco's columns" in shown
    shown = stages(console(True))
    assert "rung" in shown and "0/2" in shown
    shown = study(console(True))
    assert "the rates are tuned" in shown and "3/7" in shown and "credit, seed 0" in shown


@pytest.mark.parametrize("terminal", [True, False])
def test_who_wants_quiet_has_it(terminal):
    for shown in (steps, stages, study):
        assert shown(console(terminal), quiet=True) == ""
