"""The command line, called in this process: what it prints, and where, and its exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from colonnade.cli import COMMANDS, main
from colonnade.cli.options import check_out, read_grid, read_job, read_seeds, split_commas
from colonnade.errors import RequestError

SHORT = ["--set", "train.epochs=1"]


def run(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_of_every_command_has_an_example(capsys):
    for command in COMMANDS:
        code, out, _ = run(capsys, command.__name__, "--help")
        assert code == 0
        assert f"Example: colonnade {command.__name__}" in out


def test_without_words_the_help_is_shown(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    assert all(command.__name__ in out for command in COMMANDS)


@pytest.mark.parametrize("words", [["simulate", "--help"], ["stop", "nowhere"]], ids=" ".join)
def test_what_computes_nothing_does_not_import_torch(words):
    code = (
        f"import sys; from colonnade.cli import main; main({words});"
        "sys.exit('torch' in sys.modules or 'colonnade.run.sweep' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == 0


def test_version(capsys):
    code, out, _ = run(capsys, "--version")
    assert (code, out.split()[0]) == (0, "colonnade")


def test_simulate_shows_what_it_cost(capsys):
    code, out, err = run(capsys, "simulate", "digits", *SHORT, "--set", "train.target=0.99")
    assert code == 0
    assert "accuracy" in out and "missed" in out and "idle share" in out
    assert err.startswith("what others can learn: ") and err.splitlines()[1].startswith("round ")


def test_simulate_json_is_all_there_is_on_standard_output(capsys):
    code, out, err = run(capsys, "simulate", "digits", *SHORT, "--json", "--quiet")
    assert (code, err) == (0, "")
    assert json.loads(out)["status"] == "end"


def test_a_method_drops_the_options_of_the_jobs_own(tmp_path):
    job = tmp_path / "job.toml"
    text = "\n".join(["[method]", 'name = "fedbcd"', "updates = 7"])
    built_in = Path(sys.modules["colonnade.job"].__file__).parent / "builtin" / "digits.toml"
    job.write_text(built_in.read_text().replace('[method]\nname = "fedsgd"', text))
    assert read_job(str(job)).method == {"name": "fedbcd", "updates": 7}
    assert read_job(str(job), method="fedbcd").method == {"name": "fedbcd"}
    chosen = read_job(str(job), ["method.mu=0.1"], "fedbcd:updates=5:order=sequential", 3)
    assert chosen.method == {"name": "fedbcd", "updates": 5, "order": "sequential", "mu": 0.1}
    assert chosen.seed == 3


def test_a_run_that_diverged_is_a_failure_with_one_sentence(capsys, tmp_path):
    words = ["simulate", "digits", "--set", "parties.*.optimizer.lr=1e12", "--quiet"]
    code, out, err = run(capsys, *words, "--json", "--out", tmp_path / "run")
    assert code == 1
    assert json.loads(out)["status"] == "diverged"
    assert err.count("\n") == 1 and err.startswith("colonnade: ") and "diverged" in err
    assert (tmp_path / "run" / "summary.json").is_file()


def test_methods(capsys):
    code, out, _ = run(capsys, "methods")
    assert code == 0 and "local=repeat(updates=5)" in out
    _, out, _ = run(capsys, "methods", "--json")
    found = {method["name"]: method for method in json.loads(out)}
    assert found["fedbcd"]["options"]["updates"]["default"] == 5
    assert found["fedsgd"]["composition"] == {}


def test_jobs(capsys, tmp_path):
    code, out, _ = run(capsys, "jobs")
    assert code == 0 and "digits" in out and "Handwritten" in out
    _, out, _ = run(capsys, "jobs", "digits")
    (tmp_path / "mine.toml").write_text(out)
    assert read_job(str(tmp_path / "mine.toml")) == read_job("digits")


def fake_reproduction(monkeypatch):
    from colonnade.reproduce import Reproduction

    def table_one(out, seeds, quick, say):
        say("working")
        options = {"seeds": seeds, "quick": quick}
        return Reproduction(
            "Table one", ["theirs", "s"], [["9", "0.1"]], [], options, measured=frozenset("s")
        )

    package = ModuleType("colonnade.reproduce")
    known = SimpleNamespace(name="table-one", about="theirs", study=None, function=table_one)
    package.known = lambda: {"table-one": known}
    monkeypatch.setitem(sys.modules, "colonnade.reproduce", package)


def test_lines_of_a_table_do_not_end_in_blanks_where_they_go_into_a_file(capsys):
    for words in (["methods"], ["simulate", "digits", *SHORT]):
        _, out, _ = run(capsys, *words)
        assert [line for line in out.splitlines() if line != line.rstrip()] == []


def test_reproduce(capsys, monkeypatch, tmp_path):
    fake_reproduction(monkeypatch)
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "reproduce", "table-one", "--seeds", "0,1", "--quick", "--json")
    assert code == 0 and json.loads(out).items() >= {"seeds": [0, 1], "quick": True}.items()
    assert "working" in err
    folder = tmp_path / "runs" / "reproduce" / "table-one-quick"
    assert "0.1" not in (folder / "page.md").read_text()
    assert "0.1" in (folder / "measured.md").read_text()
    assert "theirs" in run(capsys, "reproduce", "table-one")[1]
    assert "table-one" in run(capsys, "reproduce")[1]
    code, _, err = run(capsys, "reproduce", "table-one", "--device", "cuda")
    assert code == 2 and "table-one has no --device: leave it out" in err
    code, _, err = run(capsys, "reproduce", "table-on")
    assert code == 2 and "did you mean 'table-one'?" in err


def test_an_out_folder_is_checked_without_a_trace(tmp_path):
    check_out(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RequestError, match="cannot be written"):
            check_out(bad)


def test_commas_within_brackets_separate_nothing():
    assert split_commas("a:x=[1, 2],b") == ["a:x=[1, 2]", "b"]
    assert split_commas("'a,b', {k = 1, l = 2}") == ["'a,b'", "{k = 1, l = 2}"]
    assert read_grid(["a.b=0.1,[64, 32],50ms"]) == {"a.b": [0.1, [64, 32], "50ms"]}


@pytest.mark.parametrize("text", ["", "a", "0;1", "-1", "1.5"])
def test_seeds_are_whole_numbers(text):
    with pytest.raises(RequestError, match="0,1,2"):
        read_seeds(text)
