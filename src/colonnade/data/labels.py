"""Labels: from the values of a column to class codes or regression targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError

Task = Literal["binary", "multiclass", "regression"]

_CLASSES_MAX = 10_000
"""More distinct values than this are measurements, or ids, but hardly classes."""
_CLASSES_FEW = 100
"""So many may be classes even where most have a single row."""


@dataclass(frozen=True)
class Encoded:
    """Labels as numbers, and what the numbers mean.

    >>> Encoded(np.array([0, 1]), "binary", ("no", "yes")).outputs
    2
    """

    values: npt.NDArray[Any]
    """int64 class codes, or float64 targets."""
    task: Task
    classes: tuple[str, ...]
    """The class behind each code, of two the positive one last; empty for regression."""

    def with_positive(self, positive: str | int | None) -> Encoded:
        """The same labels with the code 1 for the class that is to count as positive.

        >>> Encoded(np.array([0, 1, 1]), "binary", ("bad", "good")).with_positive("bad").classes
        ('good', 'bad')
        """
        if positive is None:
            return self
        if len(self.classes) != 2:
            what = f"{len(self.classes)} classes" if self.classes else "quantities"
            raise DataError(
                f"positive is {positive!r}, but the labels are {what}: it is for two classes only, "
                "so leave it out"
            )
        if str(positive) not in self.classes:
            raise DataError(
                f"positive is {positive!r}, but the labels are {' and '.join(self.classes)}: "
                "name one of them"
            )
        if str(positive) == self.classes[1]:
            return self
        return Encoded(1 - self.values, self.task, self.classes[::-1])

    def as_before(self, task: Task | None, classes: tuple[str, ...]) -> Encoded:
        """The same labels with the codes that an earlier run gave them; some of its classes may
        be without rows now.

        >>> labels = Encoded(np.array([0, 1, 0]), "binary", ("bad", "good"))
        >>> labels.as_before("multiclass", ("bad", "fair", "good")).values.tolist()
        [0, 2, 0]
        """
        if (task == "regression") != (self.task == "regression"):
            now, then = ("quantities", "classes")[:: 1 if self.task == "regression" else -1]
            raise DataError(
                f"the labels are {now}, and were {then} in the earlier run: name the label column "
                "that it had, or train anew"
            )
        if self.classes == classes:
            return self
        if new := [name for name in self.classes if name not in classes]:
            raise DataError(
                f"the label '{new[0]}' is no class of the earlier run ({', '.join(classes[:8])}"
                f"{', …' if len(classes) > 8 else ''}): leave out such rows, or train anew"
            )
        codes = np.array([classes.index(name) for name in self.classes], dtype=np.int64)
        return Encoded(codes[self.values], task or self.task, classes)

    @property
    def outputs(self) -> int:
        """The number of classes; 1 for regression."""
        return len(self.classes) or 1


def encode(values: npt.NDArray[Any], task: Task | None = None) -> Encoded:
    """Turn label values into codes, in sorted order, or into targets.

    Without a `task`, numbers with a fraction are targets; anything else is a class: two distinct
    values make the task binary, more make it multiclass.

    >>> encode(np.array(["yes", "no", "yes"])).values.tolist()
    [1, 0, 1]
    >>> encode(np.array([0.5, 1.0])).task
    'regression'
    """
    if values.ndim != 1:
        raise DataError(
            f"the labels have shape {values.shape}: give one label per row, a flat array"
        )
    if values.dtype.kind not in "biufUT":
        raise DataError(f"labels of type {values.dtype} are not supported: use numbers or text")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError("a label is missing or not a finite number: leave out the rows without one")
    if task is None and values.dtype.kind == "f" and not _whole(values):
        task = "regression"
    if task == "regression":
        return Encoded(_targets(values), "regression", ())
    return _codes(values, task)


def _whole(values: npt.NDArray[Any]) -> bool:
    return bool((values == np.floor(values)).all())


def _targets(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    if values.dtype.kind in "UT":
        raise DataError("text labels cannot be regression targets: use a column of numbers")
    return values.astype(np.float64)


def _refuse_blanks(values: npt.NDArray[Any]) -> None:
    """Refuse text labels that are empty, or alike but for spaces at their ends."""
    known = np.unique(values).tolist()
    bare = [word.strip() for word in known]
    if "" in bare:
        count = sum(not word.strip() for word in values.tolist())
        raise DataError(f"the label is empty in {count} rows: leave out the rows without one")
    for word, plain in zip(known, bare, strict=True):
        if word != plain and bare.count(plain) > 1:
            raise DataError(
                f"the labels '{word}' and '{plain}' differ in spaces only: write them the same way"
            )


def _codes(values: npt.NDArray[Any], task: Task | None) -> Encoded:
    if values.dtype.kind == "f":
        if not _whole(values):
            raise DataError(
                "labels with a fraction cannot be classes: use a regression loss, such as 'mse'"
            )
        values = values.astype(np.int64)
    if values.dtype.kind in "UT":
        _refuse_blanks(values)
    known, codes = np.unique(values, return_inverse=True)
    if len(known) < 2:
        raise DataError(
            f"all labels are {known[0] if len(known) else 'missing'}: "
            "there is nothing to learn, so check the label column"
        )
    if len(known) > _CLASSES_MAX:
        raise DataError(
            f"the labels have {len(known)} distinct values, too many for classes: "
            "use a regression loss, such as 'mse', or another label column"
        )
    if task is None and len(known) > _CLASSES_FEW and 2 * len(known) > len(values):
        raise DataError(
            f"the labels have {len(known)} distinct values in {len(values)} rows, too many for "
            "classes: use a regression loss (train.loss = 'mse', and task='regression' in "
            "cn.vertical), or another label column"
        )
    if task == "binary" and len(known) > 2:
        raise DataError(
            f"the task is binary but the labels have {len(known)} values: use 'multiclass'"
        )
    found: Task = task or ("binary" if len(known) == 2 else "multiclass")
    return Encoded(codes.astype(np.int64), found, tuple(str(value) for value in known))
