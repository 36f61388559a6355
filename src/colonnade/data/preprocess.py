"""From the columns of a table to the numbers a model reads.

What is learnt about a column (its mean, its categories) is learnt from the training rows alone
and kept, so that test rows and later predictions are treated in exactly the same way.

- *Numbers* become (value - mean) / deviation; a column that never changes becomes 0.
- *A missing number* becomes the training mean, that is 0 after scaling. A column with missing
  values in the training rows gets a second column, `<name>?missing`, that is 1 where the value
  was missing. A value that is missing only in later rows becomes the mean, without a mark.
- *Categories* (text, true or false, and numbers listed as `categorical`) become one 0/1 column
  per category known from the training rows, most frequent first, after one column `<name>=?`
  that is 1 for a value that is missing or was not seen in training.
- *A column without any value* in the training rows becomes one column of zeros.
- Infinite numbers, dates and nested values are refused, and so is text with more than 10,000
  categories, or text that is hardly a category (`disguised.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from colonnade.data.disguised import refuse_disguised
from colonnade.errors import DataError, nearest

_CATEGORIES_MAX = 10_000
Matrix = npt.NDArray[np.float64]


class Number(msgspec.Struct, frozen=True, tag="number", forbid_unknown_fields=True):
    """What is known of a column of numbers; a deviation of 0 makes it a column of zeros.

    >>> Number("AGE", mean=40.0, deviation=10.0, missing=False).names
    ['AGE']
    """

    name: str
    mean: float
    deviation: float
    missing: bool
    """Whether it has a column that marks missing values."""

    @property
    def names(self) -> list[str]:
        """The names of the columns it becomes."""
        return [self.name, f"{self.name}?missing"] if self.missing else [self.name]

    def fill(self, column: pa.ChunkedArray, out: Matrix) -> None:
        """Write the encoded column into `out` [rows, len(names)]."""
        numbers = _numbers(column, self.name)
        absent = np.isnan(numbers)
        if self.deviation:
            with np.errstate(over="ignore"):
                scaled = (numbers - self.mean) / self.deviation
            if np.isinf(scaled).any():
                raise DataError(
                    f"a number of column '{self.name}' is too far from those seen in training: "
                    "correct it, or make it missing"
                )
            out[:, 0] = np.where(absent, 0.0, scaled)
        if self.missing:
            out[:, 1] = absent


class Category(msgspec.Struct, frozen=True, tag="category", forbid_unknown_fields=True):
    """What is known of a column of categories.

    >>> Category("sex", values=["f", "m"]).names
    ['sex=?', 'sex=f', 'sex=m']
    """

    name: str
    values: list[str]
    """The categories in the order of their codes, which begin at 1."""

    @property
    def names(self) -> list[str]:
        """The names of the columns it becomes."""
        return [f"{self.name}=?", *(f"{self.name}={value}" for value in self.values)]

    def fill(self, column: pa.ChunkedArray, out: Matrix) -> None:
        """Write the encoded column into `out` [rows, len(names)]."""
        if not self.values:
            return
        words, places = _categories(column, self.name)
        known: dict[str | None, int] = {
            value: code for code, value in enumerate(self.values, start=1)
        }
        codes = np.array([0, *(known.get(word, 0) for word in words)], dtype=np.int64)
        out[np.arange(len(places)), codes[places]] = 1.0


class Preprocessor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was learnt from the training rows of a table, and how to apply it.

    >>> table = pa.table({"age": [20.0, 40.0, 99.0], "sex": ["f", "m", "f"]})
    >>> fitted = Preprocessor.fit(table, np.array([0, 1]))
    >>> fitted.feature_names
    ['age', 'sex=?', 'sex=f', 'sex=m']
    >>> fitted.transform(table)[1].tolist()
    [1.0, 0.0, 0.0, 1.0]
    """

    columns: list[Number | Category]

    @classmethod
    def fit(
        cls, table: pa.Table, rows: npt.NDArray[np.int64], categorical: Sequence[str] = ()
    ) -> Preprocessor:
        """Learn from some rows of a table; `categorical` names number columns that are codes."""
        for pattern in categorical:
            if not any(_matches(name, pattern) for name in table.column_names):
                raise DataError(
                    f"no column matches the categorical '{pattern}': "
                    f"{nearest(pattern, table.column_names)}"
                )
        part = table.take(rows)
        return cls([_learn(name, part[name], categorical) for name in part.column_names])

    @property
    def feature_names(self) -> list[str]:
        """The names of the columns that `transform` returns."""
        return [name for column in self.columns for name in column.names]

    @property
    def width(self) -> int:
        """The number of columns that `transform` returns."""
        return sum(len(column.names) for column in self.columns)

    def transform(self, table: pa.Table) -> Matrix:
        """Encode the rows of a table that has the columns learnt from; others are ignored."""
        out = np.zeros((table.num_rows, self.width))
        start = 0
        for column in self.columns:
            if column.name not in table.column_names:
                raise DataError(
                    f"the table has no column '{column.name}', which was there in training: "
                    f"{nearest(column.name, table.column_names)}"
                )
            stop = start + len(column.names)
            column.fill(table[column.name], out[:, start:stop])
            start = stop
        return out

    def to_json(self) -> str:
        """Write down what was learnt; `from_json` reads back an equal value."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Preprocessor:
        """Read what `to_json` wrote.

        >>> Preprocessor.from_json('{"columns":[]}').width
        0
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise DataError(
                f"this is not a stored preprocessor ({error}): fit it again on the training rows"
            ) from None


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def _learn(name: str, column: pa.ChunkedArray, categorical: Sequence[str]) -> Number | Category:
    listed = any(_matches(name, pattern) for pattern in categorical)
    if listed or _is_category(column.type):
        category = _learn_category(name, column)
        if not listed and _is_text(column.type):
            refuse_disguised(name, category.values, len(column))
        return category
    return _learn_number(name, column)


def _learn_number(name: str, column: pa.ChunkedArray) -> Number:
    numbers = _numbers(column, name)
    present = numbers[~np.isnan(numbers)]
    if present.size == 0:
        return Number(name, mean=0.0, deviation=0.0, missing=False)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(present.mean()), float(present.std())
    if not (math.isfinite(mean) and math.isfinite(deviation)):
        raise DataError(f"the numbers of column '{name}' are too large: scale the column down")
    if present.min() == present.max():
        # Rounding can give equal values a tiny deviation, which would blow later ones up.
        deviation = 0.0
    return Number(name, mean, deviation, missing=present.size < numbers.size)


def _learn_category(name: str, column: pa.ChunkedArray) -> Category:
    words, places = _categories(column, name)
    amounts = np.bincount(places, minlength=len(words) + 1)[1:]
    counts: Counter[str] = Counter()
    for word, amount in zip(words, amounts.tolist(), strict=True):
        if word is not None and amount:
            counts[word] += amount
    if len(counts) > _CATEGORIES_MAX:
        raise DataError(
            f"column '{name}' has {len(counts)} categories, more than {_CATEGORIES_MAX}: "
            "leave it out of columns, or group its values first"
        )
    return Category(name, sorted(counts, key=lambda word: (-counts[word], word)))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_category(kind: pa.DataType) -> bool:
    return bool(_is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_dictionary(kind))


def _refuse_type(kind: pa.DataType, name: str) -> None:
    if pa.types.is_temporal(kind):
        raise DataError(
            f"column '{name}' holds dates or times ({kind}): "
            "leave it out, or turn it into a number such as days since a fixed day"
        )
    known = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
        or _is_category(kind)
    )
    if not known:
        raise DataError(f"column '{name}' has type {kind}, which cannot be encoded: leave it out")


def _numbers(column: pa.ChunkedArray, name: str) -> Matrix:
    """Return numbers as float64 with NaN for what is missing."""
    _refuse_type(column.type, name)
    if _is_category(column.type):
        raise DataError(
            f"column '{name}' held numbers in training and holds {column.type} now: "
            "give it the type it had"
        )
    numbers: Matrix = np.array(pc.cast(column, pa.float64(), safe=False).to_numpy())
    if np.isinf(numbers).any():
        raise DataError(f"column '{name}' holds an infinite number: replace it, or make it missing")
    return numbers


def _categories(
    column: pa.ChunkedArray, name: str
) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """Return the distinct values as text, and for each row 1 + its place among them or 0."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    _refuse_type(column.type, name)
    if pa.types.is_null(column.type):
        return [], np.zeros(len(column), dtype=np.int64)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    places = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64) + 1
    return [_word(value, name) for value in encoded.dictionary.to_pylist()], places


def _word(value: Any, name: str) -> str | None:
    """The same code must give the same text, whether a file stores it as 1, 1.0 or '1'."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isinf(value):
            raise DataError(
                f"column '{name}' holds an infinite number: replace it, or make it missing"
            )
        return None if math.isnan(value) else str(int(value) if value.is_integer() else value)
    return None if value is None else str(value)
