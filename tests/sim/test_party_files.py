"""A job file and a folder of party files, in one process."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from colonnade.cli import main

JOB = """\
[train]
epochs = 4
batch_size = 50
[parties.bank]
role = "active"
[parties.telco]
"""
BANK = 'table = "bank.csv"\nid = "customer"\nlabel = "bought"\ncolumns = ["*", "!note"]\nseed = 3\n'
TELCO = 'table = "telco"\nid = "key"\n[treat]\nshop = "embedding"\n[policy]\nbatch_min = 40\n'
ROWS = 400


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables as they are: semicolons and decimal commas here, a folder of Parquet there."""
    folder = tmp_path_factory.mktemp("parties")
    draw = np.random.default_rng(1)
    income, shop = draw.lognormal(3, 1, ROWS), draw.integers(0, 60, ROWS)
    bought = np.log(income) + shop % 2 > 3.5
    lines = [
        f"c{n:03};{f'{income[n]:.2f}'.replace('.', ',')};{'ja' if bought[n] else 'nein'};n{n}"
        for n in range(ROWS)
    ]
    (folder / "job.toml").write_text(JOB)
    own = folder / "files"
    (own / "telco").mkdir(parents=True)
    text = "\n".join(["customer;income;bought;note", *lines])
    (own / "bank.csv").write_text(text, encoding="cp1252")
    for part, rows in enumerate(np.array_split(draw.permutation(ROWS), 3)):
        table = pa.table({"key": [f"c{n:03}" for n in rows], "shop": shop[rows]})
        pa_parquet.write_table(table, own / "telco" / f"part-{part}.parquet")
    (own / "bank.toml").write_text(BANK)
    (own / "telco.toml").write_text(TELCO)
    return folder


def simulate(capsys, folder, *words):
    code = main(["simulate", str(folder / "job.toml"), "--json", "-q", *words])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if code == 0 else captured.err


def test_simulate_reads_a_folder_of_party_files(folder, capsys, tmp_path):
    files = str(folder / "files")
    code, summary = simulate(capsys, folder, "--parties", files, "--out", str(tmp_path / "run"))
    assert code == 0
    assert summary["metric"]["test"] > 0.9
    kept = json.loads((tmp_path / "run/parties/telco/preprocessing.json").read_text())
    assert kept["columns"][0]["type"] == "coded" and kept["columns"][0]["width"] > 0
    weights = (tmp_path / "run/parties/telco/last.safetensors").read_bytes()
    assert b"bottom.front.tables.0.weight" in weights


def test_what_is_set_goes_before_the_files(folder, capsys):
    words = ["--parties", str(folder / "files"), "--set", 'parties.telco.columns=["nothing"]']
    code, error = simulate(capsys, folder, *words)
    assert code == 2 and "matches 'nothing'" in error


def test_a_folder_without_party_files_is_refused(folder, capsys, tmp_path):
    code, error = simulate(capsys, folder, "--parties", str(tmp_path))
    assert code == 2 and "has none of the files bank.toml, telco.toml" in error


def test_rows_from_two_sources_are_refused(folder, capsys, tmp_path):
    (tmp_path / "bank.toml").write_text('data = "digits"\nview = "left"\n')
    (tmp_path / "telco.toml").write_text(f'table = "{folder / "files" / "telco"}"\nid = "key"\n')
    code, error = simulate(capsys, folder, "--parties", str(tmp_path))
    assert code == 2
    assert "bank has the data set digits and telco a table of its own" in error
