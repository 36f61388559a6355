"""Files as people have them: what is not read as it was meant is refused, with the cure."""

import numpy as np
import pyarrow as pa
import pytest

from colonnade.data.preprocess import Preprocessor
from colonnade.errors import DataError

ROWS = 300


def fitted(values, categorical=()):
    table = pa.table({"x": values})
    return Preprocessor.fit(table, np.arange(len(values)), categorical)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (lambda n: f"{n},5", "numbers with commas, such as '0,5'"),
        (lambda n: f"1.{n:03d},25", "numbers with commas"),
        (lambda n: f"{n + 1},000.5", "numbers with commas"),
        (lambda n: f"{n % 28 + 1}.{n % 12 + 1}.2024", "dates"),
        (lambda n: f"{n % 12 + 1}/{n % 28 + 1}/24 10:30", "dates"),
        (lambda n: f"€ {n}.50", "numbers with a unit"),
        (lambda n: f"{n} %", "numbers with a unit"),
        (lambda n: "?" if n % 7 == 0 else f"{n}.5", "holds numbers, but for '?': leave those"),
        (lambda n: f"customer {n} called", "has 300 different values in 300 rows"),
    ],
    ids=["comma", "both", "thousands", "dates", "times", "euro", "percent", "marks", "free text"],
)
def test_text_that_is_no_category_is_refused_unless_it_is_listed(value, fault):
    values = [value(n) for n in range(ROWS)]
    with pytest.raises(DataError, match="or list it as categorical") as caught:
        fitted(values)
    assert fault in str(caught.value)
    assert fitted(values, ["x"]).width == 1 + len(set(values))


@pytest.mark.parametrize(
    "value",
    [
        lambda n: f"town {n % 90}",
        lambda n: f"{n:05d}",
        lambda n: f"{n % 250:03d}.{n % 7}" if n % 5 else f"V{n % 90}",
        lambda n: "10+" if n % 11 == 10 else str(n % 11),
        lambda n: f"{n % 4 + 1}.1.2024",
    ],
    ids=["towns", "postcodes", "diagnoses", "up to ten", "four days"],
)
def test_text_that_may_be_a_category_stays_one(value):
    values = [value(n) for n in range(ROWS)]
    assert fitted([*values, *values]).width == 1 + len(set(values))
