"""The plain encoding of columns: numbers standardised, categories one 0/1 column each."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pyarrow as pa

from colonnade.data.disguised import refuse_disguised
from colonnade.data.layout import Input
from colonnade.data.values import Floats, categories, counted, is_text, numbers
from colonnade.errors import DataError

_CATEGORIES_MAX = 10_000


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

    @property
    def inputs(self) -> list[Input]:
        """What a model makes of them."""
        return [Input() for _ in self.names]

    @classmethod
    def learn(cls, name: str, column: pa.ChunkedArray) -> Number:
        """What there is to know of training rows."""
        values = numbers(column, name)
        present = values[~np.isnan(values)]
        if present.size == 0:
            return cls(name, mean=0.0, deviation=0.0, missing=False)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = float(present.mean()), float(present.std())
        if not (math.isfinite(mean) and math.isfinite(deviation)):
            raise DataError(f"the numbers of column '{name}' are too large: scale the column down")
        if present.min() == present.max():
            # Rounding can give equal values a tiny deviation, which would blow later ones up.
            deviation = 0.0
        return cls(name, mean, deviation, missing=present.size < values.size)

    def fill(self, column: pa.ChunkedArray, out: Floats) -> None:
        """Write the encoded column into `out` [rows, len(names)]."""
        values = numbers(column, self.name)
        absent = np.isnan(values)
        if self.deviation:
            with np.errstate(over="ignore"):
                scaled = (values - self.mean) / self.deviation
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

    @property
    def inputs(self) -> list[Input]:
        """What a model makes of them."""
        return [Input() for _ in self.names]

    @classmethod
    def learn(cls, name: str, column: pa.ChunkedArray, listed: bool) -> Category:
        """What there is to know of training rows; one that is not listed must look like one."""
        counts = counted(column, name)
        if len(counts) > _CATEGORIES_MAX:
            raise DataError(
                f"column '{name}' has {len(counts)} categories, more than {_CATEGORIES_MAX}: "
                "leave it out of columns, or group its values first"
            )
        if not listed and is_text(column.type):
            refuse_disguised(name, list(counts), len(column))
        return cls(name, list(counts))

    def fill(self, column: pa.ChunkedArray, out: Floats) -> None:
        """Write the encoded column into `out` [rows, len(names)]."""
        if not self.values:
            return
        words, places = categories(column, self.name)
        known: dict[str | None, int] = {
            value: code for code, value in enumerate(self.values, start=1)
        }
        codes = np.array([0, *(known.get(word, 0) for word in words)], dtype=np.int64)
        out[np.arange(len(places)), codes[places]] = 1.0
