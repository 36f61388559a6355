"""From a job to the numbers that one party trains on, read from nothing but its own; or to those
of all parties in one place, each read as that party alone would, and checked against each other.

A party takes its columns, or its part of each image, of a data set that the job names; or it
brings a file of its own. Either way rows are split into training, validation and test rows first,
and what a table's encoding needs to know is learnt from the training rows alone.

Rows of tables are in the order of their ids, so parties with equal ids agree on every row without
a word. Which rows are held out follows from their number and from `train.split_seed`, and which
are for validation from their ids and that seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.data.aligned import TableFingerprint
from colonnade.data.batches import Rows, check_batch_size
from colonnade.data.checks import check_features, check_weights
from colonnade.data.fingerprint import fingerprint
from colonnade.data.labels import Encoded, Task, encode
from colonnade.data.named import Dataset, load
from colonnade.data.on_disk import OnDisk, Part
from colonnade.data.own import (
    FileRows,
    check_aligned,
    common_rows,
    named_features,
    named_weights,
    read_rows,
)
from colonnade.data.preprocess import Preprocessor
from colonnade.data.splits import SPLITS, Parts, Split, split_rows
from colonnade.data.types import arrow_types, check_types, text_columns
from colonnade.data.vertical import Columns, Labels, VerticalData, labels_of
from colonnade.errors import DataError
from colonnade.job.records import Job, Party, Train, is_array

Array = npt.NDArray[Any]
Features = Any
"""A table, an array, or None for a party that holds only the labels."""
_REGRESSION_LOSSES = ("mse", "l1", "huber")


@dataclass(frozen=True, eq=False)
class PartyData:
    """All that one party reads for a training.

    >>> from colonnade.job.files import load as load_job
    >>> part = assemble_party(load_job("digits"), "lab")
    >>> part.columns.train.shape, part.validation_count, part.test_count, part.labels
    ((1294, 1, 3, 8), 144, 359, None)
    """

    columns: Columns
    labels: Labels | None
    """Of the active party; None at a passive one."""
    train_count: int
    validation_count: int
    test_count: int
    task: Task | None
    """What kind of labels there are; only the active party knows."""
    classes: int | None
    """The number of classes, 1 for regression; only the active party knows."""
    fingerprint: str
    """Of the rows and their order: parties that hold the same rows have the same."""
    order: str = ""
    """The same without the terms of the job; empty for arrays in memory."""

    @property
    def rows(self) -> dict[Split, int]:
        """How many rows each split has."""
        counts = self.train_count, self.validation_count, self.test_count
        return dict(zip(SPLITS, counts, strict=True))

    @classmethod
    def of(cls, data: VerticalData, me: str, active: str) -> PartyData:
        """What one party holds of data that is all in one place."""
        counts = data.train_count, data.validation_count, data.test_count
        columns, marks = data.features[me], (data.fingerprint, data.order)
        if me != active:
            return cls(columns, None, *counts, None, None, *marks)
        return cls(columns, data.labels, *counts, data.task, data.classes, *marks)


@dataclass(frozen=True, eq=False)
class Learnt:
    """What an earlier run has learnt of a party's table and labels, by which new rows are read.

    >>> Learnt(classes=("no", "yes")).preprocessor is None
    True
    """

    preprocessor: Preprocessor | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    """How each column was stored."""
    task: Task | None = None
    """At the active party: what kind of labels there were."""
    classes: tuple[str, ...] = ()


class Files(NamedTuple):
    """A party's own rows, and those from a file of test rows where it has one."""

    train: FileRows
    test: FileRows | None


def assemble_party(job: Job, me: str, learnt: Learnt | None = None) -> PartyData:
    """Read what one party trains on, and check what it alone can check; as an earlier run has
    `learnt` to read it, where there was one.

    >>> from colonnade.job.files import load as load_job
    >>> assemble_party(load_job("breast-cancer"), "hospital").task
    'binary'
    """
    if job.data is None:
        part = from_files(job, me, read_files(job, me, learnt), learnt)
    else:
        part = from_named(job, me, load(job.data), learnt=learnt)
    assert part.columns.train is not None or job.parties[me].role == "active"
    check_counts(job, part.train_count, part.validation_count + part.test_count)
    return part


def check_counts(job: Job, train_count: int, held_count: int) -> None:
    """Refuse rows that are too few for the job's batches or its evaluations."""
    if held_count == 0 and job.train.evaluation_period() is not None:
        raise DataError(
            f"train.test is {job.train.test:g} and train.validation {job.train.validation:g}, "
            "which leaves no rows to evaluate on: raise one, or set train.evaluate_every = 'never'"
        )
    check_batch_size(job.train.batch_size, train_count)


def from_named(
    job: Job,
    me: str,
    dataset: Dataset,
    given: Parts | None = None,
    learnt: Learnt | None = None,
) -> PartyData:
    """A party's part of a named data set, split as the job says unless the parts are given."""
    party, train = job.parties[me], job.train
    held = train.test if dataset.test_rows is None else dataset.test_rows
    parts = given or split_rows(len(dataset.labels), held, train.validation, train.split_seed)
    whole = named_features(me, party, dataset)
    columns = _columns(me, party, [_take(whole, rows) for rows in parts], learnt)
    weights = named_weights(party, dataset)
    encoded = Encoded(dataset.labels, dataset.task, dataset.classes)
    mark = fingerprint(job, {"named": dataset.name, **parts.counts}, [parts.test])
    order = named_order(dataset)
    return replace(_part(party, columns, encoded, weights, parts, mark, learnt), order=order)


def read_files(job: Job, me: str, learnt: Learnt | None = None) -> Files:
    """Read a party's own files."""
    text = text_columns({} if learnt is None else learnt.types)
    party, label = job.parties[me], job.parties[job.active].label
    column = None if label is None or is_array(label) else label
    matched = job.alignment == "private"
    train = read_rows(me, party, column, job.ids, matched=matched, text=text)
    if party.table_test is None and party.label_test is None:
        return Files(train, None)
    if party.table is not None and party.table_test is None:
        raise DataError(
            f"{me} has a label_test but no table_test: give both, or hold out a share of the rows"
        )
    return Files(train, read_rows(me, party, column, job.ids, test=True, text=text))


def from_files(job: Job, me: str, files: Files, learnt: Learnt | None = None) -> PartyData:
    """A party's part from its own files."""
    party, train, (own, test) = job.parties[me], job.train, files
    labels, parts = own.labels, split_files(train, files)
    tables = [_take(own.features, parts.train), _take(own.features, parts.validation)]
    if test is None:
        tables.append(_take(own.features, parts.test))
    else:
        tables.append(_take(test.features, np.arange(test.count)))
        if labels is not None:
            assert test.labels is not None
            labels = np.concatenate([labels, test.labels])
    columns = replace(_columns(me, party, tables, learnt), alignment=own.alignment)
    # Whole numbers look like classes; a loss for quantities says that they are not.
    task: Task | None = "regression" if train.loss in _REGRESSION_LOSSES else None
    encoded = None if labels is None else encode(labels, task)
    ids = [rows.ids for rows in files if rows is not None and rows.ids is not None]
    about: dict[str, Any] = {"ids": len(ids) > 0, **parts.counts}
    if own.alignment is not None:
        # A name that only the parties of the alignment know: rows of another one never match, and
        # nobody else can try lists of ids.
        about |= {"alignment": own.alignment.common}
    mark = fingerprint(job, about, ids)
    order = files_order(files)
    part = _part(party, columns, encoded, own.weights, parts, mark, learnt, own.ids)
    return replace(part, order=order)


def split_files(train: Train, files: Files) -> Parts:
    """Which of a party's rows are for training, validation and test; those of a file of test rows
    come last."""
    own, test = files
    count = own.count if test is None else own.count + test.count
    held = train.test if test is None else np.arange(own.count, count)
    return split_rows(count, held, train.validation, train.split_seed, own.ids)


def files_order(files: Files) -> str:
    """What the order of a party's rows is known by: the name of the alignment, or the ids, or how
    many rows there are where nothing else names them."""
    if files.train.alignment is not None:
        return f"aligned {files.train.alignment.common}"
    if files.train.ids is None:
        return f"rows {sum(rows.count for rows in files if rows is not None)}"
    mixed = TableFingerprint()
    for rows in files:
        if rows is not None and rows.ids is not None:
            mixed.update(rows.ids)
    return f"ids {mixed.text()}"


def named_order(dataset: Dataset) -> str:
    """What the order of the rows of a named data set is known by.

    >>> named_order(load("breast-cancer"))
    'data set breast-cancer, 569 rows'
    """
    return f"data set {dataset.name}, {len(dataset.labels)} rows"


def _take(features: Features, rows: Rows) -> Features:
    if features is None:
        return None
    return features.take(rows) if isinstance(features, pa.Table | OnDisk) else features[rows]


def _columns(
    name: str, party: Party, parts: Sequence[Features], learnt: Learnt | None = None
) -> Columns:
    train, validation, test = parts
    if train is None or test is None:
        return Columns(None, None)
    if not isinstance(train, pa.Table | Part):
        arrays = [check_features(name, part) for part in parts]
        return Columns(arrays[0], arrays[2], validation=arrays[1])
    try:
        known = train.sample() if isinstance(train, Part) else train
        fitted = _fitted(name, party, known, learnt)
        arrays = [
            part.encoded(fitted) if isinstance(part, Part) else fitted.transform(part)
            for part in (train, validation, test)
        ]
        types = arrow_types(known.schema, fitted)
        return Columns(arrays[0], arrays[2], fitted, validation=arrays[1], types=types)
    except DataError as error:
        raise DataError(f"parties.{name}: {error}") from None


def _fitted(name: str, party: Party, known: pa.Table, learnt: Learnt | None) -> Preprocessor:
    """What there is to know of the columns: learnt now, or before from other rows."""
    if learnt is None or learnt.preprocessor is None:
        return Preprocessor.fit(
            known,
            np.arange(known.num_rows),
            party.categorical,
            party.treat,
            auto=party.preprocessing == "auto",
            coded=takes_codes(party),
        )
    before = {each.name for each in learnt.preprocessor.columns}
    for column in known.column_names:
        if column not in before:
            raise DataError(
                f"the earlier run had no column '{column}': leave it out with "
                f"columns = ['*', '!{column}'], or train anew"
            )
    check_types(known.schema, learnt.types, f"the table of {name}")
    return learnt.preprocessor


TAKE_CODES = ("wide_deep_categorical", "dssm")
"""Models whose columns are codes, which have no scale."""


def takes_codes(party: Party) -> bool:
    """Whether a party's model reads codes and nothing else.

    >>> takes_codes(Party(model={"name": "dssm"}))
    True
    """
    return party.model.get("name") in TAKE_CODES


def _part(
    party: Party,
    columns: Columns,
    encoded: Encoded | None,
    weights: Array | None,
    parts: Parts,
    mark: str,
    learnt: Learnt | None = None,
    ids: Any = None,
) -> PartyData:
    counts = len(parts.train), len(parts.validation), len(parts.test)
    if party.role == "passive":
        return PartyData(columns, None, *counts, None, None, mark)
    assert encoded is not None
    encoded = encoded.with_positive(party.positive)
    if learnt is not None:
        if party.positive is not None and str(party.positive) not in learnt.classes[1:2]:
            raise DataError(
                f"positive is {party.positive!r}, and was {''.join(learnt.classes[1:2])!r} in the "
                "earlier run: leave it out, or train anew"
            )
        encoded = encoded.as_before(learnt.task, learnt.classes)
    own = None if weights is None else check_weights(weights[parts.train], counts[0])
    labels = labels_of(encoded, parts, own, ids)
    return PartyData(columns, labels, *counts, encoded.task, encoded.outputs, mark)


def assemble(job: Job, learnt: Mapping[str, Learnt] | None = None) -> VerticalData:
    """Read everything a job trains on, and check that it fits together; `learnt` is what each party
    has of an earlier run.

    >>> from colonnade.job.files import load as load_job
    >>> data = assemble(load_job("digits"))
    >>> data.train_count, data.validation_count, data.test_count
    (1294, 144, 359)
    """
    before = learnt or {}
    parts = _from_files(job, before) if job.data is None else _from_named(job, job.data, before)
    return together(job, parts)


def together(job: Job, parts: Mapping[str, PartyData]) -> VerticalData:
    """The parts of some parties, the active one among them, in one place.

    >>> from colonnade.job.files import load as load_job
    >>> job = load_job("digits")
    >>> together(job, {"clinic": assemble_party(job, "clinic")}).train_count
    1294
    """
    active = parts[job.active]
    assert active.labels is not None and active.task is not None and active.classes is not None
    check_counts(job, active.train_count, active.validation_count + active.test_count)
    return VerticalData(
        features={name: part.columns for name, part in parts.items()},
        labels=active.labels,
        task=active.task,
        classes=active.classes,
        fingerprint=active.fingerprint,
        order=active.order,
    )


def _from_named(job: Job, name: str, learnt: Mapping[str, Learnt]) -> dict[str, PartyData]:
    dataset = load(name)
    return {
        party: from_named(job, party, dataset, learnt=learnt.get(party)) for party in job.parties
    }


def _from_files(job: Job, learnt: Mapping[str, Learnt]) -> dict[str, PartyData]:
    _check_test_files(job)
    files = {name: read_files(job, name, learnt.get(name)) for name in job.parties}
    if job.alignment == "private" and not all(party.aligned for party in job.parties.values()):
        if any(own.test is not None for own in files.values()):
            raise DataError(
                "the job wants its rows matched by id (alignment = 'private') and has files of "
                "test rows: hold out a share of the rows instead (train.test)"
            )
        common = common_rows({name: own.train for name, own in files.items()})
        files = {name: Files(rows, None) for name, rows in common.items()}
    check_aligned([own.train for own in files.values()])
    check_aligned([own.test for own in files.values() if own.test is not None])
    return {name: from_files(job, name, own, learnt.get(name)) for name, own in files.items()}


def _check_test_files(job: Job) -> None:
    """All parties have a file of test rows, or none has."""
    has = {
        name: party.table_test is not None or party.label_test is not None
        for name, party in job.parties.items()
    }
    for name, party in job.parties.items() if any(has.values()) else ():
        needs_table = party.table is not None and party.table_test is None
        if needs_table or not has[name]:
            field = "table_test" if party.table is not None else "label_test"
            raise DataError(
                f"{next(n for n in has if has[n])} has a file of test rows but {name} has no "
                f"{field}: give test rows to every party, or to none"
            )
