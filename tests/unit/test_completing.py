"""What a shell offers at Tab is what there is, and it comes without loading what is slow."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from colonnade import methods
from colonnade.cli import completing
from colonnade.job.files import builtin_names


def test_every_method_is_offered_with_its_options():
    import inspect

    known = methods.known()
    offered = completing.methods()
    assert sorted(offered) == sorted(known)
    for name, options in offered.items():
        assert options == list(inspect.signature(known[name]).parameters)


def test_every_reproduction_is_offered():
    from colonnade import reproduce

    assert completing.reproduction("") == sorted(reproduce.known())


def test_jobs_are_built_in_or_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").touch()
    (tmp_path / "other.txt").touch()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "next.toml").touch()
    assert completing.job("") == [*builtin_names(), "mine.toml", "more/"]
    assert completing.job("more/") == ["more/next.toml"]
    assert completing.job("nowhere/x") == []


@pytest.mark.parametrize(
    ("begun", "offered"),
    [
        ("fedsgd,pas", ["fedsgd,pasta"]),
        ("fedsgd,pasta:b_max=2:s_", ["fedsgd,pasta:b_max=2:s_max="]),
        ("fedsgd,fedbcd:upd", ["fedsgd,fedbcd:updates="]),
    ],
)
def test_the_last_of_several_methods_is_completed(begun, offered):
    assert completing.method_list(begun) == offered


def tab(line, **more):
    """What bash would be offered at the end of a line, and what was imported for it."""
    words = line.split() + [""] * line.endswith(" ")
    environment = os.environ | {
        "_COLONNADE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    code = (
        "import sys, atexit; from colonnade.cli import main; "
        "atexit.register(lambda: print('slow' if 'torch' in sys.modules else 'quick', "
        "file=sys.stderr)); sys.exit(main([]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stderr.strip() == "quick", done.stderr
    return done.stdout.split()


def test_bash_is_offered_commands_jobs_methods_and_parties(tmp_path):
    assert tab("colonnade sim") == ["simulate"]
    assert tab("colonnade simulate digits --method pas") == ["pasta"]
    assert tab("colonnade join digits --me ") == ["clinic", "lab", "insurer"]
