"""The rows that a party can score: its present table, as its model reads it.

Rows that were there in the training are known to all parties by their places in the order of the
training, as long as the party's table has not changed since. Others are known by their ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from colonnade.data.aligned import TableFingerprint, aligned_rows, read_facts
from colonnade.data.files import TableFile
from colonnade.data.ids import id_texts
from colonnade.data.named import Dataset, load
from colonnade.data.on_disk import OnDisk, is_large
from colonnade.data.own import (
    array_features,
    common_order,
    id_columns,
    named_features,
    open_table,
)
from colonnade.data.party import named_order
from colonnade.data.preprocess import Preprocessor
from colonnade.data.types import check_types, text_columns
from colonnade.errors import DataError
from colonnade.job.records import Job, is_array
from colonnade.learn.saved import SavedParty

Array = NDArray[Any]
Rows = NDArray[np.int64]
Models = Mapping[str, SavedParty]
"""What a party has of each version of a model."""
LACKING = -1
"""In the place of a row that a party does not have."""


@dataclass(frozen=True, eq=False)
class PartyRows:
    """What one party can be asked about."""

    count: int
    features: Mapping[str, Array]
    """By version of the model, the rows of numbers that it reads; empty for a party that has no
    columns."""
    ids: pa.Array | None = None
    """Of all rows, as text under the job's rule; None where only their places name them."""
    order: Rows | None = None
    """For each place in the order of the training the row that has it; None where the table is not
    the one that was trained on."""
    unseen: Mapping[str, int] | None = None
    """By column, how many rows have a category that training did not know."""

    def at(self, places: Rows) -> Rows:
        """The rows at places in the order of the training; `LACKING` for places that it has not."""
        assert self.order is not None
        known = (places >= 0) & (places < len(self.order))
        return np.where(known, self.order[np.where(known, places, 0)], LACKING)


def read_rows(job: Job, me: str, models: Models) -> PartyRows:
    """Read what a party can be asked about, for some versions of a model."""
    party = job.parties[me]
    if job.data is not None:
        return _named(job, me, load(job.data), models)
    if party.table is not None and not is_array(party.table):
        return _from_table(job, me, party.table, models)
    arrays = [path for path in (party.table, party.table_test) if path is not None]
    if not arrays:
        return PartyRows(0, {})
    whole = np.concatenate([array_features(me, party, path) for path in arrays])
    return _by_place(whole, f"rows {len(whole)}", models)


def _named(job: Job, me: str, dataset: Dataset, models: Models) -> PartyRows:
    whole = named_features(me, job.parties[me], dataset)
    if whole is None:
        count = len(dataset.labels)
        return PartyRows(count, {}, order=np.arange(count))
    return _by_place(whole, named_order(dataset), models)


def _by_place(whole: Any, order: str, models: Models) -> PartyRows:
    features = {
        version: whole if own.preprocessor is None else own.preprocessor.transform(whole)
        for version, own in models.items()
    }
    same = all(own.card.order == order for own in models.values())
    return PartyRows(len(whole), features, order=np.arange(len(whole)) if same else None)


def _from_table(job: Job, me: str, path: str, models: Models) -> PartyRows:
    types = {name: kind for own in models.values() for name, kind in own.card.types.items()}
    party = job.parties[me]
    file = open_table(me, party, path, text_columns(types))
    columns = id_columns(me, party, path)
    wanted = [name for own in models.values() for name in own.card.columns]
    chosen = file.check(wanted)
    large = bool(chosen) and is_large(file, chosen)
    table = file.read(columns if large else [*columns, *chosen])
    check_types(file.schema if large else table.schema, types, path)
    ids = id_texts(table, columns, job.ids, path)
    _refuse_duplicates(ids, path)
    features = {}
    unseen: dict[str, int] = {}
    for version, own in models.items():
        if own.card.width and (fitted := own.preprocessor) is not None:
            features[version] = _encoded(fitted, table, file, chosen, large)
            unseen |= {} if large else fitted.unseen(table)
    order = _order(job, me, table, ids, path, models)
    return PartyRows(len(ids), features, ids, order, unseen)


def _encoded(
    fitted: Preprocessor, table: pa.Table, file: TableFile, chosen: list[str], large: bool
) -> Array:
    if not large:
        return fitted.transform(table)
    count = table.num_rows
    places = np.arange(count, dtype=np.int32)
    return OnDisk(file, chosen, places).take(np.arange(count)).encoded(fitted)


def _order(
    job: Job,
    me: str,
    table: pa.Table,
    ids: pa.Array,
    path: str,
    models: Models,
) -> Rows | None:
    """Which row is at which place, if the table has the rows of the training and no others."""
    party, wanted = job.parties[me], {own.card.order for own in models.values()}
    if party.aligned is not None:
        folder = Path(party.aligned)
        facts, mixed = read_facts(folder), TableFingerprint()
        mixed.update(ids)
        if mixed.text() != facts.table or wanted != {f"aligned {facts.common}"}:
            return None
        return aligned_rows(folder, facts, ids, path)
    if party.table_test is not None:
        return None
    known, order = common_order(me, party, job.ids, table, path, job.alignment == "private")
    mixed = TableFingerprint()
    mixed.update(known)
    if wanted != {f"ids {mixed.text()}"}:
        return None
    found: Rows = order.to_numpy().astype(np.int64)
    return found


def _refuse_duplicates(ids: pa.Array, path: str) -> None:
    counts = pc.value_counts(ids)
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(twice):
        raise DataError(
            f"{path} has {len(twice):,} ids that come more than once, such as "
            f"'{twice[0]['values'].as_py()}': keep one row per id"
        )


def places_in(rows: PartyRows) -> Rows:
    """The inverse of `order`: for each row its place, `LACKING` where it has none.

    >>> places_in(PartyRows(3, {}, order=np.array([2, 0]))).tolist()
    [1, -1, 0]
    """
    found = np.full(rows.count, LACKING, dtype=np.int64)
    if rows.order is not None:
        found[rows.order] = np.arange(len(rows.order))
    return found
