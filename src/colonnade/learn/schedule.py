"""Which rows are asked for in evaluations, and when: it follows from the terms of a job, so that a
passive party can tell a question that is due from one that is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from colonnade.data.splits import Split
from colonnade.job.train import Train

EVALUATION_ROWS = 4096
"""Rows in one piece of an evaluation."""
OPEN_MAX = 8
"""Evaluations that may be asked and not scored, and so the copies of its weights, beside that of
the best round, that a passive party keeps. In lock-step it is never more than one."""


@dataclass(frozen=True)
class Schedule:
    """The evaluations of a job.

    >>> schedule = Schedule(rounds=10, period=4, rows={"train": 8, "validation": 2, "test": 2})
    >>> [round for round in range(10) if schedule.due(round)], len(schedule)
    ([3, 7, 9], 3)
    >>> schedule.splits, schedule.tests
    (('validation',), True)
    """

    rounds: int = 0
    period: int | None = None
    """Rounds from one evaluation to the next; None where there is none."""
    full_loss: bool = False
    rows: Mapping[Split, int] = field(default_factory=dict)
    """How many rows each split has."""
    open_max: int = OPEN_MAX
    """Evaluations that may be asked and not scored."""

    @classmethod
    def of(
        cls, train: Train, rounds: int, per_epoch: int, rows: Mapping[Split, int], most: int
    ) -> Schedule:
        """The schedule of a job in which `most` exchanges of a party may be in flight."""
        stated = train.evaluation_period()
        period = None
        if stated is not None:
            period = stated[0] * {"epoch": per_epoch, "round": 1}[stated[1]]
        return cls(rounds, period, train.full_loss, rows, max(OPEN_MAX, most))

    @property
    def chosen_on(self) -> Split:
        """The rows by which choices are made: without validation rows, the test rows serve."""
        return "validation" if self.rows.get("validation") else "test"

    @property
    def splits(self) -> tuple[Split, ...]:
        """What each evaluation asks for."""
        return ("train", self.chosen_on) if self.full_loss else (self.chosen_on,)

    @property
    def tests(self) -> bool:
        """Whether the test rows are asked for once, at the end."""
        evaluates = self.period is not None
        return evaluates and self.chosen_on != "test" and bool(self.rows.get("test"))

    def due(self, round: int) -> bool:
        """Whether a round is followed by an evaluation; the last one always is."""
        if self.period is None or not 0 <= round < self.rounds:
            return False
        return (round + 1) % self.period == 0 or round + 1 == self.rounds

    def before(self, round: int) -> int:
        """How many evaluations follow a round before this one.

        >>> schedule = Schedule(rounds=10, period=4)
        >>> [schedule.before(round) for round in (0, 3, 4, 9, 10)]
        [0, 0, 1, 2, 3]
        """
        if self.period is None:
            return 0
        return len(self) if round >= self.rounds else round // self.period

    def __len__(self) -> int:
        return 0 if self.period is None else -(-self.rounds // self.period)
