"""`timeline.parquet` and `exchanges.parquet`: written and read piece by piece, so that neither has
to fit into memory. A file may have come from anybody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from colonnade.errors import RequestError
from colonnade.record.exchanges import DTYPE, Exchanges, Rows
from colonnade.record.private import private_file
from colonnade.record.reading import opened
from colonnade.record.timeline import Block, Timeline, Words

FORMAT_KEY = b"colonnade.format"
FORMAT = 2
"""Of a timeline; 1 had party, kind, start and end only, and no key."""
EXCHANGES_FORMAT = 1
GROUP_ROWS = 1 << 16
GROUP_BYTES_MAX = 1 << 30
"""The largest group of rows that is read: they are unpacked together."""
GROUPS_MAX = 1 << 20
_WORD = pa.dictionary(pa.int32(), pa.string())
_WORDS = ("kind", "peer", "message")
SPANS = pa.schema(
    {
        "party": _WORD,
        "kind": _WORD,
        "start_ns": pa.int64(),
        "end_ns": pa.int64(),
        "round": pa.int64(),
        "bytes": pa.int64(),
        "peer": _WORD,
        "message": _WORD,
    },
    metadata={FORMAT_KEY: str(FORMAT).encode()},
)
EXCHANGES = pa.schema(
    {
        "party": _WORD,
        **{name: pa.int64() for name in DTYPE.names or () if not name.startswith("weight")},
        **{name: pa.float64() for name in DTYPE.names or () if name.startswith("weight")},
    },
    metadata={FORMAT_KEY: str(EXCHANGES_FORMAT).encode()},
)


def save_timeline(path: Path, timelines: Mapping[str, Timeline]) -> None:
    """Write what every party did and when."""
    parts = (
        _spans(party, block) for party, timeline in timelines.items() for block in timeline.blocks()
    )
    _write(path, SPANS, parts)


def save_exchanges(path: Path, exchanges: Mapping[str, Exchanges]) -> None:
    """Write what became of every party's exchanges."""
    parts = (_exchanges(party, rows) for party, own in exchanges.items() for rows in own.blocks())
    _write(path, EXCHANGES, parts)


def _write(path: Path, schema: pa.Schema, parts: Iterable[pa.RecordBatch]) -> None:
    numbers = [field.name for field in schema if field.type == pa.int64()]
    with pq.ParquetWriter(
        private_file(path),
        schema,
        compression="zstd",
        use_dictionary=[field.name for field in schema if field.type == _WORD],
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    ) as writer:
        held: list[pa.RecordBatch] = []
        for part in parts:
            held.append(part)
            if sum(map(len, held)) >= GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(held, schema).unify_dictionaries())
                held = []
        if held:
            writer.write_table(pa.Table.from_batches(held, schema).unify_dictionaries())


def _spans(party: str, block: Block) -> pa.RecordBatch:
    words, rows = block
    codes = rows[:, 0]
    start_ns, end_ns, round, size = (pa.array(rows[:, place]) for place in range(1, 5))
    kind, peer, message = (
        _dictionary([getattr(each, name) for each in words], codes) for name in _WORDS
    )
    mine = _dictionary([party], np.zeros(len(rows), np.int64))
    columns = [mine, kind, start_ns, end_ns, round, size, peer, message]
    return pa.RecordBatch.from_arrays(columns, schema=SPANS)


def _dictionary(values: list[str], codes: Any) -> pa.DictionaryArray:
    """The values that the codes count, each of them once in the dictionary."""
    known = list(dict.fromkeys(values))
    places = {value: place for place, value in enumerate(known)}
    mapped = np.array([places[value] for value in values], np.int32)[codes]
    return pa.DictionaryArray.from_arrays(pa.array(mapped), pa.array(known, pa.string()))


def _exchanges(party: str, rows: Rows) -> pa.RecordBatch:
    mine = _dictionary([party], np.zeros(len(rows), np.int64))
    columns = [pa.array(rows[name], from_pandas=True) for name in DTYPE.names or ()]
    return pa.RecordBatch.from_arrays([mine, *columns], schema=EXCHANGES)


def timeline_batches(path: Path, rows: int = GROUP_ROWS) -> Iterator[pa.RecordBatch]:
    """The spans of a timeline, some thousands at a time, in the columns of the present format: an
    older file has neutral values in those that it does not know."""
    yield from _batches(path, SPANS, rows, "timeline", FORMAT)


def exchanges_batches(path: Path, rows: int = GROUP_ROWS) -> Iterator[pa.RecordBatch]:
    """The rounds of every party, some thousands at a time."""
    yield from _batches(path, EXCHANGES, rows, "table of exchanges", EXCHANGES_FORMAT)


def read_timelines(path: Path) -> dict[str, Timeline]:
    """What every party of a file did and when."""
    found: dict[str, Timeline] = {}
    for batch in timeline_batches(path):
        for party, part in _by_party(batch):
            found.setdefault(party, Timeline()).extend(*_block(part))
    return found


def read_timeline(path: Path) -> Timeline:
    """What the one party of a file did and when."""
    return next(iter(read_timelines(path).values()), Timeline())


def read_exchanges(path: Path) -> dict[str, Exchanges]:
    """What became of the exchanges of every party of a file."""
    found: dict[str, Exchanges] = {}
    for batch in exchanges_batches(path):
        for party, part in _by_party(batch):
            rows = np.zeros(len(part), DTYPE)
            for name in DTYPE.names or ():
                rows[name] = part[name].to_numpy(zero_copy_only=False)
            found.setdefault(party, Exchanges()).extend(rows)
    return found


def _by_party(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    for number, party in enumerate(batch["party"].dictionary.to_pylist()):
        mine = pc.equal(batch["party"].indices, pa.scalar(number, pa.int32()))
        if len(part := batch.filter(mine)):
            yield party, part


def _block(batch: pa.RecordBatch) -> Block:
    """The words of spans, each combination once, and their numbers."""
    columns = [batch[name] for name in _WORDS]
    combined = np.zeros(len(batch), np.int64)
    for column in columns:
        combined = combined * max(1, len(column.dictionary)) + column.indices.to_numpy()
    combinations, first, codes = np.unique(combined, return_index=True, return_inverse=True)
    named = [column.take(pa.array(first)).to_pylist() for column in columns]
    numbers = [batch[name].to_numpy() for name in ("start_ns", "end_ns", "round", "bytes")]
    assert len(combinations) == len(first)
    words = [Words(*each) for each in zip(*named, strict=True)]
    return words, np.column_stack((codes, *numbers)).astype(np.int64)


def _batches(
    path: Path, schema: pa.Schema, rows: int, what: str, newest: int
) -> Iterator[pa.RecordBatch]:
    with _parquet(path, what, newest) as file:
        needed = set(schema.names[:4])
        if not needed <= set(file.schema_arrow.names):
            raise _damaged(path, what)
        columns = [name for name in schema.names if name in file.schema_arrow.names]
        for batch in file.iter_batches(rows, columns=columns):
            arrays = [_column(batch, field, path, what) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field, path: Path, what: str) -> pa.Array:
    """A column as it should be; with neutral values where there is none."""
    if field.name not in batch.schema.names:
        if field.type == _WORD:
            return _dictionary([""], np.zeros(len(batch), np.int64))
        return pa.nulls(len(batch), field.type) if field.type == pa.float64() else _zeros(batch)
    column = batch[field.name]
    if column.null_count and field.type != pa.float64():
        raise _damaged(path, what)
    if field.type == _WORD and not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return column.cast(field.type)


def _zeros(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(np.zeros(len(batch), np.int64))


@contextmanager
def _parquet(path: Path, what: str, newest: int) -> Iterator[pq.ParquetFile]:
    """A Parquet file of a format that is known, whose groups fit into memory."""
    with opened(path) as (handle, _):
        try:
            with pq.ParquetFile(handle) as file:
                _check(path, what, newest, file)
                yield file
        except (pa.ArrowException, OSError, UnicodeError, KeyError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise _damaged(path, what) from None


def _check(path: Path, what: str, newest: int, file: pq.ParquetFile) -> None:
    said = (file.schema_arrow.metadata or {}).get(FORMAT_KEY, b"1")
    if not said.isdigit() or len(said) > 4:
        raise _damaged(path, what)
    if int(said) > newest:
        raise RequestError(
            f"the {what} in {path} has format {int(said)}, and this version of colonnade reads up "
            f"to {newest}: upgrade it"
        )
    groups = file.metadata.num_row_groups
    if groups > GROUPS_MAX or any(
        file.metadata.row_group(place).total_byte_size > GROUP_BYTES_MAX for place in range(groups)
    ):
        raise _damaged(path, what)


def _damaged(path: Path, what: str) -> RequestError:
    return RequestError(f"{path} is damaged, or no {what}: copy the whole folder of the run again")
