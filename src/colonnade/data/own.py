"""The rows that a party keeps in files of its own, and its part of a data set that a job names.

Rows of tables are ordered by id; rows of arrays have no ids and keep the order of their file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from colonnade.data.aligned import Alignment, aligned_rows, read_facts
from colonnade.data.arrays import as_images, read_array
from colonnade.data.checks import unequal
from colonnade.data.csv_dialect import Said
from colonnade.data.files import TableFile
from colonnade.data.ids import id_texts
from colonnade.data.named import Dataset
from colonnade.data.on_disk import ELSEWHERE, OnDisk, is_large
from colonnade.data.tables import ordered, select, values
from colonnade.data.views import NO_VIEW, cut
from colonnade.errors import DataError, nearest
from colonnade.job.ids import Ids
from colonnade.job.records import Party, is_array

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class FileRows:
    """One party's rows from one set of files, in their final order.

    >>> FileRows(name="bank", count=2, labels=None).ids is None
    True
    """

    name: str
    count: int
    features: pa.Table | OnDisk | Array | None = None
    labels: Array | None = None
    weights: Array | None = None
    ids: pa.Array | None = None
    """In ascending order, or in that of the alignment; None for rows that only their place
    identifies."""
    alignment: Alignment | None = None
    """What is known of the alignment, where there was one."""

    def only(self, rows: pa.Array) -> FileRows:
        """Some of the rows, in this order."""
        places = rows.to_numpy()
        return FileRows(
            self.name,
            len(places),
            features=_picked(self.features, places),
            labels=_picked(self.labels, places),
            weights=_picked(self.weights, places),
            ids=_picked(self.ids, rows),
            alignment=self.alignment,
        )


def _picked(values: Any, places: Any) -> Any:
    if values is None:
        return None
    if isinstance(values, OnDisk):
        return values.only(places)
    return values.take(places) if isinstance(values, pa.Table | pa.Array) else values[places]


def read_rows(
    name: str,
    party: Party,
    label: str | None,
    rule: Ids | None = None,
    *,
    test: bool = False,
    matched: bool = False,
    text: Sequence[str] = (),
) -> FileRows:
    """Read a party's own rows, or those held out; `label` is the active party's label column, and
    `rule` says what of an id counts where rows were aligned, or are to be `matched`. Columns named
    in `text` are text even where a CSV file shows numbers."""
    table = party.table_test if test else party.table
    if table is not None and not is_array(table):
        return _from_table(name, party, label, table, rule or Ids(), matched, text)
    if party.sample_weight is not None:
        raise DataError(
            f"{name} has sample_weight '{party.sample_weight}' but no table with columns: "
            "put the weights into a column of its table"
        )
    features = None if table is None else array_features(name, party, table)
    labels = _label_file(name, party, test=test)
    counted = features if features is not None else labels
    if counted is None:
        raise DataError(
            f"{name} has no data: set parties.{name}.table to its file, or name a data set in data"
        )
    if features is not None and labels is not None and len(features) != len(labels):
        raise unequal("rows", name, len(features), "its label file", len(labels))
    return FileRows(name, len(counted), features, labels)


def array_features(name: str, party: Party, path: str) -> Array:
    """The rows of a file that is an array, or the party's part of each image."""
    for field in ("columns", "categorical"):
        if getattr(party, field):
            raise DataError(
                f"{name} has {field} but its file {path} is an array without column names: "
                f"leave out {field}"
            )
    array = as_images(read_array(path))
    if party.view is None:
        return array
    return cut(array[:, None] if array.ndim == 3 else array, party.view)


def _label_file(name: str, party: Party, *, test: bool) -> Array | None:
    if party.role == "passive":
        return None
    path = party.label_test if test else party.label
    field = "label_test" if test else "label"
    if path is None:
        raise _no_label(name, field)
    if not is_array(path):
        raise DataError(
            f"the label '{path}' of {name} is a column, but {name} has no table with columns: "
            f"set parties.{name}.table to a table, or label to a .npy or idx file"
        )
    return read_array(path)


def _no_label(name: str, field: str) -> DataError:
    return DataError(
        f"the active party {name} has no {field}: set parties.{name}.{field} to a .npy or idx "
        "file, or label to a column of its table"
    )


def id_columns(name: str, party: Party, path: str) -> tuple[str, ...]:
    """The columns that name a party's rows.

    >>> id_columns("bank", Party(id=["country", "number"]), "bank.csv")
    ('country', 'number')
    """
    columns = (party.id,) if isinstance(party.id, str) else tuple(party.id or ())
    if not columns:
        raise DataError(
            f"{name} has the table {path} but no id: set parties.{name}.id to the column that "
            "names its rows"
        )
    return columns


def open_table(name: str, party: Party, path: str, text: Sequence[str] = ()) -> TableFile:
    """A party's table, with the columns that name its rows as text."""
    columns, file = id_columns(name, party, path), table_file(path, party, text)
    for column in columns:
        if column not in file.names:
            raise DataError(f"{path} has no id column '{column}': {nearest(column, file.names)}")
    return file


def _from_table(
    name: str,
    party: Party,
    label: str | None,
    path: str,
    rule: Ids,
    matched: bool,
    text: Sequence[str],
) -> FileRows:
    if party.view is not None:
        raise DataError(f"{name} has a view but {path} is a table: use columns instead of view")
    if party.aligned is not None and path == party.table_test:
        raise DataError(
            f"{name} has a file of test rows, and its rows were aligned: hold out a share of the "
            "rows instead (train.test)"
        )
    file = open_table(name, party, path, text)
    active = party.role == "active"
    if active and party.label is None:
        raise _no_label(name, "label")
    if active and label is None:
        raise DataError(
            f"{name} has its rows by id in {path} but its labels in file order in {party.label}: "
            "make the label a column of the table"
        )
    own = [column for column in (label, party.sample_weight) if active and column is not None]
    chosen = _chosen(name, party, label, file)
    large = bool(chosen) and is_large(file, chosen)
    table, ids, features = _read(name, party, rule, file, chosen, own, large=large, matched=matched)
    return FileRows(
        name=name,
        count=len(ids),
        features=features,
        labels=values(table[label], f"the label '{label}' of {name}") if active else None,
        weights=_weights(name, party, table),
        ids=ids,
        alignment=None if party.aligned is None else read_facts(Path(party.aligned)),
    )


def _read(
    name: str,
    party: Party,
    rule: Ids,
    file: TableFile,
    chosen: list[str],
    own: list[str],
    *,
    large: bool,
    matched: bool,
) -> tuple[pa.Table, pa.Array, pa.Table | OnDisk | None]:
    """Columns in the order in which all parties have the rows, the ids, and the features, which may
    stay on disk."""
    columns = id_columns(name, party, str(file.path))
    table = file.read([*columns, *own] if large else [*columns, *chosen, *own])
    ids, order = common_order(name, party, rule, table, str(file.path), matched)
    rest = table.drop_columns(list(columns))
    if not large:
        rest = rest.take(order)
        return rest, ids, rest.select(chosen) if chosen else None
    places = np.full(table.num_rows, ELSEWHERE, dtype=np.int32)
    places[order.to_numpy()] = np.arange(len(ids), dtype=np.int32)
    return rest.take(order) if own else rest, ids, OnDisk(file, chosen, places)


def common_order(
    name: str, party: Party, rule: Ids, table: pa.Table, where: str, matched: bool
) -> tuple[pa.Array, pa.Array]:
    """The ids of the rows in the order in which all parties have them, and which row each is."""
    columns = id_columns(name, party, where)
    if party.aligned is None:
        if len(columns) == 1 and not matched:
            return ordered(table[columns[0]], columns[0], where)
        texts = pa.chunked_array([id_texts(table, columns, rule, where)])
        return ordered(texts, " + ".join(columns), where)
    folder = Path(party.aligned)
    facts = read_facts(folder)
    if (facts.party, facts.rule, facts.id) != (name, rule.text(), columns):
        raise DataError(
            f"the alignment in {folder} is of another party, or other id columns, or another rule "
            "for ids: name the one of this job, or align again"
        )
    texts = id_texts(table, columns, rule, where)
    rows = pa.array(aligned_rows(folder, facts, texts, where))
    return texts.take(rows), rows


def table_file(path: str, party: Party, text: Sequence[str] = ()) -> TableFile:
    """A party's table, with what it says of how the file is written; its ids are text, and so are
    the columns named in `text`."""
    said = Said(party.encoding, party.separator, party.decimal)
    columns = [party.id] if isinstance(party.id, str) else party.id or []
    return TableFile(path, text=[*columns, *text], said=said)


def _weights(name: str, party: Party, table: pa.Table) -> Array | None:
    column = party.sample_weight
    return None if column is None else values(table[column], f"the weight '{column}' of {name}")


def _chosen(name: str, party: Party, label: str | None, file: TableFile) -> list[str]:
    names = id_columns(name, party, str(file.path))
    candidates = [column for column in file.names if column not in names]
    if party.role == "active":
        refuse_named_label(name, party, label)
        hidden = [label, party.sample_weight]
        rest = [column for column in candidates if column not in hidden]
        return select(party.columns, rest, str(file.path))
    chosen = select(party.columns or ["*"], candidates, str(file.path))
    if label in chosen:
        raise label_at_passive(name, label)
    return chosen


def refuse_named_label(name: str, party: Party, label: str | None) -> None:
    """Refuse a party that lists the label by its name as a feature."""
    if label is not None and label in party.columns:
        if party.role == "passive":
            raise label_at_passive(name, label)
        raise DataError(
            f"{name} lists its label '{label}' among its columns, and a model that reads the "
            "label learns nothing else: take it out of columns"
        )


def label_at_passive(name: str, label: str | None) -> DataError:
    """Return the error for a passive party that holds the label.

    >>> str(label_at_passive("telco", "churn")).split(":")[0]
    'label column at a passive party'
    """
    return DataError(
        f"label column at a passive party: {name} would read '{label}', which only the active "
        f"party may hold, so leave it out of parties.{name}.columns"
    )


def common_rows(parts: Mapping[str, FileRows]) -> dict[str, FileRows]:
    """The rows that all parties have, where all tables are in one place."""
    ids = {name: part.ids for name, part in parts.items()}
    if any(own is None for own in ids.values()):
        raise DataError(
            "the job wants its rows matched by id (alignment = 'private'), and not all parties "
            "have a table with ids: give each one, or leave out alignment"
        )
    first, *others = ids.values()
    common: Any = first
    for other in others:
        common = common.filter(pc.is_in(common, value_set=other))
    if not len(common):
        raise DataError(
            "no id is common to all parties: see that the id columns hold the same kind of ids, "
            "written the same way (the job's [ids] table says what counts)"
        )
    return {
        name: part.only(pc.index_in(common, value_set=part.ids)) for name, part in parts.items()
    }


_MATCH = (
    "set alignment = 'private' in the job, and a simulation takes the common rows, which colonnade "
    "align finds over the network"
)


def check_aligned(parts: Sequence[FileRows]) -> None:
    """Check that all parties hold the same rows in the same order."""
    by_ids = [part for part in parts if part.ids is not None]
    by_place = [part for part in parts if part.ids is None]
    if by_ids and by_place:
        raise DataError(
            f"{by_ids[0].name} has its rows by id and {by_place[0].name} has an array in file "
            "order, so they cannot be matched: give tables with ids to all parties, or arrays"
        )
    for part in parts[1:]:
        first = parts[0]
        if part.count != first.count and part.ids is not None:
            raise DataError(
                f"unequal row counts: {first.name} has {first.count} rows, {part.name} has "
                f"{part.count}: {_MATCH}"
            )
        if part.count != first.count:
            raise unequal("rows", first.name, first.count, part.name, part.count)
        if part.ids is not None and not part.ids.equals(first.ids):
            raise _different_ids(first, part)


def _different_ids(first: FileRows, second: FileRows) -> DataError:
    alone = pc.filter(first.ids, pc.invert(pc.is_in(first.ids, value_set=second.ids)))
    cure = _MATCH
    for slip, pattern, kept in _SLIPS:
        if _without(first, pattern, kept).equals(_without(second, pattern, kept)):
            cure = f"they are alike but for {slip}, so write them the same way in both tables"
    return DataError(
        f"different ids: {first.name} has the row '{alone[0].as_py()}' and {second.name} does not "
        f"({len(alone)} such rows): {cure}"
    )


_SLIPS = (
    ("zeros in front", r"^0+([0-9])", r"\1"),
    ("spaces at their ends", r"^\s+|\s+$", ""),
)
"""How ids of the same rows come to differ: in what, a pattern for it, and what is kept of it."""


def _without(rows: FileRows, pattern: str, kept: str) -> pa.Array:
    bare = pc.replace_substring_regex(rows.ids, pattern, kept)
    return bare.take(pc.sort_indices(bare))


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
    if not getattr(party, wanted) or party.view == NO_VIEW:
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
