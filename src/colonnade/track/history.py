"""What a training recorded of itself, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from colonnade.longlist import LongList
from colonnade.party.evaluation import Evaluation
from colonnade.policies.view import PACK_EVERY

Row = dict[str, Any]
ROUND = "qdd"
"""The fields of a round's record, for a `LongList`."""


class History:
    """Follows a training: a row for each round, and a row for each evaluation.

    >>> history = History(per_epoch=10)
    >>> history.on_round(0, now_ns=5_000_000, loss=0.7)
    >>> history.rounds
    [{'round': 1, 'time_s': 0.005, 'loss': 0.7}]
    """

    def __init__(self, per_epoch: int) -> None:
        self._rounds: LongList[tuple[int, float, float]] = LongList(ROUND)
        self.evaluations: list[Row] = []
        self.test: Row = {}
        """What was measured on the test rows with the best weights, at the end."""
        self._per_epoch = per_epoch
        self._judged_rounds = 0

    @property
    def rounds(self) -> list[Row]:
        """The rows of all rounds, made anew."""
        return [
            {"round": round, "time_s": time_s, "loss": loss} for round, time_s, loss in self._rounds
        ]

    def on_round(self, round: int, now_ns: int, loss: float) -> None:
        """A round was aggregated."""
        self._rounds.append((round + 1, now_ns / 1e9, loss))
        if not round % PACK_EVERY:
            self._rounds.pack()

    def on_evaluation(
        self, evaluation: Evaluation, now_ns: int, measured: Mapping[str, float], best: bool
    ) -> None:
        """A round was judged; `loss` is the mean over the rounds since the last evaluation."""
        done = evaluation.round + 1
        recent = self._rounds.column(2, self._judged_rounds, done)
        self._judged_rounds = done
        self.evaluations.append(
            {
                "round": done,
                "epoch": done / self._per_epoch,
                "time_s": now_ns / 1e9,
                "bytes_up": evaluation.bytes_up,
                "bytes_down": evaluation.bytes_down,
                "loss": sum(recent) / len(recent),
                **measured,
                "best": best,
            }
        )

    def on_test(self, round: int, measured: Mapping[str, float]) -> None:
        """The best weights were tried on the test rows."""
        self.test = {"round": round + 1, **measured}

    def clear(self) -> None:
        """Begin anew."""
        self._rounds = LongList(ROUND)
        self.test = {}
        self.evaluations.clear()
        self._judged_rounds = 0

    def state(self) -> dict[str, Any]:
        """All rows, for a checkpoint."""
        return {
            "rounds": self._rounds.columns(),
            "evaluations": [dict(row) for row in self.evaluations],
            "judged": self._judged_rounds,
        }

    def restore(self, state: Any) -> None:
        """Go back to the rows of a checkpoint."""
        self._rounds = LongList.of_columns(ROUND, state["rounds"])
        self.evaluations[:] = state["evaluations"]
        self.test = {}
        self._judged_rounds = state["judged"]
