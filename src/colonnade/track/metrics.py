"""The metrics, by name. scikit-learn computes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DataError, JobError, nearest

Floats = NDArray[np.floating[Any]]
Labels = NDArray[Any]


def _classes(scores: Floats) -> NDArray[np.int64]:
    chosen = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    return chosen.astype(np.int64)


def _accuracy(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(labels, _classes(scores)))


def _top5(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import top_k_accuracy_score

    return float(top_k_accuracy_score(labels, scores, k=5, labels=range(scores.shape[1])))


def _auc(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import roc_auc_score

    classes = max(2, scores.shape[1])
    if len(np.unique(labels)) < classes:
        raise DataError(
            "auc needs every class among the held-out rows: hold out more, or choose accuracy"
        )
    if scores.shape[1] == 1:
        return float(roc_auc_score(labels, scores[:, 0]))
    if scores.shape[1] == 2:
        return float(roc_auc_score(labels, scores[:, 1] - scores[:, 0]))
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = shares / shares.sum(axis=1, keepdims=True)
    return float(roc_auc_score(labels, shares, multi_class="ovr"))


def _f1(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import f1_score

    average = "binary" if scores.shape[1] <= 2 else "macro"
    return float(f1_score(labels, _classes(scores), average=average, zero_division=0.0))


def _mae(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(labels, scores[:, 0]))


@dataclass(frozen=True)
class Metric:
    """A measure of predictions, and which way is better."""

    name: str
    measure: Callable[[Floats, Labels], float]
    tasks: tuple[str, ...]
    higher_is_better: bool = True

    def better(self, value: float, than: float | None) -> bool:
        """Whether a value beats another; any value beats None."""
        if than is None:
            return True
        return value > than if self.higher_is_better else value < than

    def reaches(self, value: float, target: float) -> bool:
        """Whether a value is as good as the target."""
        return value >= target if self.higher_is_better else value <= target


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", _accuracy, ("binary", "multiclass")),
        Metric("top5", _top5, ("multiclass",)),
        Metric("auc", _auc, ("binary", "multiclass")),
        Metric("f1", _f1, ("binary", "multiclass")),
        Metric("mae", _mae, ("regression",), higher_is_better=False),
    )
}
DEFAULT = {"binary": "auc", "multiclass": "accuracy", "regression": "mae"}


def choose(name: str, task: str, classes: int) -> Metric:
    """The metric of a name for a task, or a sentence that says which fit.

    >>> choose("auto", "binary", 2).name
    'auc'
    """
    name = DEFAULT[task] if name == "auto" else name
    if name not in METRICS:
        raise JobError(f"there is no metric '{name}': {nearest(name, METRICS)}")
    metric = METRICS[name]
    fitting = [other.name for other in METRICS.values() if task in other.tasks]
    if task not in metric.tasks or (name == "top5" and classes <= 5):
        count = f" with {classes} classes" if task == "multiclass" else ""
        cure = " (for quantities set train.loss = 'mse')" if metric.tasks == ("regression",) else ""
        raise JobError(
            f"the metric '{name}' does not fit a {task} task{count}: "
            f"choose {' or '.join(fitting)}{cure}"
        )
    return metric
