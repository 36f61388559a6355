"""A passive party's book of the evaluations that it is asked for.

What the active party may ask follows from the terms of the job: every round that is due once and
in order, the rows that the job says, the test rows once, at the end. Anything else is a breach,
and is not answered. So is a question that would make the party keep more copies of its weights
than the protocol needs: that of the best round, and those whose score is not known yet.

Where all parties go through the same rounds, a question comes before the reply of its round, so
the party knows of which round it must be. Where rounds are each party's own, it can only check
how many questions come, and in which order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from colonnade.errors import BreachError
from colonnade.learn.schedule import Schedule
from colonnade.record.tree import Tree
from colonnade.wire.messages import Evaluate


class Questions:
    """What was asked, and what the party has heard of the scores.

    >>> book = Questions(Schedule(2, 1, rows={"validation": 1, "test": 1}), "bank", in_step=True)
    >>> book.accept(Evaluate(0, 0, ("validation",), -1, -1), in_flight=[0], newest=-1)
    >>> book.accept(Evaluate(0, 0, ("validation",), -1, -1), in_flight=[0], newest=-1)
    Traceback (most recent call last):
    colonnade.errors.BreachError: bank asked for an evaluation of round 1, which is not due
    """

    def __init__(self, schedule: Schedule, active: str, in_step: bool) -> None:
        self._schedule = schedule
        self._active = active
        self._in_step = in_step
        self.waiting: deque[Evaluate] = deque()
        """Questions that are due and not answered yet, oldest first."""
        self._last = -1
        """The last round that was asked for."""
        self._open: list[int] = []
        """The rounds asked for whose score is not known yet."""
        self._scored = -1
        self._best = -1
        self._tested = False

    def is_test(self, question: Evaluate) -> bool:
        """Whether a question is the last one, for the test rows."""
        return self._schedule.tests and question.round == self._schedule.rounds

    def accept(self, question: Evaluate, in_flight: Collection[int], newest: int) -> None:
        """Take in a question, or refuse it.

        `in_flight` are the party's own rounds without a reply, `newest` the last one that has it.
        """
        if self._tested:
            raise self._breach("asked once more after the test rows")
        test, round = self.is_test(question), question.round
        if not test and (round <= self._last or not self._schedule.due(round)):
            raise self._breach(f"asked for an evaluation of round {round + 1}, which is not due")
        due = ("test",) if test else self._schedule.splits
        if question.splits != due:
            agreed = " and ".join(due)
            wanted = " and ".join(question.splits) or "no"
            raise self._breach(f"asked for {wanted} rows, and the job has {agreed} rows evaluated")
        strict = self._in_step and not test
        fits = question.after in in_flight or (question.after == newest and not strict)
        if not fits or (strict and question.after != round):
            raise self._breach(
                f"asked for an evaluation after round {question.after + 1}, when {newest + 1} have "
                "a reply"
            )
        self._heed(question)
        if test:
            if self._open or self._best < 0:
                raise self._breach("asked for the test rows before all was scored")
            self._tested = True
        else:
            if len(self._open) >= self._schedule.open_max:
                raise self._breach(
                    f"asked for {len(self._open) + 1} evaluations without scoring any of them"
                )
            self._last = round
            self._open.append(round)
        self.waiting.append(question)

    def _heed(self, question: Evaluate) -> None:
        """What was scored since, and which is the best now."""
        scored = question.scored
        if scored != self._scored and scored not in self._open:
            raise self._breach(f"scored round {scored + 1}, which it had not asked for")
        self._choose(question.best, scored)
        self._scored = scored
        self._open = [round for round in self._open if round > scored]

    def _choose(self, best: int, scored: int) -> None:
        if best != self._best and not (best in self._open and best <= scored):
            raise self._breach(f"calls round {best + 1} the best, which was not scored just now")
        self._best = best

    def finish(self, best: int) -> None:
        """The job is over, and these weights are its result."""
        self._choose(best, self._last)

    def _breach(self, what: str) -> BreachError:
        return BreachError(self._active, f"{self._active} {what}")

    def state(self) -> Tree:
        """For a checkpoint; nothing may wait."""
        assert not self.waiting, "something is in flight"
        return {
            "last": self._last,
            "open": list(self._open),
            "judged": self._scored,
            "best": self._best,
            "tested": self._tested,
        }

    def restore(self, state: Tree) -> None:
        """Go on from there: what was asked after it is asked again."""
        self._last, self._open = state["last"], list(state["open"])
        self._scored, self._best = state["judged"], state["best"]
        self._tested = state["tested"]
