"""`colonnade look`, as a person uses it."""

from __future__ import annotations

import json
import tomllib

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from colonnade.cli import main

TEXT = "customer;zip;spend;opened;note\n" + "".join(
    f"c{n:03};{10_000 + n % 40};{n % 7},5;{n % 28 + 1}.{n % 12 + 1}.2024;called {n} times, no {n}\n"
    for n in range(200)
)


@pytest.fixture
def table(tmp_path):
    (tmp_path / "bank.csv").write_text(TEXT, encoding="cp1252")
    return tmp_path / "bank.csv"


def asked(capsys, *words):
    assert main(["look", *words]) == 0
    return capsys.readouterr().out


def test_a_table_is_shown_with_what_its_columns_become(table, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    shown = asked(capsys, str(table))
    assert "200 rows, separated by semicolons, utf-8, decimal comma" in shown
    assert "it is unique in every row, as an id is" in shown
    assert 'columns = [\n    "*",\n    "!note",\n]' in shown


def test_the_lines_for_the_party_file_say_what_is_shown(table, capsys, tmp_path):
    found = json.loads(asked(capsys, str(table), "--json"))
    columns = {each["name"]: each for each in found["columns"]}
    assert {name: each["kind"] for name, each in columns.items()} == {
        "customer": "id", "zip": "category", "spend": "number", "opened": "date", "note": "text"
    }  # fmt: skip
    lines = tomllib.loads("\n".join(found["party_file"]))
    assert lines["id"] == "customer" and lines["treat"] == {"zip": "category"}
    (tmp_path / "bank.toml").write_text("\n".join(found["party_file"]))
    again = json.loads(asked(capsys, str(tmp_path / "bank.toml"), "--json"))
    for each in again["columns"]:
        assert each["becomes"] == columns[each["name"]]["becomes"]


def test_a_party_file_says_otherwise(table, capsys, tmp_path):
    (tmp_path / "bank.toml").write_text(
        'table = "bank.csv"\nid = "customer"\ncolumns = ["*", "!opened"]\n'
        '[treat]\nzip = "number"\nnote = "hash"\n'
    )
    found = json.loads(asked(capsys, str(tmp_path / "bank.toml"), "--json"))
    becomes = {each["name"]: each["becomes"] for each in found["columns"]}
    assert becomes == {
        "customer": "left out", "zip": "standard", "spend": "standard", "opened": "left out",
        "note": "hash",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is empty: it needs a line with column names"),
        ("a;b\n1;2\n3\n", "has 1 columns in line 3"),
        ("a;b\n", "has column names and no rows"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_sentence(content, sentence, tmp_path, capsys):
    (tmp_path / "bank.csv").write_text(content)
    assert main(["look", str(tmp_path / "bank.csv")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and sentence in captured.err and captured.err.count("\n") == 1


def test_few_whole_numbers_are_pointed_out_until_somebody_says_what_they_are(tmp_path, capsys):
    (tmp_path / "people.csv").write_text(
        "id,school,sex,age\n" + "".join(f"p{n},{n % 7},{n % 2},{n % 70}\n" for n in range(300))
    )
    found = json.loads(asked(capsys, str(tmp_path / "people.csv"), "--json"))
    noted = [each["name"] for each in found["columns"] if "if codes" in str(each["warnings"])]
    assert noted == ["school"]
    assert tomllib.loads("\n".join(found["party_file"]))["treat"] == {"school": "number"}
    (tmp_path / "me.toml").write_text(
        'table = "people.csv"\nid = "id"\ncolumns = ["s*"]\ncategorical = ["school"]\n'
    )
    found = json.loads(asked(capsys, str(tmp_path / "me.toml"), "--json"))
    assert {each["name"]: each["kind"] for each in found["columns"]}["school"] == "category"
    lines = tomllib.loads("\n".join(found["party_file"]))
    assert (lines["columns"], lines["categorical"]) == (["s*"], ["school"]) and "treat" not in lines


def test_only_the_first_rows_are_looked_at(tmp_path, capsys):
    pa_parquet.write_table(pa.table({"x": list(range(1000))}), tmp_path / "t.parquet")
    found = json.loads(asked(capsys, str(tmp_path / "t.parquet"), "--json", "--rows", "10"))
    assert found["rows"] == 10 and not found["whole"]


def test_what_a_terminal_would_obey_is_not_printed(tmp_path, capsys):
    (tmp_path / "bank.csv").write_text("a;b\n\x1b[2J;1\n\x1b]0;2\n")
    assert "\x1b" not in asked(capsys, str(tmp_path / "bank.csv"))


def test_ids_of_two_columns_are_left_out(table, capsys, tmp_path):
    (tmp_path / "bank.toml").write_text('table = "bank.csv"\nid = ["customer", "zip"]\n')
    found = json.loads(asked(capsys, str(tmp_path / "bank.toml"), "--json"))
    assert [each["kind"] for each in found["columns"]][:2] == ["id", "id"]
    lines = tomllib.loads("\n".join(found["party_file"]))
    assert lines["id"] == ["customer", "zip"] and lines["columns"] == ["*", "!note"]


def test_a_party_file_with_a_column_that_is_not_there(table, capsys, tmp_path):
    (tmp_path / "bank.toml").write_text('table = "bank.csv"\nid = "custommer"\n')
    assert main(["look", str(tmp_path / "bank.toml")]) == 2
    assert "has no column 'custommer': did you mean 'customer'" in capsys.readouterr().err
