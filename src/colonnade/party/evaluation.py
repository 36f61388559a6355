"""The active party's book of evaluations: what was asked, what has come, what was the best."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from colonnade.compress import decode
from colonnade.errors import BreachError
from colonnade.job.records import Train
from colonnade.party.learner import Split
from colonnade.party.state import Tree
from colonnade.party.torch_passive import EVALUATION_ROWS
from colonnade.track.metrics import Metric
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import Evaluate, EvaluationEmbedding, Packed


@dataclass(slots=True)
class Evaluation:
    """One evaluation on its way: asked with the reply of a round, judged when all have answered."""

    round: int
    bytes_up: int = 0
    """Training bytes received up to this round's reply."""
    bytes_down: int = 0
    """Training bytes sent up to this round's reply."""
    models: Any = None
    """The active party's models after its updates of the round; None until they are done."""
    captured: bool = False
    pieces: dict[Split, dict[str, dict[int, Packed]]] = field(default_factory=dict)
    rows: dict[tuple[Split, str], int] = field(default_factory=dict)


class Observer(Protocol):
    """Whoever follows a training: the history of a run, a progress bar."""

    def on_round(self, round: int, now_ns: int, loss: float) -> None:
        """A round was aggregated."""
        ...

    def on_evaluation(
        self, evaluation: Evaluation, now_ns: int, measured: Mapping[str, float], best: bool
    ) -> None:
        """A round was judged."""
        ...


class Recorded(Protocol):
    """What was recorded of a training, to be saved and found again."""

    def clear(self) -> None:
        """Begin anew."""
        ...

    def state(self) -> Any:
        """For a checkpoint."""
        ...

    def restore(self, state: Any) -> None:
        """Go back to a checkpoint."""
        ...


def blame(evaluation: Evaluation) -> str:
    """Why nothing could be measured: whose embeddings are not finite, if it is not the active
    party's own model."""
    for pieces in evaluation.pieces.values():
        for peer, own in pieces.items():
            if not all(torch.isfinite(decode(packed)).all() for packed in own.values()):
                return (
                    f"{peer} sent evaluation embeddings with NaN or infinite components "
                    f"of round {evaluation.round}"
                )
    return f"the predictions of round {evaluation.round} are not finite"


class Evaluations:
    """When to evaluate, whose answers are missing, and whether the run should end."""

    def __init__(
        self,
        train: Train,
        metric: Metric,
        peers: tuple[str, ...],
        rows: Mapping[Split, int],
        rounds: int,
        per_epoch: int,
    ) -> None:
        self._train = train
        self._metric = metric
        self._peers = peers
        self._splits: tuple[Split, ...] = ("train", "test") if train.full_loss else ("test",)
        self._rows = rows
        self._rounds = rounds
        period = train.evaluation_period()
        self._period = (
            None if period is None else period[0] * {"epoch": per_epoch, "round": 1}[period[1]]
        )
        self._open: deque[Evaluation] = deque()
        self._without_gain = 0
        self.best = -1
        self.best_value: float | None = None
        self.judged = -1

    def due(self, round: int) -> bool:
        """Whether a round is followed by an evaluation; the last one always is."""
        if self._period is None:
            return False
        return (round + 1) % self._period == 0 or round + 1 == self._rounds

    def ask(self, round: int, answered: Mapping[str, int]) -> dict[str, Evaluate]:
        """Open an evaluation: the question to each passive party, which follows the round of its
        own that it has, or is about to have, the reply of."""
        self._open.append(Evaluation(round))
        return {
            peer: Evaluate(round, last, self._train.full_loss, self.best, self.judged)
            for peer, last in answered.items()
        }

    def charge(self, round: int | None, ledger: Ledger) -> None:
        """The replies of a round have left: note what the training has cost up to here."""
        if self._open and self._open[-1].round == round:
            self._open[-1].bytes_up = ledger.training_bytes("received")
            self._open[-1].bytes_down = ledger.training_bytes("sent")

    def capture(self, round: int, copy: Callable[[], Any]) -> None:
        """The active party's updates on a round are done: keep its models for the judgement."""
        for evaluation in self._open:
            if evaluation.round == round and not evaluation.captured:
                evaluation.models = copy()
                evaluation.captured = True

    def accept(self, sender: str, message: EvaluationEmbedding) -> None:
        """Take in a piece of an answer."""
        for evaluation in self._open:
            if evaluation.round == message.round and message.split in self._splits:
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
        fault = f"{sender} answered an evaluation of round {message.round} nobody asked"
        raise BreachError(sender, fault)

    def ready(self) -> Evaluation | None:
        """The oldest evaluation, once everybody's answer is complete."""
        if not self._open or not self._open[0].captured:
            return None
        rows = self._open[0].rows
        complete = all(
            rows.get((split, peer), 0) == self._rows[split]
            for split in self._splits
            for peer in self._peers
        )
        return self._open[0] if complete else None

    @property
    def pending(self) -> bool:
        """Whether somebody's answer is still missing."""
        return bool(self._open)

    def state(self) -> Tree:
        """What has been judged so far; nobody's answer may be missing."""
        assert not self._open, "not at rest"
        return {
            "best": self.best,
            "best_value": self.best_value,
            "judged": self.judged,
            "without_gain": self._without_gain,
        }

    def restore(self, state: Tree) -> None:
        """Go on from there."""
        assert not self._open
        self.best = state["best"]
        self.best_value = state["best_value"]
        self.judged = state["judged"]
        self._without_gain = state["without_gain"]

    def missing(self) -> list[str]:
        """The parties whose answer to the oldest evaluation is not complete."""
        rows = self._open[0].rows if self._open else {}
        return [
            peer
            for peer in self._peers
            if any(rows.get((split, peer), 0) < self._rows[split] for split in self._splits)
        ]

    def settle(self, evaluation: Evaluation, measured: Mapping[str, float]) -> str | None:
        """Close an evaluation; the reason to end the run, if it gives one."""
        oldest = self._open.popleft()
        assert oldest is evaluation, "evaluations are judged in order"
        self.judged = evaluation.round
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
