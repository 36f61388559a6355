"""The data of one training: each party's columns and the active party's labels.

Every party holds the same rows in the same order. `vertical` builds the data from arrays in
memory; `colonnade.data.party` builds it from a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from colonnade.data.checks import check_arguments, check_features, check_weights, unequal
from colonnade.data.frames import in_one_order, label_values, numbers, same_columns
from colonnade.data.labels import Encoded, Task, encode
from colonnade.data.splits import Parts, Split, check_share, split_rows
from colonnade.errors import DataError, nearest

if TYPE_CHECKING:
    from colonnade.data.aligned import Alignment
    from colonnade.data.layout import Input
    from colonnade.data.preprocess import Preprocessor

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Columns:
    """One party's features; a party that holds only the labels has None for all parts.

    >>> Columns(np.zeros((8, 3)), np.zeros((2, 3))).shape
    (3,)
    """

    train: Array | None
    """[train rows, …]: a matrix of columns, or images [rows, channels, height, width]."""
    test: Array | None
    preprocessor: Preprocessor | None = None
    """How a table became numbers; None when the arrays came as they are."""
    validation: Array | None = None
    """None where no rows were set aside for validation."""
    types: Mapping[str, str] = field(default_factory=dict)
    """How the table stores each column that becomes something, as Arrow names types."""
    alignment: Alignment | None = None
    """What is known of the alignment that chose the rows; None where there was none."""

    def __post_init__(self) -> None:
        assert (self.train is None) == (self.test is None), "both parts or neither"

    def part(self, split: Split) -> Array:
        """The rows of a split, of a party that has features."""
        assert self.train is not None and self.test is not None
        kept = self.train[:0] if self.validation is None else self.validation
        return {"train": self.train, "validation": kept, "test": self.test}[split]

    @property
    def preprocessing(self) -> str | None:
        """How a table became numbers, as JSON; None when there was no table."""
        return None if self.preprocessor is None else self.preprocessor.to_json()

    @property
    def inputs(self) -> list[Input]:
        """What a model makes of each column; nothing in particular where there was no table."""
        return [] if self.preprocessor is None else self.preprocessor.inputs

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of one row; None for a party without features."""
        return None if self.train is None else self.train.shape[1:]


@dataclass(frozen=True, eq=False)
class Labels:
    """The active party's labels: int64 class codes, or float64 regression targets.

    >>> Labels(np.array([0, 1, 1]), np.array([0])).weights is None
    True
    """

    train: Array
    test: Array
    weights: Array | None = None
    """How much each training row counts; None when all count the same."""
    names: tuple[str, ...] = ()
    """The class behind each code, of two the positive one last; empty for regression."""
    validation: Array | None = None
    """None where no rows were set aside for validation."""
    rows: Parts | None = None
    """Where the rows of each split are among all of the table."""
    ids: Any = None
    """The ids of all rows of the table, where it has any."""
    truth: Array | None = None
    """The labels of the training rows before others were drawn in their place; for an audit, and
    for nothing that is trained."""

    def row_names(self, split: Split) -> list[str]:
        """What each row of a split is known by over many trainings: its id or, without ids, its
        place in the table."""
        count = len(self.part(split))
        places = np.arange(count) if self.rows is None else self.rows._asdict()[split]
        if self.ids is None:
            return [f"row {place}" for place in places.tolist()]
        return [f"id {text}" for text in self.ids.take(places).to_pylist()]

    def part(self, split: Split) -> Array:
        """The labels of a split."""
        kept = self.train[:0] if self.validation is None else self.validation
        return {"train": self.train, "validation": kept, "test": self.test}[split]


@dataclass(frozen=True, eq=False)
class VerticalData:
    """Everything a training reads; all parts have the same rows, or it is refused.

    >>> data = vertical({"bank": np.ones((10, 2)), "telco": np.ones((10, 3))}, [0, 1] * 5)
    >>> data.task, data.train_count, data.validation_count, data.test_count
    ('binary', 7, 1, 2)
    """

    features: dict[str, Columns]
    labels: Labels
    task: Task
    classes: int
    """The number of classes: 2 for a binary task, 1 for regression."""
    fingerprint: str = ""
    """Of the rows and their order, as every party would work it out; empty for arrays in memory."""
    order: str = ""
    """The same without the terms of the job."""

    def __post_init__(self) -> None:
        for split, kind in _KINDS.items():
            _equal_counts(kind, "labels", len(self.labels.part(split)), self._counts(split))
        weights = self.labels.weights
        if weights is not None:
            _equal_counts("training rows", "labels", self.train_count, {"weights": len(weights)})

    def _counts(self, split: Split) -> dict[str, int]:
        known = {name: own for name, own in self.features.items() if own.train is not None}
        return {name: len(own.part(split)) for name, own in known.items()}

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name} {'labels only' if own.shape is None else own.shape}"
            for name, own in self.features.items()
        )
        return (
            f"<VerticalData {self.task}: {self.train_count} training, {self.validation_count} "
            f"validation and {self.test_count} test rows; {shapes}>"
        )

    @property
    def train_count(self) -> int:
        """The number of training rows."""
        return len(self.labels.train)

    @property
    def validation_count(self) -> int:
        """The number of rows by which choices are made; 0 where test rows have to serve."""
        return len(self.labels.part("validation"))

    @property
    def test_count(self) -> int:
        """The number of test rows."""
        return len(self.labels.test)


_KINDS: dict[Split, str] = {
    "train": "training rows",
    "validation": "validation rows",
    "test": "test rows",
}


def _equal_counts(kind: str, labels: str, count: int, others: Mapping[str, int]) -> None:
    holders = list(others.items())
    # Two parties that differ say more than a party and the labels, so they are named first.
    for name, rows in holders[1:]:
        if rows != holders[0][1]:
            raise unequal(kind, holders[0][0], holders[0][1], name, rows)
    if holders and holders[0][1] != count:
        raise unequal(kind, holders[0][0], holders[0][1], labels, count)


def vertical(
    features: Mapping[str, Any],
    labels: Any,
    task: Task | None = None,
    test: float = 0.2,
    test_features: Mapping[str, Any] | None = None,
    test_labels: Any = None,
    split_seed: int = 0,
    weights: Any = None,
    positive: str | int | None = None,
    validation: float = 0.1,
) -> VerticalData:
    """Build the data of a training from arrays, tensors or frames, one per party, with equal rows.

    Rows of arrays and tensors are matched by place, those of pandas frames by their index.
    A share `test` of the rows is held out, unless `test_features` and `test_labels` bring rows
    of their own; a share `validation` of the others is set aside to choose by. Without a `task`,
    floating labels are regression targets, except two whole values such as 0.0 and 1.0, and other
    labels are classes. Of two classes `positive` is the one that counts as positive; by default
    the one that sorts last. A party whose features are None holds only the labels.

    >>> bank, telco = np.ones((100, 4)), np.ones((100, 2))
    >>> data = vertical({"bank": bank, "telco": telco}, labels=np.arange(100) % 3)
    >>> data.task, data.classes, data.features["bank"].train.shape
    ('multiclass', 3, (72, 4))
    """
    check_arguments(features, test_features, task, split_seed)
    check_share("test", test)
    check_share("validation", validation)
    if (test_features is None) != (test_labels is None):
        raise DataError("test_features and test_labels belong together: give both, or neither")
    features, labels, weights = _matched("rows", features, labels, weights)
    if test_features is not None:
        test_features, test_labels, _ = _matched("test rows", test_features, test_labels, None)
    joined = _joined(labels, test_labels)
    count = len(label_values(labels))
    held = test if test_features is None else np.arange(count, len(joined))
    parts = split_rows(len(joined), held, validation, split_seed)
    encoded = encode(joined, task or _guess(joined)).with_positive(positive)
    columns = {}
    for name, value in features.items():
        own_test = None if test_features is None else _of_party(test_features, name)
        columns[name] = _columns(name, value, own_test, count, parts)
    own = None if weights is None else check_weights(np.asarray(weights), count)[parts.train]
    return VerticalData(
        features=columns,
        labels=labels_of(encoded, parts, own),
        task=encoded.task,
        classes=encoded.outputs,
    )


def labels_of(encoded: Encoded, parts: Parts, weights: Array | None, ids: Any = None) -> Labels:
    """The labels of all rows, divided; the weights are those of the training rows, the ids of all.

    >>> rows = np.arange(4)
    >>> labels = encode(np.array([5, 6, 5, 6]))
    >>> labels_of(labels, Parts(rows[:2], rows[2:3], rows[3:]), None).validation.tolist()
    [0]
    """
    train, validation, test = (encoded.values[rows] for rows in parts)
    return Labels(train, test, weights, encoded.classes, validation, parts, ids)


def _matched(
    kind: str, features: Mapping[str, Any], labels: Any, weights: Any
) -> tuple[dict[str, Any], Any, Any]:
    """Frames are matched by their index; no party's name has a space, so no two are alike."""
    holders = in_one_order({**features, "the labels": labels, "the sample weights": weights}, kind)
    labels, weights = holders.pop("the labels"), holders.pop("the sample weights")
    return holders, labels, weights


def _joined(labels: Any, test_labels: Any) -> Array:
    """Both parts are encoded together, so that equal codes mean equal classes."""
    parts = [label_values(part) for part in (labels, test_labels) if part is not None]
    for part in parts:
        if part.ndim != 1:
            raise DataError(
                f"the labels have shape {part.shape}: give one label per row, a flat array"
            )
    if labels is None or not len(parts[0]):
        raise DataError("there are no labels: give one label per row")
    return np.concatenate(parts)


def _guess(labels: Array) -> Task | None:
    if labels.dtype.kind != "f":
        return None
    known = np.unique(labels)
    two_wholes = len(known) == 2 and bool((known == np.floor(known)).all())
    return "binary" if two_wholes else "regression"


def _of_party(test_features: Mapping[str, Any], name: str) -> Any:
    if name not in test_features:
        raise DataError(
            f"test_features has nothing for {name}: give every party's test rows under the "
            f"same name as its training rows ({nearest(name, test_features)})"
        )
    return test_features[name]


def _columns(name: str, value: Any, own_test: Any, count: int, parts: Parts) -> Columns:
    if value is None:
        return Columns(None, None)
    array = check_features(name, numbers(name, value))
    if len(array) != count:
        raise unequal("training rows", name, len(array), "labels", count)
    kept = array[parts.validation]
    if own_test is None:
        return Columns(array[parts.train], array[parts.test], validation=kept)
    test = check_features(name, numbers(name, same_columns(name, value, own_test)))
    if test.shape[1:] != array.shape[1:]:
        raise DataError(
            f"the test rows of {name} have shape {test.shape[1:]} and its training rows "
            f"{array.shape[1:]}: give both the same columns"
        )
    return Columns(array[parts.train], test, validation=kept)
