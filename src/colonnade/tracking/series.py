"""Curves of a training, made of its events: what is plotted against the rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from colonnade.record.events import Evaluated, Event, Resumed, RoundDone, Tested
from colonnade.record.history import Row

POINTS_MAX = 1_000
"""About as many points of a curve are kept of each party: a chart shows no more, and a job may have
millions of rounds. Evaluations are all kept."""


class Point(NamedTuple):
    """Some values after a round."""

    step: int
    """The round, counted from 1."""
    time_ns: int
    """By the clock of the job."""
    values: Mapping[str, float]


class Series:
    """Makes points of events: those of the active party's rounds have the loss and the bytes,
    those of a passive party what is said of its exchanges.

    >>> curve = Series("bank")
    >>> curve.point(RoundDone("bank", 7, round=0, rounds=9, loss=0.5, bytes_up=64)).values
    {'train/loss': 0.5, 'bytes/up': 64, 'bytes/down': 0}
    """

    def __init__(self, active: str) -> None:
        self._active = active
        self._next: dict[str, int] = {}

    def point(self, event: Event) -> Point | None:
        """What an event adds to the curves; None where that is nothing."""
        # Every round comes here: tests of the type are quicker than patterns.
        if isinstance(event, RoundDone):
            return self._round(event)
        if isinstance(event, Evaluated):
            values = {f"evaluation/{name}": value for name, value in event.measured.items()}
            values |= {"bytes/up": event.bytes_up, "bytes/down": event.bytes_down}
            return Point(event.round + 1, event.time_ns, values)
        if isinstance(event, Tested):
            values = {f"test/{name}": value for name, value in event.measured.items()}
            return Point(event.round + 1, event.time_ns, values)
        if isinstance(event, Resumed):
            # What was done after the checkpoint is done again, and told again.
            self._next.clear()
        return None

    def _round(self, event: RoundDone) -> Point | None:
        name, done = event.party, event.round + 1
        if done < self._next.get(name, 0) and done < event.rounds:
            return None
        self._next[name] = done + max(1, event.rounds // POINTS_MAX)
        values: dict[str, float]
        if name == self._active:
            values = {} if event.loss is None else {"train/loss": event.loss}
            values |= {"bytes/up": event.bytes_up, "bytes/down": event.bytes_down}
        else:
            values = {
                f"window/{name}": event.window,
                f"in flight/{name}": event.in_flight,
                f"staleness/{name}": event.staleness,
            }
            if event.fresh:
                values[f"local per fresh/{name}"] = event.local / event.fresh
        return Point(done, event.time_ns, values)


_NOT_MEASURED = ("round", "epoch", "time_s", "bytes_up", "bytes_down", "loss", "best")


def point_of(row: Row) -> Point:
    """The point of a row of a run's history.

    >>> row = {"round": 21, "time_s": 2.0, "bytes_up": 8, "bytes_down": 4, "loss": 0.5, "auc": 0.7}
    >>> point_of(row).values
    {'evaluation/auc': 0.7, 'bytes/up': 8, 'bytes/down': 4, 'train/loss': 0.5}
    """
    measured = {
        f"evaluation/{name}": value
        for name, value in row.items()
        if name not in _NOT_MEASURED and value is not None
    }
    costs = {"bytes/up": row["bytes_up"], "bytes/down": row["bytes_down"]}
    loss = {} if row.get("loss") is None else {"train/loss": row["loss"]}
    return Point(row["round"], round(row["time_s"] * 1e9), measured | costs | loss)
