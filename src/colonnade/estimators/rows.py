"""Which rows belong together: of several frames by id or by place, of one frame trivially."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colonnade.data.checks import check_weights, unequal
from colonnade.data.own import FileRows, common_rows
from colonnade.data.tables import ordered, select
from colonnade.errors import DataError
from colonnade.estimators.tables import Held

Array = NDArray[Any]
PARTIES = 2
"""Into so many one frame is divided where nothing else is said."""


def divided(table: pa.Table, parties: Any, id: Sequence[str] = ()) -> dict[str, list[str]]:
    """The columns of one table by party: as `parties` names them, or in equal shares.

    >>> table = pa.table({name: [0.5] for name in ("age", "income", "calls")})
    >>> divided(table, {"bank": ["age", "in*"], "telco": ["calls"]})
    {'bank': ['age', 'income'], 'telco': ['calls']}
    >>> divided(table, 3)
    {'party0': ['age'], 'party1': ['income'], 'party2': ['calls']}
    """
    names = [name for name in table.column_names if name not in id]
    if parties is None:
        parties = PARTIES
    if isinstance(parties, Mapping):
        return {
            str(name): select(_named(own, names, name), names, "X") for name, own in parties.items()
        }
    if isinstance(parties, bool) or not isinstance(parties, int) or parties < 2:
        raise DataError(
            f"parties is {parties!r}: give the columns of each, as in "
            "{'bank': ['age'], 'telco': ['calls']}, or a number of 2 or more"
        )
    if len(names) < parties:
        raise DataError(
            f"X has n_features = {len(names)}, which cannot be divided among {parties} parties: "
            "give more columns, or fewer parties"
        )
    shares = np.array_split(np.arange(len(names)), parties)
    return {f"party{n}": [names[i] for i in share] for n, share in enumerate(shares)}


def _named(own: Any, names: Sequence[str], party: Any) -> list[str]:
    """Columns by name, pattern or place, as names and patterns."""
    if isinstance(own, str) or not isinstance(own, Sequence | np.ndarray):
        raise DataError(f"parties has {own!r} for {party}: give a list of columns")
    found = []
    for each in own:
        place = isinstance(each, int | np.integer) and not isinstance(each, bool)
        if place and not -len(names) <= each < len(names):
            raise DataError(
                f"parties gives {party} the column {each}, and X has {len(names)}: count from 0"
            )
        found.append(names[each] if place else str(each))
    return found


def training_rows(
    held: Mapping[str, Held], active: str, labels: Array, weights: Array | None
) -> dict[str, FileRows]:
    """The rows that all parties have, in one order, with the active party's labels."""
    _check_alike(held)
    if any(own.ids is not None for own in held.values()):
        parts = {name: _by_id(own) for name, own in held.items()}
    else:
        parts = {name: _by_place(own) for name, own in held.items()}
    own, rows = parts[active]
    own = replace(own, labels=labels[rows], weights=None if weights is None else weights[rows])
    found = {name: part for name, (part, _) in parts.items()}
    common = common_rows({**found, active: own if weights is None else _counting(own)})
    if (count := common[active].count) < 2:
        raise DataError(
            f"n_samples = {count}, of the rows that all parties have and that count: give more rows"
        )
    return common


def _counting(own: FileRows) -> FileRows:
    """Without the rows of weight 0: a batch of nothing else would have no mean."""
    weights = check_weights(np.asarray(own.weights), own.count)
    return replace(own, weights=weights).only(pa.array(np.flatnonzero(weights)))


def _check_alike(held: Mapping[str, Held]) -> None:
    by_id = [own for own in held.values() if own.ids is not None]
    by_place = [own for own in held.values() if own.ids is None]
    if by_id and by_place:
        raise DataError(
            f"the rows of {by_id[0].name} have ids and those of {by_place[0].name} have none, so "
            "nothing says which rows belong together: name the id column of each with id, or give "
            "pandas frames whose index is the id"
        )
    for own in by_place[1:]:
        first = by_place[0]
        if own.count != first.count:
            raise DataError(
                f"unequal row counts: {first.name} has {first.count} rows, {own.name} has "
                f"{own.count}, and without ids rows are matched by place: name the id column with "
                "id, or keep only the rows that every party has, in one order"
            )


def _features(own: Held, rows: Any = None) -> pa.Table | None:
    if not own.table.num_columns:
        return None
    return own.table if rows is None else own.table.take(rows)


def _by_id(own: Held) -> tuple[FileRows, Any]:
    ids, order = ordered(pa.chunked_array([own.ids]), "id", own.name)
    return FileRows(own.name, own.count, _features(own, order), ids=ids), order.to_numpy()


def _by_place(own: Held) -> tuple[FileRows, Any]:
    """Ids that are the places, so that their order as text is that of the rows."""
    places = np.arange(own.count)
    text = pc.cast(pa.array(places), pa.large_string())
    ids = pc.utf8_lpad(text, len(str(own.count)), "0")
    return FileRows(own.name, own.count, _features(own), ids=ids), places


def located(held: Mapping[str, Held], active: str) -> dict[str, NDArray[np.int64]]:
    """In which row of each party's frame the active party's rows are; -1 where it lacks one.

    >>> bank = Held("bank", 2, pa.table({"age": [1, 2]}), pa.array(["ann", "bob"]))
    >>> telco = Held("telco", 1, pa.table({"calls": [7]}), pa.array(["bob"]))
    >>> located({"bank": bank, "telco": telco}, "bank")["telco"].tolist()
    [-1, 0]
    """
    _check_alike(held)
    wanted = held[active].ids
    if wanted is None:
        return {name: np.arange(own.count) for name, own in held.items()}
    found = {}
    for name, own in held.items():
        if name != active:
            ordered(pa.chunked_array([own.ids]), "id", own.name)
        places = pc.index_in(wanted, value_set=own.ids)
        found[name] = pc.fill_null(places, -1).to_numpy().astype(np.int64)
    found[active] = np.arange(held[active].count)
    return found


def check_labels(name: str, rows: int, labels: Array) -> None:
    """Refuse labels that are not one for each of the active party's rows."""
    if len(labels) != rows:
        raise unequal("rows", name, rows, "the labels", len(labels))
