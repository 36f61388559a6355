"""The types of columns at training are held against those of every later table."""

from __future__ import annotations

import csv

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.data.types import check_types, kind_of
from colonnade.errors import DataError
from colonnade.learn.saved import saved_of
from colonnade.predict.rows import read_rows
from tests.sim.test_continued import PLANS, files

ALIKE = [
    [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(9, 2)],
    [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
    [pa.bool_()],
    [pa.date32(), pa.date64(), pa.timestamp("us"), pa.timestamp("s", "UTC")],
]
TYPES = [kind for group in ALIKE for kind in group]


@given(st.sampled_from(TYPES), st.sampled_from(TYPES))
def test_types_are_alike_where_they_hold_the_same(before, now):
    same = any(before in group and now in group for group in ALIKE)
    assert (kind_of(str(before)) == kind_of(str(now))) == same
    if same:
        check_types(pa.schema([("x", now)]), {"x": str(before)}, "new")
    else:
        with pytest.raises(DataError, match="column 'x' of new is"):
            check_types(pa.schema([("x", now)]), {"x": str(before)}, "new")


def test_a_column_without_values_may_be_of_any_type():
    for kind in TYPES:
        check_types(pa.schema([("x", pa.null())]), {"x": str(kind)}, "new")


def rewrite(path, **columns):
    """A CSV file with some columns replaced by what a function makes of their values."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    with path.open("w") as file:
        out = csv.DictWriter(file, rows[0])
        out.writeheader()
        for row in rows:
            out.writerow(row | {name: made(row[name]) for name, made in columns.items()})


def test_a_prediction_refuses_a_column_of_another_type(tmp_path):
    job = files(tmp_path / "old", seed=1)
    saved = saved_of(cn.simulate(cn.with_sets(job, "train.epochs=1")), "telco")
    models = {saved.version: saved}
    later = files(tmp_path / "new", seed=2, plans=PLANS[:2])
    table = tmp_path / "new" / "telco.csv"
    assert read_rows(later, "telco", models).unseen == {}
    rewrite(table, calls=lambda value: f"about {float(value):.0f}")
    said = "column 'calls' of .*telco.csv is string, and was double in training: write it as plain"
    with pytest.raises(DataError, match=said):
        read_rows(later, "telco", models)
