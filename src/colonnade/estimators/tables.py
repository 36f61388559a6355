"""One party's frame, whichever library it is of: its columns as a table, and what names its rows.

A row is named by columns of the frame, or by the index of a pandas frame. A default index (0, 1,
2, …) says no more than the place of a row, and neither does an array: such rows have no names.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.utils import check_array

from colonnade.data.frames import is_default_index, is_indexed, plain_array
from colonnade.data.ids import id_texts
from colonnade.errors import DataError, nearest
from colonnade.job.ids import Ids


@dataclass(frozen=True, eq=False)
class Held:
    """What one party holds of some rows.

    >>> Held("bank", 2, pa.table({"age": [20, 30]})).ids is None
    True
    """

    name: str
    count: int
    table: pa.Table
    ids: pa.Array | None = None
    """The text that names each row; None where only its place does."""

    def select(self, columns: Sequence[str]) -> Held:
        """The same rows with these columns only."""
        return replace(self, table=self.table.select(list(columns)))


def hold(name: str, value: Any, id: Sequence[str] = (), rule: Ids | None = None) -> Held:
    """What a party holds; `id` are the columns that name its rows, where it has any.

    >>> import pandas as pd
    >>> bank = pd.DataFrame({"age": [20, 30]}, index=["ann", "bob"])
    >>> hold("bank", bank).ids.to_pylist()
    ['ann', 'bob']
    """
    if is_indexed(value) and value.ndim == 2:
        value, id = _index_as_columns(value, id)
    table = as_table(name, value)
    for column in id:
        if column not in table.column_names:
            raise DataError(
                f"{name} has no id column '{column}': {nearest(column, table.column_names)}"
            )
    if not id:
        return Held(name, table.num_rows, table)
    texts = id_texts(table, list(id), rule or Ids(), name)
    return Held(name, table.num_rows, table.drop_columns(list(id)), texts)


_INDEX = "\x1findex"
"""What an index without a name is called as a column."""


def _index_as_columns(frame: Any, id: Sequence[str]) -> tuple[Any, Sequence[str]]:
    """A pandas frame whose index is among its columns, where it names the rows."""
    names = [str(column) for column in frame.columns]
    known = [None if name is None else str(name) for name in frame.index.names]
    frame = frame.set_axis(names, axis="columns")
    if id:
        absent = [column for column in id if column not in names]
        if not absent or not set(absent) <= set(known):
            return frame, id
        return frame.reset_index(), id
    if is_default_index(frame.index):
        return frame, ()
    columns = tuple(f"{_INDEX}{place}" for place in range(frame.index.nlevels))
    for place, column in enumerate(columns):
        frame = frame.assign(**{column: frame.index.get_level_values(place)})
    return frame, columns


def as_table(name: str, value: Any) -> pa.Table:
    """A frame of any library, or an array with two dimensions, as a table of Arrow.

    >>> as_table("bank", np.array([[1.5, 2.0]])).column_names
    ['x0', 'x1']
    """
    if is_indexed(value):
        table = _from_pandas(name, value)
    elif isinstance(value, pa.Table):
        table = value
    elif hasattr(value, "to_arrow"):
        table = value.to_arrow()
    elif hasattr(value, "__arrow_c_stream__"):
        table = pa.table(value)
    else:
        table = _from_array(name, value)
    if len(set(table.column_names)) < len(table.column_names):
        again = next(c for c in table.column_names if table.column_names.count(c) > 1)
        raise DataError(f"{name} has more than one column '{again}': rename all but one")
    return _long_text(table)


def _from_pandas(name: str, frame: Any) -> pa.Table:
    pandas = sys.modules["pandas"]
    if isinstance(frame, pandas.Series):
        raise DataError(f"the rows of {name} are a Series: give a frame, as with .to_frame()")
    columns: dict[str, Any] = {}
    for place, column in enumerate(frame.columns):
        try:
            columns.setdefault(str(column), pa.array(frame.iloc[:, place], from_pandas=True))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise _mixed(name, column) from None
    if len(columns) < len(frame.columns):
        again = frame.columns[frame.columns.astype(str).duplicated()][0]
        raise DataError(f"{name} has more than one column '{again}': rename all but one")
    return pa.table(columns)


def _mixed(name: str, column: Any) -> DataError:
    return DataError(
        f"column '{column}' of {name} has values of different kinds: make it all text, as with "
        ".astype(str), or all numbers"
    )


def _from_array(name: str, value: Any) -> pa.Table:
    plain = plain_array(f"the rows of {name}", value)
    array = check_array(plain, dtype=None, ensure_all_finite="allow-nan")
    columns = {}
    for place in range(array.shape[1]):
        own = array[:, place]
        try:
            values = own.tolist() if own.dtype.kind in "OU" else np.ascontiguousarray(own)
            columns[f"x{place}"] = pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise _mixed(name, f"x{place}") from None
    return pa.table(columns)


def _long_text(table: pa.Table) -> pa.Table:
    """Text as all columns of text have it here; a view is another form of the same."""
    for place, field in enumerate(table.schema):
        kind = field.type
        values = kind.value_type if pa.types.is_dictionary(kind) else kind
        if pa.types.is_string_view(values):
            column = table.column(place).cast(pa.large_string())
            table = table.set_column(place, field.name, column)
    return table
