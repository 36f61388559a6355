"""One party's columns, or its part of each image, of a data set that a job names."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import pyarrow as pa

from colonnade.data.named import Dataset
from colonnade.data.own import refuse_named_label
from colonnade.data.tables import select, values
from colonnade.data.views import cut
from colonnade.errors import DataError, nearest
from colonnade.job.records import Party

Array = npt.NDArray[Any]


def named_features(name: str, party: Party, dataset: Dataset) -> pa.Table | Array | None:
    """A party's columns, or its part of each image; None for one that holds only the labels."""
    for field in ("table", "table_test", "id", "label_test"):
        if getattr(party, field) is not None:
            raise DataError(
                f"{name} has a {field} although the job takes its data from '{dataset.name}': "
                f"leave out data, or parties.{name}.{field}"
            )
    if party.label not in (None, dataset.label):
        raise DataError(
            f"{name} has the label '{party.label}', but the label of the data set "
            f"{dataset.name} is '{dataset.label}': leave out parties.{name}.label"
        )
    wanted, other = ("view", "columns") if dataset.images is not None else ("columns", "view")
    if getattr(party, other):
        raise DataError(
            f"{name} has {other}, but the data set {dataset.name} holds "
            f"{'images' if wanted == 'view' else 'a table'}: use {wanted} instead"
        )
    if not getattr(party, wanted):
        if party.role == "active":
            return None
        raise DataError(
            f"the passive party {name} has no features: set parties.{name}.{wanted} to its part "
            f"of the data set {dataset.name}"
        )
    if dataset.images is not None:
        assert party.view is not None
        return cut(dataset.images, party.view)
    return _named_columns(name, party, dataset)


def _named_columns(name: str, party: Party, dataset: Dataset) -> pa.Table:
    assert dataset.table is not None
    refuse_named_label(name, party, dataset.label)
    chosen = select(party.columns, dataset.table.column_names, f"the data set {dataset.name}")
    return dataset.table.select(chosen)


def named_weights(party: Party, dataset: Dataset) -> Array | None:
    """How much each row counts, where the party says so."""
    column = party.sample_weight
    if column is None:
        return None
    known = [] if dataset.table is None else dataset.table.column_names
    if dataset.table is None or column not in known:
        raise DataError(
            f"the data set {dataset.name} has no column '{column}' for sample_weight: "
            f"{nearest(column, known)}"
        )
    return values(dataset.table[column], f"the weight '{column}'")
