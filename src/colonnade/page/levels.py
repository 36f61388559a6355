"""How far runs have come, and what it took them: the level to which they are compared, and a line
for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.record.metrics import METRICS
from colonnade.record.table import spread

Row = dict[str, Any]
TARGET = "the target"
"""What the level is where all runs have one target and any of them reached it."""


def higher_is_better(metric: str | None) -> bool:
    """Which way a metric gets better.

    >>> higher_is_better("auc"), higher_is_better("mae"), higher_is_better("validation_loss")
    (True, False, False)
    """
    known = METRICS.get(metric or "")
    return known.higher_is_better if known is not None else "loss" not in (metric or "")


def reached(run: Mapping[str, Any], metric: str, level: float) -> Row | None:
    """The first evaluation of a run at which its metric was at the level: time, round, bytes."""
    history, better = run["history"], higher_is_better(metric)
    for place, value in enumerate(history.get(metric, [])):
        if value is not None and (value >= level if better else value <= level):
            return {name: history[name][place] for name in ("time_s", "round", "bytes")
                    if name in history}  # fmt: skip
    return None


def best_of(run: Mapping[str, Any], metric: str) -> float | None:
    """The best value that a run has measured."""
    values: list[float] = [value for value in run["history"].get(metric, []) if value is not None]
    if not values:
        return None
    return max(values) if higher_is_better(metric) else min(values)


def level_of(groups: Sequence[Row], metric: str) -> tuple[float | None, str]:
    """The level to which methods are compared, and what it is: the common target, or else the best
    that all of them reached."""
    targets = {run["target"] for group in groups for run in group["runs"]}
    if len(targets) == 1 and None not in targets:
        target = targets.pop()
        if any(reached(run, metric, target) for group in groups for run in group["runs"]):
            return target, TARGET
    bests = [
        [best for run in group["runs"] if (best := best_of(run, metric)) is not None]
        for group in groups
    ]
    if not bests or not all(bests):
        return None, ""
    # With the worst seed of the worst method, so that every run has been there.
    worst = min if higher_is_better(metric) else max
    return worst(worst(each) for each in bests), "the best that every run reached"


def rows_of(groups: Sequence[Row], metric: str, level: float | None) -> list[Row]:
    """A line for each method: what it came to and what it took to the level, over its seeds."""
    base = next((group for group in groups if group["is_baseline"]), None)
    first = _hits(base, metric, level) if base else {}
    return [_row(group, metric, level, first) for group in groups]


def _hits(group: Row, metric: str, level: float | None) -> dict[Any, Row]:
    """Where the runs of a method reached the level, by seed."""
    if level is None:
        return {}
    found = {run["seed"]: reached(run, metric, level) for run in group["runs"] if _good(run)}
    return {seed: hit for seed, hit in found.items() if hit is not None}


def _good(run: Mapping[str, Any]) -> bool:
    return run["status"] not in ("failed", "diverged")


def _row(group: Row, metric: str, level: float | None, first: Mapping[Any, Row]) -> Row:
    runs, hits = group["runs"], _hits(group, metric, level)
    good = [run for run in runs if _good(run)]
    row: Row = {"label": group["label"], "runs": len(runs), "reached": len(hits),
                "is_baseline": group["is_baseline"]}  # fmt: skip
    figures = {
        "test": [run["metric"]["test"] for run in good],
        "best": [best_of(run, metric) for run in good],
        "to_time_s": [hit.get("time_s") for hit in hits.values()],
        "to_rounds": [hit.get("round") for hit in hits.values()],
        "to_bytes": [hit.get("bytes") for hit in hits.values()],
        "time_s": [run["time_s"] for run in good],
        "bytes": [run["bytes"].get("total") for run in good],
    }
    for name, values in figures.items():
        known = [value for value in values if value is not None]
        row[name], row[f"{name}_deviation"] = spread(known)
    both = [seed for seed in hits if seed in first]
    row["speed_up"] = _ratio([(first[seed].get("time_s"), hits[seed].get("time_s"))
                              for seed in both])  # fmt: skip
    row["bytes_ratio"] = _ratio([(hits[seed].get("bytes"), first[seed].get("bytes"))
                                 for seed in both])  # fmt: skip
    return row


def _ratio(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    below = sum(other for _, other in known)
    return sum(one for one, _ in known) / below if below else None
