"""The values of a column, as numbers or as words, whatever type a file gives them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from colonnade.errors import DataError

Floats = npt.NDArray[np.float64]


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text.

    >>> is_text(pa.string())
    True
    """
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_category(kind: pa.DataType) -> bool:
    """Whether the type of a column says that it holds categories."""
    return bool(is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_dictionary(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a column holds numbers.

    >>> is_number(pa.decimal128(5, 2))
    True
    """
    whole = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return bool(whole or pa.types.is_decimal(kind))


def is_date(kind: pa.DataType) -> bool:
    """Whether a column holds days, or moments.

    >>> is_date(pa.date32())
    True
    """
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without a dictionary."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def refuse_type(kind: pa.DataType, name: str) -> None:
    """Refuse what is neither numbers nor categories."""
    if pa.types.is_temporal(kind):
        raise DataError(
            f"column '{name}' holds dates or times ({kind}): "
            "leave it out, or turn it into a number such as days since a fixed day"
        )
    if not (is_number(kind) or pa.types.is_null(kind) or is_category(kind)):
        raise DataError(f"column '{name}' has type {kind}, which cannot be encoded: leave it out")


def numbers(column: pa.ChunkedArray, name: str, *, bounded: bool = True) -> Floats:
    """Return numbers as float64 with NaN for what is missing; infinite ones are refused, or count
    as missing where they need not be `bounded`."""
    refuse_type(column.type, name)
    if is_category(column.type):
        raise DataError(
            f"column '{name}' held numbers in training and holds {column.type} now: "
            "give it the type it had"
        )
    found: Floats = np.array(pc.cast(column, pa.float64(), safe=False).to_numpy())
    infinite = np.isinf(found)
    if infinite.any():
        if bounded:
            raise _infinite(name)
        found[infinite] = np.nan
    return found


def _infinite(name: str) -> DataError:
    return DataError(f"column '{name}' holds an infinite number: replace it, or make it missing")


def categories(
    column: pa.ChunkedArray, name: str
) -> tuple[list[str | None], npt.NDArray[np.int64]]:
    """Return the distinct values as text, and for each row 1 + its place among them or 0."""
    column = decoded(column)
    refuse_type(column.type, name)
    if pa.types.is_null(column.type):
        return [], np.zeros(len(column), dtype=np.int64)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    places = pc.fill_null(encoded.indices, -1).to_numpy().astype(np.int64) + 1
    return [_word(value, name) for value in encoded.dictionary.to_pylist()], places


def counted(column: pa.ChunkedArray, name: str) -> dict[str, int]:
    """How often each word comes, the most frequent first.

    >>> counted(pa.chunked_array([["b", "a", "b", None]]), "x")
    {'b': 2, 'a': 1}
    """
    words, places = categories(column, name)
    amounts = np.bincount(places, minlength=len(words) + 1)[1:]
    counts: dict[str, int] = {}
    for word, amount in zip(words, amounts.tolist(), strict=True):
        if word is not None and amount:
            counts[word] = counts.get(word, 0) + amount
    return {word: counts[word] for word in sorted(counts, key=lambda word: (-counts[word], word))}


def _word(value: Any, name: str) -> str | None:
    """The same code must give the same text, whether a file stores it as 1, 1.0 or '1'."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isinf(value):
            raise _infinite(name)
        return None if math.isnan(value) else str(int(value) if value.is_integer() else value)
    return None if value is None else str(value)
