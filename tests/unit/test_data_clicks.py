"""Criteo's and Avazu's files, as Kaggle has them, in small."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pytest

from colonnade.data import clicks, named
from colonnade.data.named import load
from colonnade.errors import DataError

HEADER = ",".join(clicks.AVAZU.names)


def criteo_line(label: int, count: int | None, word: str) -> str:
    counts = ["" if count is None else str(count + place) for place in range(13)]
    return "\t".join([str(label), *counts, *(f"{word}{place}" for place in range(25)), ""])


def avazu_line(click: int, word: str) -> str:
    words = [f"{word}{place}" for place in range(9)]
    numbers = ["14102100", "1005", "0"]
    return ",".join(["10000169349117863715", str(click), *numbers, *words, "1", "2", *"23456789"])


CRITEO = "\n".join([criteo_line(0, 5, "a"), criteo_line(1, None, "b"), criteo_line(0, -2, "a")])
AVAZU = "\n".join([HEADER, avazu_line(1, "x"), avazu_line(0, "y"), avazu_line(0, "x")])


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("criteo", "avazu"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize("packed", [False, True])
def test_criteos_file(place, packed):
    if packed:
        (place / "criteo/train.txt.gz").write_bytes(gzip.compress(CRITEO.encode()))
    else:
        (place / "criteo/train.txt").write_text(f"{CRITEO}\n")
    found = load("criteo")
    assert found.labels.tolist() == [0, 1, 0] and found.task == "binary"
    assert found.table.shape == (3, 39) and found.test_rows is None
    assert found.table["I1"].to_pylist() == [5, None, -2]
    assert found.table["I13"].to_pylist() == [17, None, 10]
    assert found.table["C1"].to_pylist() == ["a0", "b0", "a0"]
    assert found.table["C26"].null_count == 3
    assert pa.types.is_dictionary(found.table["C25"].type)


@pytest.mark.parametrize("name", ["train.csv", "train.csv.gz", "train.gz"])
def test_avazus_file(place, name):
    content = AVAZU.encode()
    path = place / "avazu" / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    found = load("avazu")
    assert found.labels.tolist() == [1, 0, 0]
    assert "id" not in found.table.column_names and found.table.shape == (3, 22)
    assert found.table["site_id"].to_pylist() == ["x0", "y0", "x0"]
    assert found.table["C21"].to_pylist() == [9, 9, 9]
    assert np.array(found.table["hour"]).tolist() == [14_102_100] * 3


def test_words_of_several_blocks_have_one_dictionary(place, monkeypatch):
    monkeypatch.setattr(clicks, "_BLOCK_BYTES", 512)
    lines = [criteo_line(row % 2, row, "ab"[row % 2]) for row in range(60)]
    (place / "criteo/train.txt").write_text("\n".join(lines))
    column = load("criteo").table["C1"]
    assert column.num_chunks > 1
    assert {tuple(chunk.dictionary.to_pylist()) for chunk in column.chunks} == {("a0", "b0")}
    assert column.to_pylist() == ["a0", "b0"] * 30


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (CRITEO.replace("\ta3", "", 1), r"train\.txt cannot be read \(.*39.*get it again"),
        (CRITEO.replace("5\t", "five\t", 1), r"train\.txt cannot be read .*get it again"),
        ("", r"train\.txt cannot be read .*get it again"),
    ],
)
def test_another_file_is_refused(place, content, words):
    (place / "criteo/train.txt").write_text(content)
    with pytest.raises(DataError, match=words):
        load("criteo")


def test_a_longer_file_is_refused(place, monkeypatch):
    monkeypatch.setattr(clicks, "ROWS_MAX", 2)
    (place / "criteo/train.txt").write_text(CRITEO)
    with pytest.raises(DataError, match="more than 2 rows, so it is not the file"):
        load("criteo")


def test_both_have_a_sample_beside_them():
    assert {f"{name}-sample" for name in clicks.FILES} < set(named.names())
