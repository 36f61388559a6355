"""The data of one training: each party's columns and the active party's labels.

Every party holds the same rows in the same order. `vertical` builds the data from arrays in
memory; `colonnade.data.assemble` builds it from a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from colonnade.data.batches import Rows, held_out
from colonnade.data.frames import in_one_order, label_values, numbers, same_columns
from colonnade.data.labels import Task, encode
from colonnade.errors import DataError, nearest

if TYPE_CHECKING:
    from colonnade.data.preprocess import Preprocessor

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Columns:
    """One party's features; a party that holds only the labels has None for both parts.

    >>> Columns(np.zeros((8, 3)), np.zeros((2, 3))).shape
    (3,)
    """

    train: Array | None
    """[train rows, …]: a matrix of columns, or images [rows, channels, height, width]."""
    test: Array | None
    preprocessor: Preprocessor | None = None
    """How a table became numbers; None when the arrays came as they are."""

    def __post_init__(self) -> None:
        assert (self.train is None) == (self.test is None), "both parts or neither"

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


@dataclass(frozen=True, eq=False)
class VerticalData:
    """Everything a training reads; all parts have the same rows, or it is refused.

    >>> data = vertical({"bank": np.ones((10, 2)), "telco": np.ones((10, 3))}, [0, 1] * 5)
    >>> data.task, data.train_count, data.test_count
    ('binary', 8, 2)
    """

    features: dict[str, Columns]
    labels: Labels
    task: Task
    classes: int
    """The number of classes: 2 for a binary task, 1 for regression."""
    fingerprint: str = ""
    """Of the rows and their order, as every party would work it out; empty for arrays in memory."""

    def __post_init__(self) -> None:
        _equal_counts("training rows", "labels", len(self.labels.train), self._counts("train"))
        _equal_counts("test rows", "labels", len(self.labels.test), self._counts("test"))
        weights = self.labels.weights
        if weights is not None:
            _equal_counts("training rows", "labels", self.train_count, {"weights": len(weights)})

    def _counts(self, part: str) -> dict[str, int]:
        arrays = {name: getattr(columns, part) for name, columns in self.features.items()}
        return {name: len(array) for name, array in arrays.items() if array is not None}

    @property
    def train_count(self) -> int:
        """The number of training rows."""
        return len(self.labels.train)

    @property
    def test_count(self) -> int:
        """The number of rows held out."""
        return len(self.labels.test)


def unequal(kind: str, first: str, first_count: int, second: str, second_count: int) -> DataError:
    """Return the error for two holders of rows that do not have equally many.

    >>> str(unequal("training rows", "bank", 2, "telco", 1)).split(":")[0]
    'unequal row counts'
    """
    return DataError(
        f"unequal row counts: {first} has {first_count} {kind}, {second} has {second_count}: "
        "keep only the rows that every party has, in the same order"
    )


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
) -> VerticalData:
    """Build the data of a training from arrays, tensors or frames, one per party, with equal rows.

    Rows of arrays and tensors are matched by place, those of pandas frames by their index.
    A share `test` of the rows is held out, unless `test_features` and `test_labels` bring rows
    of their own. Without a `task`, floating labels are regression targets, except two whole
    values such as 0.0 and 1.0, and other labels are classes. Of two classes `positive` is the one
    that counts as positive; by default the one that sorts last. A party whose features are None
    holds only the labels.

    >>> bank, telco = np.ones((100, 4)), np.ones((100, 2))
    >>> data = vertical({"bank": bank, "telco": telco}, labels=np.arange(100) % 3)
    >>> data.task, data.classes, data.features["bank"].train.shape
    ('multiclass', 3, (80, 4))
    """
    if not 0 <= test < 1:
        raise DataError(f"test is {test}: give a share of the rows, from 0 to below 1")
    if (test_features is None) != (test_labels is None):
        raise DataError("test_features and test_labels belong together: give both, or neither")
    features, labels, weights = _matched("rows", features, labels, weights)
    if test_features is not None:
        test_features, test_labels, _ = _matched("test rows", test_features, test_labels, None)
    joined = _joined(labels, test_labels)
    count = len(label_values(labels))
    if test_features is None:
        train_rows, test_rows = held_out(count, test, split_seed)
    else:
        train_rows, test_rows = np.arange(count), np.arange(count, len(joined))
    encoded = encode(joined, task or _guess(joined)).with_positive(positive)
    columns = {}
    for name, value in features.items():
        own_test = None if test_features is None else _of_party(test_features, name)
        columns[name] = _columns(name, value, own_test, count, train_rows, test_rows)
    own = None if weights is None else check_weights(np.asarray(weights), count)[train_rows]
    return VerticalData(
        features=columns,
        labels=Labels(
            encoded.values[train_rows], encoded.values[test_rows], own, names=encoded.classes
        ),
        task=encoded.task,
        classes=encoded.outputs,
    )


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


def _columns(
    name: str, value: Any, own_test: Any, count: int, train_rows: Rows, test_rows: Rows
) -> Columns:
    if value is None:
        return Columns(None, None)
    array = check_features(name, numbers(name, value))
    if len(array) != count:
        raise unequal("training rows", name, len(array), "labels", count)
    if own_test is None:
        return Columns(array[train_rows], array[test_rows])
    test = check_features(name, numbers(name, same_columns(name, value, own_test)))
    if test.shape[1:] != array.shape[1:]:
        raise DataError(
            f"the test rows of {name} have shape {test.shape[1:]} and its training rows "
            f"{array.shape[1:]}: give both the same columns"
        )
    return Columns(array, test)


def check_features(name: str, array: Array) -> Array:
    """Return a party's features as floating numbers, or refuse what cannot be that.

    >>> check_features("bank", np.array([[1, 2]])).dtype
    dtype('float64')
    """
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"the features of {name} have type {array.dtype}: give numbers, or let a job read "
            "the table, which encodes text"
        )
    if array.ndim < 2 or 0 in array.shape[1:]:
        raise DataError(
            f"the features of {name} have shape {array.shape}: give one row per sample and at "
            "least one column"
        )
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise DataError(
            f"the features of {name} have missing or infinite values: "
            "fill them in or leave out those rows"
        )
    return array


def check_weights(weights: Array, count: int) -> npt.NDArray[np.float64]:
    """Return sample weights as floating numbers, or refuse what cannot be weights.

    >>> check_weights(np.array([1, 2]), 2).tolist()
    [1.0, 2.0]
    """
    if weights.ndim != 1 or weights.dtype.kind not in "biuf":
        raise DataError("sample weights must be one number per row: use a column of numbers")
    if len(weights) != count:
        raise unequal("training rows", "weights", len(weights), "labels", count)
    weights = weights.astype(np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise DataError(
            "sample weights must be 0 or more, finite, and not all 0: correct that column"
        )
    return weights
