"""Tables from files: Parquet, CSV and Arrow, with only the columns a party names.

Rows are put into one order by the text of their ids, so that parties that hold the same ids
hold the same rows at the same places, whatever order and type their files have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds

from colonnade.data.csv_faults import csv_fault, refuse_odd_csv
from colonnade.errors import DataError, nearest

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
_CSV_BLOCK_BYTES = 16 * 2**20
"""The types of CSV columns are read off the first block, so it should show most of them."""
_LEADING_ZERO = r"^\s*[+-]?0[0-9]"


class TableFile:
    """A table on disk whose column names are known and whose values are not read yet.

    >>> TableFile("missing.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    colonnade.errors.DataError: there is no file missing.csv: ...
    """

    def __init__(self, path: str | Path, text: Sequence[str] = ()) -> None:
        """Open a file; the columns named in `text` are text even where CSV shows numbers."""
        self.path = Path(path)
        suffix = self.path.suffix.lower()
        if suffix not in _FORMATS:
            raise DataError(
                f"{self.path} ends in '{suffix}': use a table in {', '.join(_FORMATS)}, "
                "or an array in .npy or idx"
            )
        if not self.path.is_file():
            raise DataError(
                f"there is no file {self.path}: check its path in the job or the party file"
            )
        self._format = _FORMATS[suffix]
        self._text = tuple(text)
        try:
            if self._format == "csv":
                refuse_odd_csv(self.path)
            self._file = self._open(self._text)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from None
        self.names: list[str] = list(self._file.schema.names)

    def _open(self, text: Sequence[str]) -> ds.Dataset:
        return ds.dataset(str(self.path), format=_format(self._format, text))

    def _unreadable(self, error: Exception) -> DataError:
        # Arrow repeats the path before each of its reasons; the last one is the cause.
        cause = str(error).split(f"{self.path}'")[-1].lstrip(".: ")
        reason = " ".join(cause.split())[:200].rstrip(".")
        known = csv_fault(self.path, reason) if self._format == "csv" else None
        if known is not None:
            return known
        return DataError(
            f"{self.path} cannot be read as a table ({reason}): "
            "check that its ending says what it is and that it is complete"
        )

    def read(self, columns: Iterable[str]) -> pa.Table:
        """Read the named columns, each once, and no others.

        A column of a CSV file that writes a number with a leading zero, such as `00284`, holds
        codes, and stays text.
        """
        names = list(dict.fromkeys(columns))
        for name in names:
            if name not in self.names:
                raise DataError(f"{self.path} has no column '{name}': {nearest(name, self.names)}")
        try:
            file = self._file
            codes = self._codes(names) if self._format == "csv" else []
            if codes:
                file = self._open([*self._text, *codes])
            return file.to_table(columns={name: ds.field(name) for name in names})
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._unreadable(error) from None

    def _codes(self, names: Sequence[str]) -> list[str]:
        """The columns that look like numbers, but for zeros in front that a number would lose."""
        left = [name for name in names if _is_number(self._file.schema.field(name).type)]
        found: set[str] = set()
        if left:
            columns = {name: ds.field(name) for name in left}
            for batch in self._open([*self._text, *left]).to_batches(columns=columns):
                for name in left:
                    zeros = pc.match_substring_regex(batch[name], _LEADING_ZERO)
                    found |= {name} if pc.any(zeros).as_py() else set()
        return [name for name in left if name in found]


def _format(kind: str, text: Sequence[str]) -> Any:
    if kind != "csv":
        return kind
    return ds.CsvFileFormat(
        read_options=pyarrow.csv.ReadOptions(block_size=_CSV_BLOCK_BYTES),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: pa.string() for name in text}, strings_can_be_null=True
        ),
    )


def select(patterns: Iterable[str], names: Sequence[str], where: str) -> list[str]:
    """Return the columns that the patterns name: in their order, each column once.

    >>> select(["AGE", "PAY_*"], ["PAY_0", "AGE", "PAY_2"], "bank.csv")
    ['AGE', 'PAY_0', 'PAY_2']
    """
    chosen: list[str] = []
    for pattern in patterns:
        # A name that is there as it stands wins, because names may contain brackets.
        found = [pattern] if pattern in names else [n for n in names if fnmatchcase(n, pattern)]
        if not found:
            raise DataError(f"no column of {where} matches '{pattern}': {nearest(pattern, names)}")
        chosen += found
    return list(dict.fromkeys(chosen))


def by_id(table: pa.Table, id_column: str, where: str) -> tuple[pa.Table, pa.Array]:
    """Sort a table by the text of its ids; return it without the ids, and the ids.

    >>> rows, ids = by_id(pa.table({"id": [10, 9], "x": [1.0, 2.0]}), "id", "bank.csv")
    >>> ids.to_pylist(), rows["x"].to_pylist()
    (['10', '9'], [1.0, 2.0])
    """
    ids = _id_text(table[id_column], id_column, where)
    if ids.null_count:
        raise DataError(
            f"{ids.null_count} rows of {where} have no id in '{id_column}': "
            "fill the ids in or leave those rows out"
        )
    order = pc.sort_indices(ids)
    ids = ids.take(order)
    _refuse_duplicates(ids, id_column, where)
    return table.drop_columns([id_column]).take(order), ids


def _id_text(column: pa.ChunkedArray, name: str, where: str) -> pa.Array:
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
