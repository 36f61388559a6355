"""From a job to the numbers that every party trains on.

A job names a data set, whose columns or image parts the parties share out among themselves; or
each party brings its own file. Either way rows are split into training and test rows first, and
what a table's encoding needs to know is learnt from the training rows alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.data.arrays import is_array
from colonnade.data.batches import Rows, check_batch_size, held_out
from colonnade.data.labels import Encoded, Task, encode
from colonnade.data.named import Dataset, load
from colonnade.data.own import Part, check_aligned, read_part, refuse_named_label
from colonnade.data.preprocess import Preprocessor
from colonnade.data.tables import select, values
from colonnade.data.vertical import (
    Columns,
    Labels,
    VerticalData,
    check_features,
    check_weights,
)
from colonnade.data.views import cut
from colonnade.errors import DataError, nearest
from colonnade.job.records import Job, Party

Array = npt.NDArray[Any]
Features = Any
"""A table, an array, or None for a party that holds only the labels."""
_REGRESSION_LOSSES = ("mse", "l1", "huber")


def assemble(job: Job) -> VerticalData:
    """Read everything a job trains on, and check that it fits together.

    >>> from colonnade.job.files import load as load_job
    >>> data = assemble(load_job("digits"))
    >>> data.train_count, data.test_count, data.features["lab"].train.shape
    (1438, 359, (1438, 1, 3, 8))
    """
    data = _from_files(job) if job.data is None else _from_named(job, load(job.data))
    if data.test_count == 0 and job.train.evaluation_period() is not None:
        raise DataError(
            f"train.test is {job.train.test:g}, which leaves no test rows to evaluate on: "
            "raise it, or set train.evaluate_every = 'never'"
        )
    check_batch_size(job.train.batch_size, data.train_count)
    return data


def _from_named(job: Job, dataset: Dataset) -> VerticalData:
    count = len(dataset.labels)
    if dataset.test_rows is None:
        train_rows, test_rows = held_out(count, job.train.test, job.train.split_seed)
    else:
        test_rows = dataset.test_rows
        train_rows = np.setdiff1d(np.arange(count), test_rows, assume_unique=True)
    columns = {}
    for name, party in job.parties.items():
        whole = _named_features(name, party, dataset)
        train, test = _take(whole, train_rows), _take(whole, test_rows)
        columns[name] = _columns(name, party, train, test)
    weights = _named_weights(job.parties[job.active], dataset)
    encoded = Encoded(dataset.labels, dataset.task, dataset.classes)
    return _finish(columns, encoded, weights, train_rows, test_rows)


def _named_features(name: str, party: Party, dataset: Dataset) -> Features:
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


def _named_weights(party: Party, dataset: Dataset) -> Array | None:
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


def _from_files(job: Job) -> VerticalData:
    active = job.parties[job.active]
    label = None if active.label is None or is_array(active.label) else active.label
    parts = {name: read_part(name, party, label) for name, party in job.parties.items()}
    count = check_aligned(list(parts.values()))
    task: Task | None = "regression" if _wants_regression(job) else None
    labels = _labels_of(parts[job.active])
    tests = _test_parts(job, label)
    if tests is None:
        train_rows, test_rows = held_out(count, job.train.test, job.train.split_seed)
    else:
        train_rows = np.arange(count)
        test_rows = np.arange(count, count + check_aligned(list(tests.values())))
        labels = np.concatenate([labels, _labels_of(tests[job.active])])
    columns = {}
    for name, party in job.parties.items():
        whole = parts[name].features
        train = _take(whole, train_rows)
        test = _take(whole, test_rows) if tests is None else tests[name].features
        columns[name] = _columns(name, party, train, test)
    return _finish(columns, encode(labels, task), parts[job.active].weights, train_rows, test_rows)


def _wants_regression(job: Job) -> bool:
    """Whole numbers look like classes; a loss for quantities says that they are not."""
    return job.train.loss in _REGRESSION_LOSSES


def _labels_of(part: Part) -> Array:
    assert part.labels is not None
    return part.labels


def _test_parts(job: Job, label: str | None) -> dict[str, Part] | None:
    """Read the files of test rows, which all parties have or none has."""
    has = {
        name: party.table_test is not None or party.label_test is not None
        for name, party in job.parties.items()
    }
    if not any(has.values()):
        return None
    for name, party in job.parties.items():
        needs_table = party.table is not None and party.table_test is None
        if needs_table or not has[name]:
            field = "table_test" if party.table is not None else "label_test"
            raise DataError(
                f"{next(n for n in has if has[n])} has a file of test rows but {name} has no "
                f"{field}: give test rows to every party, or to none"
            )
    return {name: read_part(name, party, label, test=True) for name, party in job.parties.items()}


def _take(features: Features, rows: Rows) -> Features:
    if features is None:
        return None
    return features.take(rows) if isinstance(features, pa.Table) else features[rows]


def _columns(name: str, party: Party, train: Features, test: Features) -> Columns:
    if train is None or test is None:
        return Columns(None, None)
    if not isinstance(train, pa.Table):
        return Columns(check_features(name, train), check_features(name, test))
    try:
        fitted = Preprocessor.fit(train, np.arange(train.num_rows), party.categorical)
        return Columns(fitted.transform(train), fitted.transform(test), fitted)
    except DataError as error:
        raise DataError(f"parties.{name}: {error}") from None


def _finish(
    columns: dict[str, Columns],
    encoded: Encoded,
    weights: Array | None,
    train_rows: Rows,
    test_rows: Rows,
) -> VerticalData:
    own = None if weights is None else check_weights(weights[train_rows], len(train_rows))
    return VerticalData(
        features=columns,
        labels=Labels(encoded.values[train_rows], encoded.values[test_rows], own),
        task=encoded.task,
        classes=encoded.outputs,
    )
