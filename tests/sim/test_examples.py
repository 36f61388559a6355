"""The examples run, and say what they should."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
from pathlib import Path

import pytest

from colonnade import load, simulate
from tests.warm import python

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


def outsider(*words):
    """A command in the folder of a contributor, who has the installed package and that folder."""
    folder = EXAMPLES / "afternoon"
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python(), "-m", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def test_an_afternoons_work_passes_the_public_checks():
    done = outsider("pytest", "-q", "-p", "no:cacheprovider", ".")
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout or "....." in done.stdout


def test_an_afternoons_work_is_found_by_name():
    named = ["--set", "method.compress.embedding=mine.codecs:signs"]
    named += ["--set", 'parties.*.model={ name = "mine.models:gated", embedding = 8 }']
    short = ["--set", "train.rounds=3", "--quiet", "--json"]
    method = ["--method", "mine.methods:gentle:rounds=30"]
    done = outsider("colonnade", "simulate", "digits", *method, *named, *short)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["composition"] == {
        "local": "repeat(updates=3)",
        "rate": "warm_up(rounds=30)",
        "compress": "compress(embedding=mine.codecs:signs)",
    }
    refused = outsider("colonnade", "simulate", "job.toml", *short)
    assert refused.returncode == 2 and "--allow mine.methods" in refused.stderr
    allowed = outsider("colonnade", "simulate", "job.toml", "--allow", "mine", *short)
    assert allowed.returncode == 0, allowed.stderr
