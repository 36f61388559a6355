"""The active party's book of evaluations: what was asked, what has come, what was the best."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from colonnade.data.splits import Split
from colonnade.errors import BreachError
from colonnade.job.records import Train
from colonnade.learn.inbound import excess_of
from colonnade.learn.schedule import EVALUATION_ROWS, Schedule
from colonnade.record.metrics import Metric
from colonnade.record.tree import Tree
from colonnade.wire.fault import Fault
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import Evaluate, EvaluationEmbedding, Packed


@dataclass(slots=True)
class Evaluation:
    """One evaluation on its way: asked with the reply of a round, scored when all have answered."""

    round: int
    """The round that is scored; the number after the last for the test rows, at the end."""
    splits: tuple[Split, ...]
    """The rows that are asked for."""
    is_test: bool = False
    """Whether it is the last one, on the test rows."""
    bytes_up: int = 0
    """Training bytes received up to this round's reply."""
    bytes_down: int = 0
    """Training bytes sent up to this round's reply."""
    models: Any = None
    """The active party's models after its updates of the round; None until they are done."""
    captured: bool = False
    pieces: dict[Split, dict[str, dict[int, Packed]]] = field(default_factory=dict)
    rows: dict[tuple[Split, str], int] = field(default_factory=dict)


def blame(evaluation: Evaluation) -> Fault:
    """Why nothing could be measured: whose embeddings are not finite, if it is not the active
    party's own model."""
    for pieces in evaluation.pieces.values():
        for peer, own in pieces.items():
            faults = filter(None, map(excess_of, own.values()))
            if (fault := next(faults, None)) is not None:
                sent = f"{peer} sent evaluation embeddings with {fault}"
                return Fault(f"{sent} of round {evaluation.round + 1}", sender=peer)
    return Fault(f"the predictions of round {evaluation.round + 1} are not finite")


class Evaluations:
    """When to evaluate, whose answers are missing, and whether the run should end."""

    def __init__(
        self, train: Train, metric: Metric, peers: tuple[str, ...], schedule: Schedule
    ) -> None:
        self._train = train
        self._metric = metric
        self._peers = peers
        self._schedule = schedule
        self.due = schedule.due
        """Whether a round is followed by an evaluation."""
        self._rows = schedule.rows
        self.open: deque[Evaluation] = deque()
        """Those that are not scored yet, oldest first."""
        self._without_gain = 0
        self._tested = False
        self.best = -1
        self.best_value: float | None = None
        self.scored = -1

    @property
    def full(self) -> bool:
        """Whether so many are open that no more may be asked for."""
        return len(self.open) >= self._schedule.open_max

    def ask(self, round: int, answered: Mapping[str, int]) -> dict[str, Evaluate]:
        """Open an evaluation: the question to each passive party, which follows the round of its
        own that it has, or is about to have, the reply of."""
        return self._ask(Evaluation(round, self._schedule.splits), answered)

    def untested(self) -> bool:
        """Whether the test rows are to be looked at and have not been."""
        return self._schedule.tests and self.best >= 0 and not self._tested

    def ask_test(self, models: Any, answered: Mapping[str, int]) -> dict[str, Evaluate]:
        """The last question of a job: the test rows, with the weights of the best round."""
        self._tested = True
        end = self._schedule.rounds
        last = Evaluation(end, ("test",), is_test=True, models=models, captured=True)
        return self._ask(last, answered)

    def _ask(self, evaluation: Evaluation, answered: Mapping[str, int]) -> dict[str, Evaluate]:
        self.open.append(evaluation)
        return {
            peer: Evaluate(evaluation.round, last, evaluation.splits, self.best, self.scored)
            for peer, last in answered.items()
        }

    def charge(self, round: int | None, ledger: Ledger) -> None:
        """The replies of a round have left: note what the training has cost up to here."""
        if self.open[-1].round == round:
            self.open[-1].bytes_up = ledger.training_bytes("received")
            self.open[-1].bytes_down = ledger.training_bytes("sent")

    def capture(self, round: int, copy: Callable[[], Any]) -> None:
        """The active party's updates on a round are done: keep its models for the score."""
        for evaluation in self.open:
            if evaluation.round == round and not evaluation.captured:
                evaluation.models = copy()
                evaluation.captured = True

    def accept(self, sender: str, message: EvaluationEmbedding) -> None:
        """Take in a piece of an answer."""
        for evaluation in self.open:
            if evaluation.round == message.round and message.split in evaluation.splits:
                pieces = evaluation.pieces.setdefault(message.split, {}).setdefault(sender, {})
                start, rows = message.start, math.prod(message.tensor.shape[:1])
                due = min(EVALUATION_ROWS, self._rows[message.split] - start)
                if start in pieces or start < 0 or start % EVALUATION_ROWS or not 0 < rows == due:
                    fault = f"{sender} sent {rows} evaluation rows from {start} on: not what is due"
                    raise BreachError(sender, fault)
                pieces[start] = message.tensor
                key = (message.split, sender)
                evaluation.rows[key] = evaluation.rows.get(key, 0) + rows
                return
        fault = f"{sender} answered an evaluation of round {message.round + 1} nobody asked"
        raise BreachError(sender, fault)

    def ready(self) -> Evaluation | None:
        """The oldest evaluation, once everybody's answer is complete."""
        if not self.open or not self.open[0].captured:
            return None
        return None if self.missing() else self.open[0]

    def state(self) -> Tree:
        """What has been scored so far; nobody's answer may be missing."""
        assert not self.open, "something is in flight"
        return {
            "best": self.best,
            "best_value": self.best_value,
            "judged": self.scored,
            "without_gain": self._without_gain,
        }

    def restore(self, state: Tree) -> None:
        """Go on from there."""
        assert not self.open
        self.best = state["best"]
        self.best_value = state["best_value"]
        self.scored = state["judged"]
        self._without_gain = state["without_gain"]

    def missing(self) -> list[str]:
        """The parties whose answer to the oldest evaluation is not complete."""
        if not self.open:
            return []
        rows, splits = self.open[0].rows, self.open[0].splits
        return [
            peer
            for peer in self._peers
            if any(rows.get((split, peer), 0) < self._rows[split] for split in splits)
        ]

    def close(self, evaluation: Evaluation) -> None:
        """All is known of the oldest evaluation that it was to tell."""
        oldest = self.open.popleft()
        assert oldest is evaluation, "evaluations are scored in order"

    def close_scored(self, evaluation: Evaluation, measured: Mapping[str, float]) -> str | None:
        """Close an evaluation; the reason to end the run, if it gives one."""
        self.close(evaluation)
        self.scored = evaluation.round
        value = measured.get(self._metric.name)
        if value is None:
            return "diverged"
        if self._metric.better(value, self.best_value):
            self.best, self.best_value, self._without_gain = evaluation.round, value, 0
        else:
            self._without_gain += 1
        target = self._train.target if self._train.stop == "target" else None
        if target is not None and self._metric.reaches(value, target):
            return "target"
        if self._train.patience is not None and self._without_gain >= self._train.patience:
            return "patience"
        return None
