"""What a training recorded of itself, row by row."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from colonnade.packed import LongList
from colonnade.policies.view import PACK_EVERY
from colonnade.record.events import Calibrated, Evaluated, Event, RoundDone, Tested

Row = dict[str, Any]
ROUND = "qdd"
"""The fields of a round's record, for a `LongList`."""


class History:
    """Follows the active party's training: a row for each round, whose loss is NaN where the party
    cannot tell it, and a row for each evaluation.

    >>> history = History(per_epoch=10)
    >>> history(RoundDone("bank", time_ns=5_000_000, round=0, rounds=9, loss=0.7))
    >>> history.rounds
    [{'round': 1, 'time_s': 0.005, 'loss': 0.7}]
    """

    def __init__(self, per_epoch: int) -> None:
        self._rounds: LongList[tuple[int, float, float]] = LongList(ROUND)
        self.evaluations: list[Row] = []
        self.test: Row = {}
        """What was measured on the test rows with the best weights, at the end."""
        self.calibrations: list[Row] = []
        """What was measured and chosen, each time."""
        self._per_epoch = per_epoch
        self._judged_rounds = 0

    @property
    def rounds(self) -> list[Row]:
        """The rows of all rounds, made anew."""
        return [
            {"round": round, "time_s": time_s, "loss": loss} for round, time_s, loss in self._rounds
        ]

    def __call__(self, event: Event) -> None:
        """Take down what the active party tells."""
        # Every round comes here: tests of the type are quicker than patterns.
        if isinstance(event, RoundDone):
            loss = math.nan if event.loss is None else event.loss
            self._rounds.append((event.round + 1, event.time_ns / 1e9, loss))
            if not event.round % PACK_EVERY:
                self._rounds.pack()
        elif isinstance(event, Evaluated):
            self.evaluations.append(self._row(event))
        elif isinstance(event, Calibrated):
            told = msgspec.to_builtins(event)
            self.calibrations.append({"time_s": event.time_ns / 1e9} | _without_sender(told))
        elif isinstance(event, Tested):
            self.test = {"round": event.round + 1, **event.measured}

    def _row(self, event: Evaluated) -> Row:
        """`loss` is the mean over the rounds since the last evaluation; None where nobody can tell
        it."""
        done = event.round + 1
        recent = self._rounds.column(2, self._judged_rounds, done)
        self._judged_rounds = done
        return {
            "round": done,
            "epoch": done / self._per_epoch,
            "time_s": event.time_ns / 1e9,
            "bytes_up": event.bytes_up,
            "bytes_down": event.bytes_down,
            "loss": None if math.isnan(mean := sum(recent) / len(recent)) else mean,
            **event.measured,
            "best": event.best,
        }

    def state(self) -> dict[str, Any]:
        """All rows, for a checkpoint."""
        return {
            "rounds": self._rounds.columns(),
            "evaluations": [dict(row) for row in self.evaluations],
            "judged": self._judged_rounds,
            "calibrations": [dict(row) for row in self.calibrations],
        }

    def restore(self, state: Any) -> None:
        """Go back to the rows of a checkpoint."""
        self._rounds = LongList.of_columns(ROUND, state["rounds"])
        self.evaluations[:] = state["evaluations"]
        self.test = {}
        self.calibrations[:] = state.get("calibrations", [])
        self._judged_rounds = state["judged"]


def _without_sender(told: Row) -> Row:
    return {key: value for key, value in told.items() if key not in ("type", "party", "time_ns")}
