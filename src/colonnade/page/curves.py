"""What was measured against time, rounds and bytes, and bands over the seeds of a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from colonnade.page.reading import Floats

AXES = ("time_s", "round", "bytes")
"""What a metric is drawn against."""
POINTS_MAX = 2000
GRID = 120
"""Points of a band."""
NOT_METRICS = ("round", "epoch", "time_s", "bytes_up", "bytes_down", "bytes", "best")


def history_of(columns: Mapping[str, Floats]) -> dict[str, list[float | None]]:
    """An evaluation's figures by column, with the bytes of both directions added up; of a very long
    history, every so many-th and the last.

    >>> ends = {"bytes_up": np.array([1.0]), "bytes_down": np.array([2.0])}
    >>> history_of({"round": np.array([5.0]), **ends})["bytes"]
    [3.0]
    """
    count = min((len(column) for column in columns.values()), default=0)
    step = max(1, -(-count // POINTS_MAX))
    if not count:
        return {}
    chosen = np.unique(np.append(np.arange(0, count, step), count - 1))
    found = {name: column[chosen] for name, column in columns.items()}
    if {"bytes_up", "bytes_down"} <= found.keys():
        found["bytes"] = found["bytes_up"] + found["bytes_down"]
    return {name: plain(column) for name, column in found.items()}


def plain(column: Floats) -> list[float | None]:
    """Numbers as JSON has them, to seven digits."""
    return [float(f"{each:.7g}") if np.isfinite(each) else None for each in column.tolist()]


def thinned(columns: Mapping[str, Floats], points: int) -> dict[str, list[float | None]]:
    """The means of neighbours, so that no more points are left than that.

    >>> thinned({"round": np.array([1.0, 2.0, 3.0, 4.0])}, 2)
    {'round': [1.5, 3.5]}
    """
    count = min((len(column) for column in columns.values()), default=0)
    if count <= points:
        return {name: plain(column) for name, column in columns.items()}
    edges = np.linspace(0, count, points + 1).astype(np.int64)
    widths = np.diff(edges)
    return {
        name: plain(np.add.reduceat(column[:count], edges[:-1]) / widths)
        for name, column in columns.items()
    }


def bands(histories: Sequence[Mapping[str, Sequence[float | None]]]) -> dict[str, Any]:
    """For every metric and axis: mean, lowest and highest over the histories, where all have been.

    A seed's curve is taken to run straight from one evaluation to the next.

    >>> one = {"round": [1, 2], "auc": [0.5, 0.7]}
    >>> two = {"round": [1, 2], "auc": [0.7, 0.9]}
    >>> bands([one, two])["auc"]["round"]["mean"][-1]
    0.8
    """
    common = set(histories[0]).intersection(*histories[1:])
    found: dict[str, Any] = {}
    for metric in sorted(common.difference(NOT_METRICS)):
        for axis in AXES:
            if axis not in common:
                continue
            lines = [_line(each[axis], each[metric]) for each in histories]
            band = _band([line for line in lines if line is not None])
            if band is not None:
                found.setdefault(metric, {})[axis] = band
    return found


def _line(xs: Sequence[float | None], ys: Sequence[float | None]) -> tuple[Floats, Floats] | None:
    pairs = [(x, y) for x, y in zip(xs, ys, strict=False) if x is not None and y is not None]
    if not pairs:
        return None
    x, y = np.array(pairs, dtype=np.float64).T
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def _band(lines: Sequence[tuple[Floats, Floats]]) -> dict[str, list[float | None]] | None:
    if len(lines) < 2:
        return None
    low, high = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    if low > high:
        return None
    points = np.unique(np.concatenate([x for x, _ in lines]))
    points = points[(points >= low) & (points <= high)]
    if len(points) > GRID:
        points = np.linspace(low, high, GRID)
    values = np.stack([np.interp(points, x, y) for x, y in lines])
    return {
        "x": plain(points),
        "mean": plain(values.mean(axis=0)),
        "low": plain(values.min(axis=0)),
        "high": plain(values.max(axis=0)),
    }
