"""How much differential privacy is left to a party's rows, where its embeddings leave with noise.

Counted is how often each row has left: in batches, uploads and evaluations, and over all attempts,
also those that a return to a checkpoint has undone, because whoever received a row keeps it. The
ledger has a line for every message before it leaves, so what earlier processes sent is read there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from colonnade.data.batches import Rows
from colonnade.data.splits import SPLITS, Split
from colonnade.errors import PartyError
from colonnade.learn.agreement import Agreement
from colonnade.learn.participant import Participant
from colonnade.learn.schedule import EVALUATION_ROWS
from colonnade.protect.accountant import DELTA, epsilon_of, mu
from colonnade.protect.base import Protect
from colonnade.protect.embedding import Gauss
from colonnade.record.chain import Line
from colonnade.wire.messages import Embedding, EvaluationEmbedding, Message, Upload

RELEASES_MAX = 2**40


def noise_of(protect: Protect) -> Gauss | None:
    """The noise of a method's embeddings, where they have any."""
    found = [each for each in protect.embedding if isinstance(each, Gauss)]
    return found[0] if found else None


def planned(agreement: Agreement, me: str) -> int:
    """How often the row that leaves a party most often does, in a run that nothing disturbs; the
    active party's leave in snapshots.

    >>> from colonnade.job import load
    >>> from colonnade.run.setup import participant
    >>> planned(participant(load("digits", ["train.epochs=20"]), "lab").agreement(), "lab")
    20
    """
    plan, schedule = agreement.plan, agreement.schedule
    if me == agreement.job.active:
        shows = agreement.method.exchange.sends_snapshots
        return -(-agreement.rounds // plan.per_epoch) if shows else 0
    trained = -(-agreement.view(me).rounds // plan.per_epoch) + agreement.method.quorum.uploads
    held = len(schedule)
    return max(trained + (held if "train" in schedule.splits else 0), held)


def planned_epsilon(party: Participant) -> float:
    """The ε that the embeddings of a row cost in a run that nothing disturbs; infinite where they
    leave without noise.

    >>> from colonnade.job import load
    >>> from colonnade.run.setup import participant
    >>> job = load("digits", ["train.epochs=4", "method.protect.embedding=gauss:1:4"])
    >>> round(planned_epsilon(participant(job, "lab")), 3)
    4.377
    """
    times, noise = planned(party.agreement(), party.me), noise_of(party.method.protect)
    if not times or not party.width:
        return 0.0
    return math.inf if noise is None else epsilon_of(mu(noise, times))


def releases_for(epsilon: float, noise: Gauss, delta: float = DELTA) -> int:
    """How often a row may leave with this noise until ε is used up.

    >>> from colonnade.protect.embedding import gauss
    >>> releases_for(4.4, gauss(1, 4))
    4
    """
    low, high = 0, 1
    while high < RELEASES_MAX and epsilon_of(mu(noise, high), delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fits = epsilon_of(mu(noise, middle), delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


class RowReleases:
    """How often each row of a passive party has left."""

    def __init__(self, agreement: Agreement) -> None:
        self._plan, self._schedule = agreement.plan, agreement.schedule
        self._rows = agreement.rows
        self._trained = np.zeros(agreement.rows["train"], np.int64)
        self._most_trained = 0
        self._evaluated: dict[Split, int] = dict.fromkeys(SPLITS, 0)
        self._batch = agreement.job.train.batch_size

    def count(self, message: Message) -> None:
        """A message is about to leave."""
        if isinstance(message, Embedding):
            self._add(self._plan.batch(message.round), 1)
        elif isinstance(message, Upload):
            self._add(slice(message.start, message.start + message.tensor.shape[0]), 1)
        elif isinstance(message, EvaluationEmbedding) and message.start == 0:
            self._evaluated[message.split] += 1

    def _add(self, rows: Rows | slice, times: int) -> None:
        self._trained[rows] += times
        self._most_trained = max(self._most_trained, int(self._trained[rows].max(initial=0)))

    def recall(self, lines: Iterable[Line]) -> None:
        """Add what the ledger says to have left before."""
        asked: Counter[int] = Counter()
        uploads = 0
        for line in lines:
            if line.way != "sent" or line.round is None:
                continue
            if line.kind == "Embedding":
                self._add(self._plan.batch(line.round), line.messages)
            elif line.kind == "EvaluationEmbedding":
                asked[line.round] += line.messages
            uploads += line.messages if line.kind == "Upload" else 0
        # Which rows a line stands for is not said, so that the most is taken.
        self._add(slice(None), -(-uploads * self._batch // len(self._trained)))
        for round, messages in asked.items():
            tests = round >= self._schedule.rounds
            splits: tuple[Split, ...] = ("test",) if tests else self._schedule.splits
            pieces = sum(-(-self._rows[split] // EVALUATION_ROWS) for split in splits)
            for split in splits:
                self._evaluated[split] += -(-messages // pieces)

    @property
    def most(self) -> int:
        """How often the row that has left most often did."""
        trained = self._most_trained + self._evaluated["train"]
        return max(trained, self._evaluated["validation"], self._evaluated["test"])


@dataclass(frozen=True, eq=False)
class Accountant:
    """Counts what leaves with noise, and stops where ε would be more than the policy allows."""

    noise: Gauss
    rows: RowReleases
    epsilon_max: float | None = None
    """`policy.epsilon_max`."""
    delta: float = DELTA

    @property
    def epsilon(self) -> float:
        """Of the row that has left most often."""
        return epsilon_of(mu(self.noise, self.rows.most), self.delta)

    def facts(self) -> dict[str, float]:
        """For the record of the run."""
        return {"releases": self.rows.most, "epsilon": self.epsilon, "delta": self.delta}

    def sentence(self) -> str:
        """For a person."""
        return (
            f"its rows left up to {self.rows.most:,} times with {self.noise.text}: local "
            f"differential privacy of a row's embedding, ε = {self.epsilon:.4g} at δ = "
            f"{self.delta:g}"
        )

    def release(self, message: Message) -> None:
        """A message is about to leave."""
        self.rows.count(message)
        if self.epsilon_max is not None and self.rows.most > self._allowed:
            raise PartyError(
                f"policy.epsilon_max is {self.epsilon_max:g}, which lets a row leave "
                f"{self._allowed:,} times with {self.noise.text}, and that is used up: find out "
                "why the parties begin again and again, or raise policy.epsilon_max"
            )

    @cached_property
    def _allowed(self) -> int:
        assert self.epsilon_max is not None
        return releases_for(self.epsilon_max, self.noise, self.delta)
