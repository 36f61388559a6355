"""What will become of a table: a report on its columns, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from colonnade.data.csv_dialect import SEPARATORS
from colonnade.data.files import TableFile
from colonnade.data.kinds import recognise
from colonnade.data.layout import expanded
from colonnade.data.own import id_columns, table_file
from colonnade.data.plain import Category, Number
from colonnade.data.preprocess import LeftOut, learn, plainly, treatment_of
from colonnade.data.tables import select
from colonnade.data.values import decoded
from colonnade.errors import DataError
from colonnade.job.records import Party

ROWS = 100_000
_EXAMPLES = 3
_SHOWN = 24
_CODES_MAX = 10
_CODES_ROWS = 10
"""Up to how many different whole numbers may be codes, in how many rows for each."""


@dataclass(frozen=True)
class Seen:
    """What is known of one column.

    >>> seen("plan", pa.chunked_array([["a", "b", "a"]]), Party()).becomes
    'one-hot'
    """

    name: str
    kind: str
    becomes: str
    """The treatment; `left out`, or `refused`."""
    inputs: int
    """How many numbers a model gets of it."""
    missing: float
    """The share of rows without a value."""
    distinct: int
    examples: list[str]
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """What is known of a table."""

    path: str
    rows: int
    """So many were looked at."""
    whole: bool
    """Whether that was all of them."""
    written: dict[str, str]
    """How a CSV file is written."""
    columns: list[Seen]
    party_file: list[str]
    """Lines for the party file."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def look(path: str | Path, party: Party, rows: int = ROWS) -> Report:
    """Look at the first rows of a table as a party would read it."""
    file = table_file(str(path), party)
    table, whole = _first(file, rows)
    ids = [] if party.id is None else id_columns("the party", party, str(path))
    own: dict[str | None, str] = {party.label: "label", party.sample_weight: "weight"}
    own |= dict.fromkeys(ids, "id")
    file.check(name for name in own if name is not None)
    rest = [name for name in file.names if name not in own]
    chosen = set(select(party.columns, rest, str(path)) if party.columns else rest)
    found = [
        _aside(name, table[name], own.get(name, "not chosen"))
        if name in own or name not in chosen
        else seen(name, table[name], party)
        for name in file.names
    ]
    said = file.said
    written = {"encoding": said.encoding, "separator": said.separator, "decimal": said.decimal}
    known = {key: value for key, value in written.items() if value} if file.is_csv else {}
    lines = _lines(Path(path), party, found)
    return Report(str(path), table.num_rows, whole, known, found, lines)


def _first(file: TableFile, rows: int) -> tuple[pa.Table, bool]:
    pieces: list[pa.RecordBatch] = []
    count, batches = 0, file.batches(file.names)
    while count < rows and (batch := next(batches, None)) is not None:
        pieces.append(batch)
        count += batch.num_rows
    if not count:
        raise DataError(f"{file.path} has column names and no rows: add the rows")
    return pa.Table.from_batches(pieces).slice(0, rows), count <= rows and next(
        batches, None
    ) is None


def seen(name: str, column: pa.ChunkedArray, party: Party) -> Seen:
    """What is known of a column that a party has among its features."""
    found = recognise(name, column)
    kind: str = found.kind
    warnings, inputs = list(found.warnings), 0
    asked = treatment_of(name, party.treat)
    listed = name in select_any(party.categorical, name)
    try:
        if asked is None and party.preprocessing == "plain":
            plain = plainly(name, column, listed)
            becomes = "standard" if isinstance(plain, Number) else "one-hot"
            inputs = len(plain.names)
        else:
            fitted = learn(name, column, asked or ("category" if listed else None))
            assert not isinstance(fitted, Number | Category)
            becomes, inputs = fitted.word, expanded(fitted.inputs)
            said = asked or ("category" if listed else kind)
            kind = kind if isinstance(fitted, LeftOut) else said
    except DataError as error:
        becomes = "refused"
        warnings = [str(error)]
    distinct = _distinct(column)
    if asked is None and kind == "number" and _may_be_codes(column, distinct):
        warnings.append(f'it has {distinct} different whole numbers: if codes, say "category"')
    shown = _examples(column)
    return Seen(name, kind, becomes, inputs, _missing(column), distinct, shown, warnings)


def _may_be_codes(column: pa.ChunkedArray, distinct: int) -> bool:
    """Few whole numbers in many rows. Of two it does not matter."""
    few = 3 <= distinct <= _CODES_MAX and len(column) >= _CODES_ROWS * distinct
    return few and pa.types.is_integer(column.type)


def select_any(patterns: Sequence[str], name: str) -> list[str]:
    """The name, if any of the patterns matches it.

    >>> select_any(["PAY_*"], "PAY_0")
    ['PAY_0']
    """
    return [name] if treatment_of(name, dict.fromkeys(patterns, "category")) else []


def _aside(name: str, column: pa.ChunkedArray, what: str) -> Seen:
    shown = _examples(column)
    return Seen(name, what, "left out", 0, _missing(column), _distinct(column), shown)


def _missing(column: pa.ChunkedArray) -> float:
    absent: int = column.null_count
    if pa.types.is_floating(column.type):
        absent = pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0
    return round(absent / max(1, len(column)), 4)


def _distinct(column: pa.ChunkedArray) -> int:
    try:
        return int(pc.count_distinct(decoded(column)).as_py())
    except pa.ArrowException:
        return 0


def _examples(column: pa.ChunkedArray) -> list[str]:
    known = dict.fromkeys(
        f"{value:g}" if isinstance(value, float) else str(value)
        for value in column.slice(0, 1000).to_pylist()
        if value is not None
    )
    texts = [" ".join(text.split()) for text in list(known)[:_EXAMPLES]]
    return [text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…" for text in texts]


def _lines(path: Path, party: Party, found: Sequence[Seen]) -> list[str]:
    """What a party file would say so that all stays as it is shown."""
    import tomli_w

    ids = [each.name for each in found if each.kind == "id" and each.becomes == "left out"]
    table: dict[str, Any] = {"table": str(path), "id": party.id or (ids[0] if ids else "…")}
    table |= {} if party.label is None else {"label": party.label}
    out = [
        each.name
        for each in found
        if each.becomes in ("left out", "refused")
        and each.kind not in ("label", "weight")
        and each.name not in ([table["id"]] if isinstance(table["id"], str) else table["id"])
    ]
    table["columns"] = party.columns or ["*", *(f"!{name}" for name in out)]
    table |= {"categorical": party.categorical} if party.categorical else {}
    treat = dict(party.treat)
    for each in found:
        if each.warnings and each.inputs and each.name not in treat:
            treat[each.name] = (
                each.kind if each.kind in ("number", "category", "date") else each.becomes
            )
    return tomli_w.dumps(table | ({"treat": treat} if treat else {})).splitlines()


def separator_name(separator: str) -> str:
    """How a person calls it.

    >>> separator_name(";")
    'semicolons'
    """
    return SEPARATORS.get(separator, f"'{separator}'")
