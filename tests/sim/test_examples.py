"""The examples run, and say what they should."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from colonnade import load, simulate

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_own_tensors(capsys):
    runpy.run_path(str(EXAMPLES / "own_tensors.py"))
    assert "of virtual time" in capsys.readouterr().out


@pytest.mark.parametrize(("most", "local"), [(1, 0), (3, 21 * 1 + 21 * 2 + 21 * 2)])
def test_a_method_from_outside(most, local, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES.parent)
    name = "examples.my_method:growing"
    job = load("digits", ["train.epochs=4", f"method.most={most}"], method=name)
    run = simulate(job)
    assert {party.local for party in run.parties.values()} == {local}
    assert run.composition == {"local": f"growing(most={most}, keep=1)"}


def test_a_method_from_outside_is_thirty_lines():
    lines = (EXAMPLES / "my_method.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 30
