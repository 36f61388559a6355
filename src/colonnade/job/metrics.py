"""The metrics that a job may ask for; `colonnade.record.metrics` computes them.

Apart from the computation, because whoever reads a job need not wait for numpy.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Need = Literal["every class", "differing targets"]


class Asked(NamedTuple):
    """What a metric is for."""

    tasks: tuple[str, ...]
    higher_is_better: bool = True
    needs: Need | None = None
    """What the rows must have, beside being there."""


_CLASSES = ("binary", "multiclass")
_QUANTITIES = ("regression",)
METRICS: dict[str, Asked] = {
    "accuracy": Asked(_CLASSES),
    "top5": Asked(("multiclass",)),
    "auc": Asked(_CLASSES, needs="every class"),
    "pr_auc": Asked(_CLASSES, needs="every class"),
    "f1": Asked(_CLASSES),
    "log_loss": Asked(_CLASSES, higher_is_better=False),
    "brier": Asked(_CLASSES, higher_is_better=False),
    "ece": Asked(_CLASSES, higher_is_better=False),
    "mae": Asked(_QUANTITIES, higher_is_better=False),
    "rmse": Asked(_QUANTITIES, higher_is_better=False),
    "r2": Asked(_QUANTITIES, needs="differing targets"),
}


def fitting(task: str) -> list[str]:
    """The metrics of a task.

    >>> fitting("regression")
    ['mae', 'rmse', 'r2']
    """
    return [name for name, metric in METRICS.items() if task in metric.tasks]
