"""Every command and every piece of Python in README and docs, so that none can rot.

What trains or compares is run, for two rounds; what needs several hosts, processes or an hour is
read by the command line's own parser. `ELSEWHERE` names the tests that run those as they stand.
"""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
from functools import cache
from pathlib import Path

import pytest
import typer

import colonnade as cn
from colonnade.cli import app, main
from tests.documented import PAGES, ROOT, blocks, inline

ELSEWHERE = {
    "docs/guides/credit.md": "tests/e2e/test_credit_guide.py",
    "docs/guides/three-hosts.md": "tests/e2e/test_guide.py",
    "dashboard": "tests/e2e/test_dashboard_page.py",
    "demo": "tests/e2e/test_launch.py",
    "launch": "tests/e2e/test_launch.py",
    "align": "tests/e2e/test_align.py",
    "join": "tests/e2e/test_guide.py",
    "serve": "tests/e2e/test_serve.py",
    "stop": "tests/e2e/test_guide.py",
    "ledger": "tests/e2e/test_guide.py",
    "reproduce": "tests/sim/test_reproduce.py",
}
RUN = ("simulate", "compare", "sweep", "race", "inspect", "privacy", "export", "jobs", "methods")
RUN += ("plan", "keys", "report", "trace", "--version", "--help")
QUICK = ("--set", "train.rounds=2", "--quiet")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
BRIEF_RACE = ("--rates", "1x", "--growth", "0", "--average", "none", "--tuning-seeds", "100")
BRIEF_RACE += ("--seeds", "0")
NEEDS_DATA = ("credit", "mnist-3v8")


def name_of(page):
    return str(page.relative_to(ROOT))


def test_the_tests_that_run_commands_elsewhere_exist():
    assert all((ROOT / path).exists() for path in ELSEWHERE.values())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_of_a_page_is_one_that_exists(page):
    commands = [command for block in blocks(page) for command in block.commands()]
    for command in commands:
        check(command.words, whole=True)
    for command in inline(page):
        check(command.words, whole=False)


def check(words, whole):
    """A command's parts exist; `whole` where nothing is left for the reader to put in."""
    program, *rest = words
    if program == "make":
        assert rest[0] in TARGETS, f"make {rest[0]}: no such target"
    elif program in ("python", "python3"):
        if rest[0] == "-m":
            assert importlib.util.find_spec(rest[1]) is not None, rest[1]
    elif program == "torchrun":
        place = rest.index("-m")
        assert rest[place + 1] == "colonnade"
        parse(rest[place + 2 :], whole)
    else:
        parse(rest, whole)


@cache
def command_line():
    return typer.main.get_command(app)


def parse(words, whole):
    """Let the command line read the words, and do nothing."""
    words = [word for word in words if word not in ("…", "COMMAND")]
    command = command_line()
    context = command.make_context("colonnade", [], resilient_parsing=True)
    while words and not words[0].startswith("-") and hasattr(command, "commands"):
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command = command.commands[words.pop(0)]
    if words not in (["--help"], ["--version"]):
        command.make_context("colonnade", words, parent=context, resilient_parsing=not whole)


def quick(words):
    """The short form of a command: two rounds, in this process, with the data that is here."""
    if words[0] in ("simulate", "compare", "sweep", "race"):
        one = ("--workers", "1") if words[0] != "simulate" else ()
        brief = BRIEF_RACE if words[0] == "race" else ()
        fewer = [word for word in words if word != "--quiet"]
        return [*fewer, *QUICK, *one, *brief]
    return list(words)


def data_is_here(words):
    job = Path(words[1]) if len(words) > 1 else Path()
    if words[0] == "privacy":
        return job.exists()
    text = job.read_text() if job.suffix == ".toml" and job.exists() else f'data = "{job}"'
    needed = words[0] != "jobs" and any(f'data = "{name}"' in text for name in NEEDS_DATA)
    return not needed or Path(os.environ.get("COLONNADE_DATA", "nowhere")).exists()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if name_of(page) not in ELSEWHERE], ids=name_of
)
def test_every_command_that_trains_runs_and_says_what_the_page_says(
    page, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.syspath_prepend(str(tmp_path))
    for block in blocks(page):
        if block.language == "python" and '.csv", "w"' in block.text:
            exec(compile(block.text, name_of(page), "exec"), {})
        if block.language == "toml" and "[parties." in block.text and "[train]" in block.text:
            Path("my-job.toml").write_text(block.text)
        for command in block.commands():
            program, *words = command.words
            if program == "colonnade" and words and words[0] in RUN and data_is_here(words):
                with monkeypatch.context() as changed:
                    if "is not on this computer" in command.said:
                        changed.delenv("COLONNADE_DATA", raising=False)
                    run(command, words, capsys)


def run(command, words, capsys):
    code = main(words if command.said else quick(words))
    shown = capsys.readouterr()
    if command.said:
        assert code in (1, 2), command
        said = shown.err.replace(f"{Path.cwd()}/", "")
        assert " ".join(said.split()) == " ".join(command.said.split())
    else:
        assert code == 0, f"{command}: {shown.err}"
    if command.into:
        Path(command.into).write_text(shown.out)


RAISES = re.compile(r"^# colonnade\.errors\.(\w+):", re.M)
READ_ONLY = {
    "docs/architecture.md": "an excerpt of party/world.py",
    "docs/guides/credit.md": "tests/e2e/test_credit_guide.py",
    "docs/guides/launch.md": "tests/e2e/test_launch.py",
    "docs/guides/notebook.md": "tests/sim/test_notebooks.py",
    "docs/guides/ten-minutes.md": "tests/sim/test_ten_minutes.py",
    "docs/guides/three-hosts.md": "tests/e2e/test_guide.py",
}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_piece_of_python_of_a_page_runs(page, tmp_path, monkeypatch):
    found = [block.text for block in blocks(page) if block.language == "python"]
    if not found:
        pytest.skip("no Python on this page")
    monkeypatch.chdir(tmp_path)
    load = cn.load

    def quick_load(job, sets=(), **more):
        short = [] if any("train.rounds" in text for text in sets) else ["train.rounds=2"]
        return load(job, [*sets, *short], **more)

    monkeypatch.setattr(cn, "load", quick_load)
    # What would start processes stands under `if __name__ == "__main__"`, as it has to.
    names = {"__name__": "page", "cn": cn}
    for text in found:
        if text.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(text, names, name_of(page), None, 0)
            assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
            continue
        code = compile(text, name_of(page), "exec")
        if name_of(page) in READ_ONLY:
            continue
        if raised := RAISES.search(text):
            with pytest.raises(getattr(cn.errors, raised[1])):
                exec(code, names)
        else:
            exec(code, names)
