"""The metrics, by name. scikit-learn computes most of them.

Scores are what the top model returns: logits of classes, one of the positive class where there are
two and the loss is `bce`, or predicted quantities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DataError, JobError
from colonnade.job.metrics import METRICS as ASKED
from colonnade.job.metrics import fitting

Floats = NDArray[np.floating[Any]]
Labels = NDArray[Any]
Measure = Callable[[Floats, Labels], float]
CALIBRATION_BINS = 15

_MEASURES: dict[str, Measure] = {}


def _measure(function: Measure) -> Measure:
    """Compute the metric of this name by this function."""
    _MEASURES[function.__name__.removeprefix("_")] = function
    return function


def _classes(scores: Floats) -> NDArray[np.int64]:
    chosen = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    return chosen.astype(np.int64)


@_measure
def _accuracy(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(labels, _classes(scores)))


@_measure
def _top5(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import top_k_accuracy_score

    return float(top_k_accuracy_score(labels, scores, k=5, labels=range(scores.shape[1])))


def _shares(scores: Floats) -> Floats:
    """The probability of every class, for one score also of the class that it speaks against."""
    return np.asarray(np.exp(_log_shares(scores)))


def _log_shares(scores: Floats) -> Floats:
    if scores.shape[1] == 1:
        return np.hstack([-np.logaddexp(0, scores), -np.logaddexp(0, -scores)])
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))


def _margin(scores: Floats) -> Floats:
    """What orders the rows of two classes."""
    return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]


def _need_every_class(name: str, scores: Floats, labels: Labels) -> None:
    if len(np.unique(labels)) < max(2, scores.shape[1]):
        raise DataError(
            f"{name} needs every class among the held-out rows: hold out more, or choose accuracy"
        )


@_measure
def _auc(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import roc_auc_score

    _need_every_class("auc", scores, labels)
    if scores.shape[1] <= 2:
        return float(roc_auc_score(labels, _margin(scores)))
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = shares / shares.sum(axis=1, keepdims=True)
    return float(roc_auc_score(labels, shares, multi_class="ovr"))


@_measure
def _pr_auc(scores: Floats, labels: Labels) -> float:
    """Average precision; of more classes the mean, each against the others."""
    from sklearn.metrics import average_precision_score

    _need_every_class("pr_auc", scores, labels)
    if scores.shape[1] <= 2:
        return float(average_precision_score(labels, _margin(scores)))
    return float(average_precision_score(_one_hot(scores, labels), _shares(scores)))


def _one_hot(scores: Floats, labels: Labels) -> NDArray[np.bool_]:
    return np.asarray(labels[:, None] == np.arange(max(2, scores.shape[1])))


@_measure
def _log_loss(scores: Floats, labels: Labels) -> float:
    # From the scores themselves: a probability that is rounded to 0 has no logarithm.
    of_label = _log_shares(scores)[np.arange(len(labels)), labels.astype(np.int64)]
    return float(-of_label.mean())


@_measure
def _brier(scores: Floats, labels: Labels) -> float:
    """The mean squared error of the probabilities: of the positive class, or of all of more."""
    errors = (_shares(scores) - _one_hot(scores, labels)) ** 2
    return float(errors[:, 1].mean() if errors.shape[1] == 2 else errors.sum(axis=1).mean())


@_measure
def _ece(scores: Floats, labels: Labels) -> float:
    """Expected calibration error over 15 bins of equal width: how far probabilities are from
    frequencies. Of two classes for the positive one, of more for the predicted one."""
    shares = _shares(scores)
    if shares.shape[1] == 2:
        claimed, came = shares[:, 1], labels == 1
    else:
        claimed, came = shares.max(axis=1), labels == _classes(scores)
    bins = np.searchsorted(np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1], claimed)
    gaps = np.bincount(bins, weights=claimed - came, minlength=CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / len(labels))


@_measure
def _f1(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import f1_score

    average = "binary" if scores.shape[1] <= 2 else "macro"
    return float(f1_score(labels, _classes(scores), average=average, zero_division=0.0))


@_measure
def _mae(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(labels, scores[:, 0]))


@_measure
def _rmse(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import mean_squared_error

    return float(mean_squared_error(labels, scores[:, 0]) ** 0.5)


@_measure
def _r2(scores: Floats, labels: Labels) -> float:
    from sklearn.metrics import r2_score

    if len(np.unique(labels)) < 2:
        raise DataError(
            "r2 needs held-out targets that differ from each other: hold out more, or choose rmse"
        )
    return float(r2_score(labels, scores[:, 0]))


@dataclass(frozen=True)
class Metric:
    """A measure of predictions, and which way is better."""

    name: str
    measure: Measure
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


assert _MEASURES.keys() == ASKED.keys()
METRICS = {
    name: Metric(name, _MEASURES[name], asked.tasks, asked.higher_is_better)
    for name, asked in ASKED.items()
}
EVERY_CLASS = [name for name, asked in ASKED.items() if asked.needs == "every class"]
DIFFERING = [name for name, asked in ASKED.items() if asked.needs == "differing targets"]
DEFAULT = {"binary": "auc", "multiclass": "accuracy", "regression": "mae"}


def choose(name: str, task: str, classes: int) -> Metric:
    """The metric of a name for a task, or a sentence that says which fit.

    >>> choose("auto", "binary", 2).name
    'auc'
    """
    metric = METRICS[DEFAULT[task] if name == "auto" else name]
    known = [each for each in fitting(task) if each != "top5" or classes > 5]
    if metric.name not in known:
        count = f" with {classes} classes" if task == "multiclass" else ""
        cure = " (for quantities set train.loss = 'mse')" if metric.tasks == ("regression",) else ""
        raise JobError(
            f"the metric '{name}' does not fit a {task} task{count}: "
            f"choose one of {', '.join(known)}{cure}"
        )
    return metric
