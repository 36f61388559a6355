"""Columns of tables by their names and patterns, and rows by their ids.

Rows are put into one order by the text of their ids, so that parties that hold the same ids
hold the same rows at the same places, whatever order and type their files have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from colonnade.errors import DataError, nearest


def select(patterns: Iterable[str], names: Sequence[str], where: str) -> list[str]:
    """Return the columns that the patterns name: in their order, each column once.

    A pattern after `!` takes columns out again; where there is no other, out of all.

    >>> select(["AGE", "PAY_*"], ["PAY_0", "AGE", "PAY_2"], "bank.csv")
    ['AGE', 'PAY_0', 'PAY_2']
    >>> select(["!AGE"], ["PAY_0", "AGE", "PAY_2"], "bank.csv")
    ['PAY_0', 'PAY_2']
    """
    given = list(patterns)
    out = [text for text in given if text.startswith("!") and text not in names]
    wanted = [text for text in given if text not in out]
    chosen = [name for text in wanted for name in _matching(text, names, where)]
    if out and not wanted:
        chosen = list(names)
    left_out = {name for text in out for name in _matching(text[1:], names, where)}
    return [name for name in dict.fromkeys(chosen) if name not in left_out]


def _matching(pattern: str, names: Sequence[str], where: str) -> list[str]:
    # A name that is there as it stands wins, because names may contain brackets.
    found = [pattern] if pattern in names else [n for n in names if fnmatchcase(n, pattern)]
    if not found:
        raise DataError(f"no column of {where} matches '{pattern}': {nearest(pattern, names)}")
    return found


def ordered(column: pa.ChunkedArray, name: str, where: str) -> tuple[pa.Array, pa.Array]:
    """The ids of rows in the order of their text, and in which row each was.

    >>> ids, order = ordered(pa.chunked_array([[10, 9]]), "id", "bank.csv")
    >>> ids.to_pylist(), order.to_pylist()
    (['10', '9'], [0, 1])
    """
    ids = id_text(column, name, where)
    if ids.null_count:
        raise DataError(
            f"{ids.null_count} rows of {where} have no id in '{name}': "
            "fill the ids in or leave those rows out"
        )
    order = pc.sort_indices(ids)
    ids = ids.take(order)
    _refuse_duplicates(ids, name, where)
    return ids, order


def id_text(column: pa.ChunkedArray, name: str, where: str) -> pa.Array:
    """The ids of a column as text.

    >>> id_text(pa.chunked_array([[7.0]]), "id", "bank.csv").to_pylist()
    ['7']
    """
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        if pa.types.is_floating(array.type):
            # Another party's file may hold the same ids as whole numbers or as text.
            array = pc.cast(array, pa.int64())
        return pc.cast(array, pa.large_string())
    except pa.ArrowException:
        raise DataError(
            f"the id column '{name}' of {where} has type {column.type}: "
            "use whole numbers or text as ids"
        ) from None


def _refuse_duplicates(ids: pa.Array, name: str, where: str) -> None:
    same = pc.equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False).astype(np.bool_)
    if same.any():
        example = ids[int(np.flatnonzero(same)[0])].as_py()
        raise DataError(
            f"{where} has duplicate ids in '{name}': '{example}' comes more than once, and "
            f"{int(same.sum())} rows repeat an id: keep one row per id"
        )


def values(column: pa.ChunkedArray, what: str) -> npt.NDArray[Any]:
    """Return the values of a label or weight column, none of which may be missing.

    >>> values(pa.chunked_array([["no", "yes"]]), "the label").tolist()
    ['no', 'yes']
    """
    if column.null_count:
        raise DataError(
            f"{what} is missing in {column.null_count} rows: leave out the rows without one"
        )
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.asarray(column.to_numpy(), dtype=np.str_)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if not (_is_number(column.type) or pa.types.is_boolean(column.type)):
        raise DataError(f"{what} has type {column.type}: use a column of numbers or text")
    return np.asarray(column.to_numpy())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
