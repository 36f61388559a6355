"""`colonnade predict` between real processes over mTLS: from two tables to joint scores."""

from __future__ import annotations

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from colonnade.cli import main
from colonnade.record.chain import verify
from colonnade.record.prediction import read_prediction
from tests.e2e.test_align import House, check_timelines, keys  # noqa: F401 - a fixture

RUNS = {"bank": "runs/credit-bank", "telco": "runs/credit-telco"}


@pytest.fixture(scope="module")
def house(tmp_path_factory, keys):  # noqa: F811 - the fixture
    """Two parties that have aligned their tables and trained on them."""
    made = House(tmp_path_factory.mktemp("house"), keys)
    with made.stack:
        for command in ("align", "join"):
            ends = made.both(command)
            assert [code for code, _, _ in ends.values()] == [0, 0], ends
        yield made


def score(house, *asked, telco=(), bank=()):
    """Both parties' ends; the bank asks."""
    started = {
        "bank": house.start("bank", "predict", "--run", RUNS["bank"], *asked, *bank),
        "telco": house.start("telco", "predict", "--run", RUNS["telco"], *telco),
    }
    return {name: house.end(process) for name, process in started.items()}


def rows_get_the_scores_of_the_training_to_the_bit(house):
    ends = score(house, "--rows", "test", "--to", "test.parquet", "--raw")
    assert [code for code, _, _ in ends.values()] == [0, 0], ends
    assert ends["bank"][1]["differences"] == {"telco": []}
    scores = pq.read_table(house.folder / "test.parquet")
    summary = json.loads((house.folder / RUNS["bank"] / "summary.json").read_text())
    with (house.folder / "bank.csv").open() as file:
        labels = {row["customer"]: row["good"] for row in csv.DictReader(file)}
    rows = np.load(house.folder / "aligned/credit-bank/rows.npy")
    with (house.folder / "bank.csv").open() as file:
        ids = [row["customer"] for row in csv.DictReader(file)]
    assert scores["customer"].to_pylist() == [ids[rows[at]] for at in scores["row"].to_pylist()]
    truth = [int(labels[customer]) for customer in scores["customer"].to_pylist()]
    from colonnade.record.metrics import METRICS

    measured = METRICS["auc"].measure(np.array(scores["score"])[:, None], np.array(truth))
    assert measured == summary["test"]["auc"]
    assert (house.folder / "test.parquet").stat().st_mode & 0o077 == 0
    # By place: no point crossed, and the ledgers of both ends say so.
    kinds = {entry["kind"] for entry in ledger(house, "telco")}
    assert "Query" in kinds and "BlindedIds" not in kinds
    return ends


def the_last_prediction_leaves_its_timeline(house, capsys, rows):
    """Its own only, with a clock that began with it, whatever the folder has held before."""
    folders = {name: f"predictions/credit-{name}" for name in ("bank", "telco")}
    check_timelines(house, capsys, folders, {"score", "send", "receive", "begin"})
    for name, folder in folders.items():
        told = read_prediction(house.folder / folder)
        spans = pq.read_table(house.folder / folder / "timeline.parquet").to_pylist()
        assert (told.program, told.party, told.status) == ("predict", name, "end")
        assert told.rows == rows[name]
        assert told.busy_s + told.idle_s <= told.time_s
        assert [span["kind"] for span in spans].count("begin") == 1
        ends_s = max(span["end_ns"] for span in spans) / 1e9
        assert ends_s <= told.time_s < ends_s + 5
        asked = [span for span in spans if span["message"] == "Query"]
        assert len(asked) == 1, "of this prediction, and none of the one before"


def ledger(house, name):
    lines = (house.folder / f"predictions/credit-{name}/ledger.chain").read_text().splitlines()
    return [json.loads(line) for line in lines if '"kind"' in line]


def new_ids_are_scored_and_unknown_ones_named(house):
    """Both tables have grown since the training; some ids only one party has, or none."""
    house.write("bank-new", "customer", [*range(900), 1290, 2000], columns=("income", "good"))
    house.write("telco-new", "id", [*range(300, 1300), 3000])
    asked = ["c00310", "c01290", "c02000", "c03000", "c09999", "c00001"]
    with (house.folder / "asked.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["customer"], *[[each] for each in asked]])
    ends = score(
        house,
        *("--ids", "asked.csv", "--to", "new.csv", "--table", "bank-new.csv"),
        telco=("--table", "telco-new.csv"),
    )
    assert [code for code, _, _ in ends.values()] == [0, 0], ends
    assert ends["bank"][1]["missing"] == {"bank": 2, "telco": 3}
    with (house.folder / "new.csv").open() as file:
        found = {row["customer"]: row for row in csv.DictReader(file)}
    assert list(found) == asked
    assert {name: row["missing"] for name, row in found.items()} == {
        "c00310": "",
        "c01290": "",
        "c02000": "telco",
        "c03000": "bank",
        "c09999": "bank, telco",
        "c00001": "telco",
    }
    for row in found.values():
        scored = not row["missing"]
        assert (row["prediction"] in ("0", "1")) == scored
        assert (row["probability_1"] != "") == scored
        assert row["model"] == ends["bank"][1]["model"]
    assert "BlindedIds" in {entry["kind"] for entry in ledger(house, "telco")}
    # Predictions of one folder add up: none undoes the one before it.
    counted = verify(house.folder / "predictions/credit-telco/ledger.chain")
    assert counted.standing == counted.totals
    # The telco's files hold no id that is not its own, and nobody else may read them.
    for path in (house.folder / "predictions/credit-telco").rglob("*"):
        if path.is_file():
            assert path.stat().st_mode & 0o077 == 0, path
            assert b"c02000" not in path.read_bytes()


def a_party_can_refuse_and_nothing_is_half_written(house):
    (house.folder / "telco.toml").write_text(
        'table = "telco.csv"\nid = "id"\n[policy]\npredict_rows_max = 3\n'
    )
    try:
        ends = score(house, "--rows", "test", "--to", "refused.csv")
    finally:
        house.party("telco", 'id = "id"\n')
    code, said, sentence = ends["bank"]
    assert code == 1 and ends["telco"][0] == 0
    assert "policy.predict_rows_max is 3" in sentence
    assert said["declined"].keys() == {"telco"} and said["incomplete"] == said["rows"]


WRONG = [
    (["--run", "runs/credit-telco", "--rows", "test"], "holds a model of telco, not of bank"),
    (["--run", "nowhere", "--rows", "test"], "holds no model of bank"),
    (["--run", RUNS["bank"]], "say what to score"),
    (["--run", RUNS["bank"], "--rows", "test", "--to", "x.xls"], "says no format"),
    (["--run", RUNS["bank"], "--ids", "telco.csv"], "has no column 'customer'"),
    (["--run", RUNS["bank"], "--rows", "test", "--table", "odd.csv"], "did you mean 'incme'"),
    (["--run", RUNS["bank"], "--rows", "test", "--table", "grown.csv"], "has changed since"),
]
"""What is asked for, and what is said of it."""


def a_wrong_request_is_one_sentence(house, capsys, monkeypatch, words, sentence):
    monkeypatch.chdir(house.folder)
    (house.folder / "odd.csv").write_text("customer,incme,good\nc1,2,1\nc2,3,0\n")
    (house.folder / "grown.csv").write_text(
        (house.folder / "bank.csv").read_text() + "c77777,0.5,1\n"
    )
    more = [] if "--to" in words else ["--to", "x.csv"]
    common = ["job.toml", "--me", "bank", "--listen", "127.0.0.1:1"]
    code = main(["predict", *common, "--keys", str(house.keys / "bank"), *words, *more])
    said = capsys.readouterr().err.splitlines()
    assert code == 2 and sentence in said[-1], said
    assert not (house.folder / "x.csv").exists() and not list(house.folder.glob(".*.part"))


def the_dry_run_says_what_would_leave(house, capsys, monkeypatch):
    monkeypatch.chdir(house.folder)
    words = ["predict", "job.toml", "--me", "telco", "--run", RUNS["telco"], "--dry-run"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "telco learns which of its rows are asked for" in " ".join(said.split())
    assert "policy.predict_rows_max" in said
    assert main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["known_by_place"] == 600 and facts["known_by_id"] == 1000


def test_from_two_tables_to_joint_scores(house, capsys, monkeypatch):
    """One after the other, with the same folders: to align and to train takes longer than all of
    this."""
    ends = rows_get_the_scores_of_the_training_to_the_bit(house)
    first = ends["bank"][1]["rows"]
    the_last_prediction_leaves_its_timeline(house, capsys, {"bank": first, "telco": first})
    new_ids_are_scored_and_unknown_ones_named(house)
    the_last_prediction_leaves_its_timeline(house, capsys, {"bank": 6, "telco": 6})
    a_party_can_refuse_and_nothing_is_half_written(house)
    for words, sentence in WRONG:
        a_wrong_request_is_one_sentence(house, capsys, monkeypatch, words, sentence)
    the_dry_run_says_what_would_leave(house, capsys, monkeypatch)
