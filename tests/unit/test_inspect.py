"""`colonnade inspect`: a model card of whatever a folder holds, and a sentence where it is none."""

from __future__ import annotations

import json
import os
import shutil

import pytest

import colonnade as cn
from colonnade.cli import main
from colonnade.record.lock import take_lock
from tests.sim.test_continued import files


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("inspected")
    return cn.simulate(files(place / "data", seed=1)).save(place / "run")


@pytest.fixture
def copy(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def run(capsys, *words):
    """The output is in one line: how a table breaks depends on the terminal."""
    code = main(["inspect", *map(str, words)])
    captured = capsys.readouterr()
    return code, " ".join(captured.out.split()), captured.err


def test_a_simulated_run_shows_all_its_parties(trained, capsys):
    code, out, _ = run(capsys, trained)
    assert code == 0
    card = json.loads((trained / "parties" / "bank" / "model.json").read_text())
    for said in (
        "bank, active: ended",
        "telco, passive: ended",
        f"{card['run'][:12]}-{card['round'] + 1}",
        "maybe, no, yes",
        "fedsgd, seed 0",
        "verified by their hashes",
        "on validation rows accuracy",
        "on test rows accuracy",
        "python 3.",
        "parameters",
    ):
        assert said in out, said
    assert "problems" not in out


def test_the_card_names_nobody_and_no_place(trained):
    for name in ("bank", "telco"):
        text = (trained / "parties" / name / "model.json").read_text()
        for private in (str(trained), str(trained.parent), os.uname().nodename, ".parquet"):
            assert private not in text


def test_the_columns_are_those_that_look_shows(trained, capsys):
    code, out, _ = run(capsys, trained, "--party", "telco", "--json")
    assert code == 0
    (found,) = json.loads(out)["parties"]
    columns = {each["name"]: each for each in found["model"]["columns"]}
    assert list(columns) == ["calls", "plan"]
    assert columns["plan"]["becomes"] == "one-hot" and columns["plan"]["type"] == "string"
    shape = [each["inputs"] for each in columns.values()]
    weights = found["model"]["parameters"]["bottom"]
    assert weights > 0 and all(shape)
    assert found["model"]["integrity"]["best.safetensors"] == "verified"
    assert found["bytes"]["sent"] > 0


def test_a_party_folder_of_a_network_run_is_enough(trained, tmp_path, capsys):
    own = shutil.copytree(trained / "parties" / "telco", tmp_path / "own")
    assert run(capsys, own)[0] == 0
    for name in ("start.json", "lock"):
        (own / name).write_text("{}" if name == "start.json" else "1\n")
    assert "telco, passive: interrupted: the same command goes on" in run(capsys, own)[1]
    facts = {"status": "end", "rounds": 7, "time_s": 2.0}
    (own / "party.json").write_text(json.dumps(facts))
    assert "done here, not everywhere" in run(capsys, own)[1]
    (own / "complete").write_text("")
    out = run(capsys, own)[1]
    assert "telco, passive: ended" in out and "end after 7 rounds; 2 s" in out
    lock = take_lock(own)
    try:
        assert "telco, passive: running" in run(capsys, own)[1]
    finally:
        os.close(lock)


def test_a_run_without_a_model_yet_says_so(tmp_path, capsys):
    own = tmp_path / "credit-telco"
    (own / "checkpoints").mkdir(parents=True)
    code, out, _ = run(capsys, own)
    assert code == 0
    assert "credit-telco: interrupted" in out and "no model yet" in out


def test_text_of_a_folder_does_nothing_to_a_terminal(copy, capsys):
    path = copy / "parties" / "bank" / "model.json"
    card = json.loads(path.read_text())
    hostile = "\x1b]0;owned\x07\x1b[2J"
    card |= {"job": hostile, "environment": {hostile: hostile}, "id": [hostile], "rule": hostile}
    card |= {"classes": [hostile, "b\r", "c\n"], "method": {"name": hostile, hostile: hostile}}
    path.write_text(json.dumps(card | {"types": {"age": hostile}, "metric": hostile}))
    for words in ([], ["--json"]):
        assert main(["inspect", str(copy), *words]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out and "\x07" not in out and "\r" not in out


def test_parts_of_different_runs_show(copy, trained, capsys):
    path = copy / "parties" / "bank" / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"run": "ab" * 16}))
    assert "models of different runs" in run(capsys, copy)[1]
    shutil.copy(trained / "parties" / "telco" / "model.json", path)
    assert "it is a model of telco, in the folder of bank" in run(capsys, copy)[1]


def test_files_that_are_none_are_said_or_refused(copy, capsys):
    path = copy / "parties" / "bank" / "model.json"
    path.write_text("{")
    code, out, _ = run(capsys, copy)
    assert code == 0 and "does not describe a model, or is damaged" in out
    (copy / "summary.json").write_text("[" * 100_000)
    code, _, err = run(capsys, copy)
    assert code == 2 and "summary.json is damaged" in err


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "there is no folder"),
        ("notes.txt", "holds no run"),
        ("comparison.json", "holds a comparison"),
        ("sweep.json", "holds a sweep, which keeps no models"),
        ("alignment.json", "holds an alignment"),
    ],
)
def test_what_is_no_run_is_refused_with_the_cure(tmp_path, capsys, made, said):
    folder = tmp_path / "other"
    if made is not None:
        folder.mkdir()
        (folder / made).write_text("{}")
    code, _, err = run(capsys, folder)
    assert code == 2 and said in err


def test_a_party_that_is_not_there_is_named(trained, capsys):
    code, _, err = run(capsys, trained, "--party", "telko")
    assert code == 2 and "did you mean 'telco'?" in err
