"""What features and weights must be, whichever way they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from colonnade.data.labels import Task
from colonnade.errors import DataError

Array = npt.NDArray[Any]


def unequal(kind: str, first: str, first_count: int, second: str, second_count: int) -> DataError:
    """Return the error for two holders of rows that do not have equally many.

    >>> str(unequal("training rows", "bank", 2, "telco", 1)).split(":")[0]
    'unequal row counts'
    """
    return DataError(
        f"unequal row counts: {first} has {first_count} {kind}, {second} has {second_count}: "
        "keep only the rows that every party has; arrays must be in one order, tables are "
        "matched by id"
    )


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
            "sample weights must be 0 or more, finite, and not all zero: correct that column"
        )
    return weights


def check_arguments(features: Any, test_features: Any, task: Any, split_seed: Any) -> None:
    """Refuse arguments of `vertical` that are of the wrong kind."""
    for name, value in (("features", features), ("test_features", test_features)):
        if value is None and name == "test_features":
            continue
        if not isinstance(value, Mapping) or not value:
            raise DataError(
                f"{name} is {type(value).__name__}{'' if value is None else ' without parties'}: "
                "give each party's under its name, as in {'bank': x, 'telco': y}"
            )
    if task is not None and task not in get_args(Task):
        raise DataError(f"task is {task!r}: choose one of {', '.join(get_args(Task))}")
    if isinstance(split_seed, bool) or not isinstance(split_seed, int) or split_seed < 0:
        raise DataError(f"split_seed is {split_seed!r}: give a whole number of 0 or more")
