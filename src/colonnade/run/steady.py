"""When a target was reached for good, and not merely touched."""

from __future__ import annotations

from collections.abc import Sequence

from colonnade.record.metrics import Metric

HELD_MIN = 2
"""Evaluations that a target must be held for; one alone is a touch, even the last of a run."""


def steady_from(
    values: Sequence[float | None], target: float, metric: Metric, count: int | None = None
) -> int | None:
    """The first evaluation from which on the metric is as good as the target for the rest of the
    run, or for `count` evaluations; None where it never is. What was not measured is a miss.

    >>> from colonnade.record.metrics import METRICS
    >>> values, accuracy = [0.5, 0.9, 0.8, 0.9, 0.95], METRICS["accuracy"]
    >>> steady_from(values, 0.9, accuracy), steady_from(values, 0.8, accuracy, count=2)
    (3, 1)
    >>> steady_from(values, 0.95, accuracy) is None  # the last one alone
    True
    """
    needed, start = count or HELD_MIN, 0
    for place, value in enumerate(values):
        if value is None or not metric.reaches(value, target):
            start = place + 1
        elif count is not None and place + 1 - start >= needed:
            return start
    held = count is None and len(values) - start >= needed
    return start if held else None
