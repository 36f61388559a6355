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
CALIBRATION_BINS = 15


def _sklearn() -> Any:
    """Imported when something is measured: it loads slowly."""
    from sklearn import metrics

    return metrics


def _classes(scores: Floats) -> NDArray[np.int64]:
    chosen = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    return chosen.astype(np.int64)


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


def _auc(scores: Floats, labels: Labels) -> Any:
    _need_every_class("auc", scores, labels)
    if scores.shape[1] <= 2:
        return _sklearn().roc_auc_score(labels, _margin(scores))
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares = shares / shares.sum(axis=1, keepdims=True)
    return _sklearn().roc_auc_score(labels, shares, multi_class="ovr")


def _pr_auc(scores: Floats, labels: Labels) -> Any:
    """Average precision; of more classes the mean, each against the others."""
    _need_every_class("pr_auc", scores, labels)
    if scores.shape[1] <= 2:
        return _sklearn().average_precision_score(labels, _margin(scores))
    return _sklearn().average_precision_score(_one_hot(scores, labels), _shares(scores))


def _one_hot(scores: Floats, labels: Labels) -> NDArray[np.bool_]:
    return np.asarray(labels[:, None] == np.arange(max(2, scores.shape[1])))


def _log_loss(scores: Floats, labels: Labels) -> Any:
    # From the scores themselves: a probability that is rounded to 0 has no logarithm.
    of_label = _log_shares(scores)[np.arange(len(labels)), labels.astype(np.int64)]
    return -of_label.mean()


def _brier(scores: Floats, labels: Labels) -> Any:
    """The mean squared error of the probabilities: of the positive class, or of all of more."""
    errors = (_shares(scores) - _one_hot(scores, labels)) ** 2
    return errors[:, 1].mean() if errors.shape[1] == 2 else errors.sum(axis=1).mean()


def _ece(scores: Floats, labels: Labels) -> Any:
    """Expected calibration error over 15 bins of equal width: how far probabilities are from
    frequencies. Of two classes for the positive one, of more for the predicted one."""
    shares = _shares(scores)
    if shares.shape[1] == 2:
        claimed, came = shares[:, 1], labels == 1
    else:
        claimed, came = shares.max(axis=1), labels == _classes(scores)
    bins = np.searchsorted(np.linspace(0, 1, CALIBRATION_BINS + 1)[1:-1], claimed)
    gaps = np.bincount(bins, weights=claimed - came, minlength=CALIBRATION_BINS)
    return np.abs(gaps).sum() / len(labels)


def _r2(scores: Floats, labels: Labels) -> Any:
    if len(np.unique(labels)) < 2:
        raise DataError(
            "r2 needs held-out targets that differ from each other: hold out more, or choose rmse"
        )
    return _sklearn().r2_score(labels, scores[:, 0])


_MEASURES: dict[str, Callable[[Floats, Labels], Any]] = {
    "accuracy": lambda scores, y: _sklearn().accuracy_score(y, _classes(scores)),
    "top5": lambda scores, y: _sklearn().top_k_accuracy_score(
        y, scores, k=5, labels=range(scores.shape[1])
    ),
    "auc": _auc,
    "pr_auc": _pr_auc,
    "f1": lambda scores, y: _sklearn().f1_score(
        y,
        _classes(scores),
        average="binary" if scores.shape[1] <= 2 else "macro",
        zero_division=0.0,
    ),
    "log_loss": _log_loss,
    "brier": _brier,
    "ece": _ece,
    "mae": lambda scores, y: _sklearn().mean_absolute_error(y, scores[:, 0]),
    "rmse": lambda scores, y: _sklearn().mean_squared_error(y, scores[:, 0]) ** 0.5,
    "r2": _r2,
}


@dataclass(frozen=True)
class Metric:
    """A measure of predictions, and which way is better."""

    name: str
    tasks: tuple[str, ...]
    higher_is_better: bool = True

    def measure(self, scores: Floats, labels: Labels) -> float:
        """Its value for the scores of some rows, given their labels."""
        return float(_MEASURES[self.name](scores, labels))

    def better(self, value: float, than: float | None) -> bool:
        """Whether a value beats another; any value beats None."""
        if than is None:
            return True
        return value > than if self.higher_is_better else value < than

    def reaches(self, value: float, target: float) -> bool:
        """Whether a value is as good as the target."""
        return value >= target if self.higher_is_better else value <= target


assert _MEASURES.keys() == ASKED.keys()
METRICS = {name: Metric(name, asked.tasks, asked.higher_is_better) for name, asked in ASKED.items()}
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
