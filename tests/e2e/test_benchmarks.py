"""`make bench`, `make bench-wan` and the comparisons of settings in their smoke forms: everything
once and tiny, not judged.

The commands are those of the Makefile. `make torture` and `make fuzz` have their short forms in
`test_torture.py` and `test_fuzz.py`.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
import signal
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from benchmarks import messages
from benchmarks.figures import Figures
from colonnade.run.baselines import BOOSTING
from tests.wan.spaces import why_not

ROOT = Path(__file__).parents[2]


def recipe(target):
    """The modules that a target starts with `python -m`, each with its options."""
    text = (ROOT / "Makefile").read_text()
    lines = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, re.M)[1].splitlines()
    # As a file, and not as a module, it would not find what lies beside its folder.
    assert all(line.startswith("\t$(BIN)/python -m ") for line in lines), lines
    return [shlex.split(line)[2:] for line in lines]


pytestmark = pytest.mark.usefixtures("stood_in")


def start(monkeypatch, module, *options):
    """As `python -m` does, in this process."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", [module, *options])
    handler = signal.getsignal(signal.SIGTERM)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=False)
    finally:
        signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize("words", recipe("bench"), ids=lambda words: words[0])
def test_make_bench_runs(words, monkeypatch, capsys):
    start(monkeypatch, *words, "--smoke")
    assert "MISSED" not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("words", recipe("bench-large"), ids=lambda words: words[0])
def test_make_bench_large_runs(words, monkeypatch, capsys):
    start(monkeypatch, *words, "--smoke")
    assert "large ÷ small" in capsys.readouterr().out


def test_the_comparison_of_defaults_runs(monkeypatch, capsys):
    start(monkeypatch, "benchmarks.defaults", "--smoke")
    first, second = re.findall(r"\b[01]\.\d{3}\b(?= +│\n)", capsys.readouterr().out)
    assert float(first) > 0.5 and float(second) > 0.5, "a trial that fails counts as 0"


def test_the_study_of_stale_gradients_runs(monkeypatch, capsys):
    start(monkeypatch, "benchmarks.staleness", "--smoke")
    assert "0.44" in capsys.readouterr().out, "2 sin(π/14)"


def test_the_study_of_what_windows_and_bits_cost_runs(monkeypatch, capsys):
    start(monkeypatch, "benchmarks.tolerance", "--smoke")
    assert "4 in flight, ef+scalar:3" in capsys.readouterr().out


def test_a_race_becomes_a_picture_with_its_figures_in_words(monkeypatch, tmp_path):
    row = {"runs": 3, "time_s_mean": 15.0, "bytes_mean": 5.75e6}
    rows = [
        row | {"method": "auto:<b>&", "reached": 3},
        row | {"method": "fedsgd", "reached": 2, "time_s_mean": 80.0},
        row | {"method": "vafl", "reached": 0, "time_s_mean": None, "bytes_mean": None},
    ]
    race = {"job": "digits", "metric": "accuracy", "target": 0.93, "rows": rows}
    given, made = tmp_path / "race.json", tmp_path / "made.svg"
    given.write_text(json.dumps(race))
    start(monkeypatch, "benchmarks.frontier", str(given), str(given), "--out", str(made))
    root = ElementTree.fromstring(made.read_text())
    words = "".join(root.itertext())
    assert "auto:<b>& 15 s and 5.75 MB" in words and "fedsgd (2 of 3) 80 s" in words
    assert "vafl" not in words and len(root.findall("{*}circle")) == 4


def test_the_study_of_other_ideas_runs(monkeypatch, capsys):
    start(monkeypatch, "benchmarks.ideas", "--smoke")
    out = capsys.readouterr().out
    assert all(idea in out for idea in ("compensated at the embedding", "predicted", "annealed"))


def test_the_comparison_of_settings_for_few_customers_runs(monkeypatch, capsys):
    monkeypatch.setitem(BOOSTING, "max_iter", 20)
    start(monkeypatch, "benchmarks.overlap", "--smoke")
    shown = capsys.readouterr().out
    assert "the defaults" in shown and len(re.findall(r"[+-]\d+\.\d\d", shown)) == 4


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "")
@pytest.mark.parametrize("words", recipe("bench-wan"), ids=lambda words: words[0])
def test_make_bench_wan_runs(words, monkeypatch, capsys):
    start(monkeypatch, *words, "--smoke")
    shown = capsys.readouterr().out
    assert "Line rate" in shown and "Overlap" in shown


@pytest.mark.slow
def test_another_commit_is_measured_beside_this_one(capsys):
    messages.main(["--against", "HEAD", "--pairs", "1", "--rounds", "20"])
    assert capsys.readouterr().out.count("×") == 4


@pytest.mark.parametrize("target", ["torture", "fuzz"])
def test_the_harnesses_are_started_as_modules(target):
    ((module, *_),) = recipe(target)
    assert module == f"tests.{target}"


def test_a_missed_bound_is_marked(capsys):
    figures = Figures("Light")
    figures.add("epoch ÷ plain loop", 1.31, "1.31", most=1.25)
    figures.add("messages per second", 41_000, "41,000", least=40_000)
    figures.show(Console())
    shown = capsys.readouterr().out
    assert shown.count("MISSED") == 2 and shown.count("kept") == 1
    assert "epoch ÷ plain loop: 1.31, bound ≤ 1.25" in shown
