"""Files of a run folder as plain values: how large each may be is known before it is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from colonnade.errors import RequestError
from colonnade.formats import check_json
from colonnade.record.chain import printable
from colonnade.record.reading import read_regular

JSON_BYTES_MAX = 2**28
TABLE_BYTES_MAX = 2**29
ROWS_MAX = 2**23
"""The longest table that is read whole: as many spans as several hundred thousand rounds have."""
_UNPACKED_BYTES_MAX = 2**31
_NAMES_MAX = 4096
TEXT_MAX = 4_000
"""The longest text that is shown."""
NAME_MAX = 80
_AGAIN = "copy the whole folder of the run again"
T = TypeVar("T")
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Names:
    """A column of names: each row's number, and what the numbers stand for."""

    codes: NDArray[np.int32]
    names: list[str]


def read_json(path: Path, kind: type[T], file_format: str | None = None) -> T | None:
    """A file of plain values; None where there is none. One that has a format of its own is refused
    where a version of Colonnade wrote it that this one cannot read.

    >>> read_json(Path("nowhere/summary.json"), dict)
    """
    if not path.exists() and not path.is_symlink():
        return None
    content = read_regular(path, JSON_BYTES_MAX)
    if file_format is not None:
        check_json(file_format, content, path)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise RequestError(f"{path} is damaged: {_AGAIN}") from None


def read_table(path: Path, wanted: Mapping[str, str]) -> dict[str, Any] | None:
    """Columns of a parquet file, `int`, `float` or `name` each; those that it lacks are left out.
    None where there is no file.

    >>> read_table(Path("nowhere/history.parquet"), {"round": "int"})
    """
    table = open_table(path)
    if table is None:
        return None
    present = [name for name in wanted if name in table.schema_arrow.names]
    try:
        read = table.read(columns=present)
        return {name: _column(read[name], wanted[name]) for name in present}
    except (pa.ArrowException, OSError, ValueError, TypeError, OverflowError):
        raise _damaged(path) from None


def read_batches(
    path: Path, batches: Callable[[Path], Iterator[pa.RecordBatch]], wanted: Mapping[str, str]
) -> dict[str, Any] | None:
    """The columns of a table that comes batch by batch; None where there is no file."""
    if not path.exists() and not path.is_symlink():
        return None
    kept, rows = [], 0
    for batch in batches(path):
        kept.append(batch)
        rows += len(batch)
        if rows > ROWS_MAX:
            raise RequestError(
                f"{path} has more than the {ROWS_MAX:,} rows that a report draws: draw a shorter "
                "run"
            )
    if not kept:
        return None
    try:
        table = pa.Table.from_batches(kept)
        return {name: _column(table[name], kind) for name, kind in wanted.items()}
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        raise _damaged(path) from None


def open_table(path: Path) -> pq.ParquetFile | None:
    """A parquet file whose tables fit into memory, as far as it says itself."""
    if not path.exists() and not path.is_symlink():
        return None
    content = read_regular(path, TABLE_BYTES_MAX)
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        found = file.metadata
        groups = [found.row_group(place) for place in range(found.num_row_groups)]
        unpacked = sum(group.total_byte_size for group in groups)
        rows = sum(group.num_rows for group in groups)
    except (pa.ArrowException, OSError, ValueError):
        raise _damaged(path) from None
    if not 0 <= rows <= ROWS_MAX or rows != found.num_rows or unpacked > _UNPACKED_BYTES_MAX:
        raise RequestError(
            f"{path} has {rows:,} rows, more than the {ROWS_MAX:,} that a report reads: {_AGAIN}"
        )
    return file


def _column(column: pa.ChunkedArray, kind: str) -> Any:
    if kind == "name":
        return _names(column)
    wanted = pa.int64() if kind == "int" else pa.float64()
    known = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
    if not any(is_one(column.type) for is_one in known):
        raise TypeError(column.type)
    plain = column.cast(wanted)
    if kind == "int":
        plain = plain.fill_null(0) if plain.null_count else plain
    return plain.to_numpy()


def _names(column: pa.ChunkedArray) -> Names:
    if not pa.types.is_dictionary(column.type):
        known = (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)
        if not any(is_one(column.type) for is_one in known):
            raise TypeError(column.type)
        column = column.cast(pa.string()).dictionary_encode()
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        if whole.num_chunks == 0:
            return Names(np.zeros(0, np.int32), [])
        whole = whole.chunk(0)
    if len(whole.dictionary) > _NAMES_MAX or not pa.types.is_string(whole.dictionary.type):
        raise TypeError("too many names")
    names = [clean_text(name or "", NAME_MAX) for name in whole.dictionary.to_pylist()]
    codes = whole.indices.cast(pa.int32())
    if codes.null_count:
        names, codes = [*names, ""], codes.fill_null(len(names))
    return Names(codes.to_numpy(zero_copy_only=False), names)


class Packed(str):
    """Data of ours as text, which is not for people and may be long."""


def clean(value: Any) -> Any:
    """Plain values that any browser can be handed: texts printable and of bounded length, no number
    that JSON does not have.

    >>> clean({"a\\x1b": [float("nan"), 1.5]})
    {'a?': [None, 1.5]}
    """
    if isinstance(value, Packed):
        return value
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean_text(str(key), 200): clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [clean(each) for each in value]
    if isinstance(value, int) and abs(value) > 2**53:
        # Larger than any number of JavaScript is none.
        return float(value) if abs(value) < 2**1000 else None
    return value


def clean_text(text: str, letters_max: int = TEXT_MAX) -> str:
    """A text as it may be shown, line breaks kept, cut where it is too long.

    >>> clean_text("a\\nb\\x1b[31m"), clean_text("abcdef", 3)
    ('a\\nb?[31m', 'abc…')
    """
    more = "…" if len(text) > letters_max else ""
    return "\n".join(map(printable, text[:letters_max].split("\n"))) + more


def _damaged(path: Path) -> RequestError:
    return RequestError(f"{path} is damaged, or no table of a run: {_AGAIN}")
