"""How much differential privacy is left to a party's rows, where its embeddings leave with noise.

Counted is how often each row has left: in batches, uploads and evaluations, the active party's own
in snapshots; over all attempts, also those that a return to a checkpoint has undone, because
whoever received a row keeps it. The ledger has a line for every message before it leaves, so what
earlier processes sent is read there. A model's card keeps what its training has cost, for whoever
goes on from it or scores rows with it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from colonnade.data.batches import Rows
from colonnade.data.splits import SPLITS, Split
from colonnade.errors import PartyError
from colonnade.learn.agreement import Agreement
from colonnade.learn.participant import Participant
from colonnade.learn.schedule import EVALUATION_ROWS
from colonnade.protect.accountant import DELTA, epsilon_of, spent
from colonnade.protect.base import Protect
from colonnade.protect.embedding import Gauss
from colonnade.record.card import Card, Spent
from colonnade.record.chain import Line
from colonnade.wire.messages import (
    Embedding,
    EvaluationEmbedding,
    Message,
    Packed,
    Snapshot,
    Upload,
)

RELEASES_MAX = 2**40
SHOWN_MAX = 64
"""So many rounds back it is known that two snapshots show the same."""


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
    """The ε that the embeddings of a row cost in a run that nothing disturbs, with what it has
    spent in the runs that this one goes on from; infinite where they leave without noise.

    >>> from colonnade.job import load
    >>> from colonnade.run.setup import participant
    >>> job = load("digits", ["train.epochs=4", "method.protect.embedding=gauss:1:4"])
    >>> round(planned_epsilon(participant(job, "lab")), 3)
    4.377
    """
    times, noise = _leaving(party), noise_of(party.method.protect)
    if not times:
        return epsilon_of(math.sqrt(inherited(party)))
    if noise is None:
        return math.inf
    return epsilon_of(math.sqrt(inherited(party) + spent(noise, times)))


def _leaving(party: Participant) -> int:
    """How often a row leaves by the plan."""
    return planned(party.agreement(), party.me) if party.width else 0


def inherited(party: Participant) -> float:
    """What a party's rows have spent in the runs that this one goes on from; infinite where they
    left without noise, or nobody has counted."""
    return 0.0 if party.origin is None else spent_by(party.origin.card)


def spent_by(card: Card) -> float:
    """What the rows of a party have spent for a model.

    >>> from colonnade.record.card import Spent
    >>> spent_by(Card(job="", party="a", active="b", run="", round=0, spent=Spent(4, 2.0)))
    4.0
    """
    return math.inf if card.spent is None else card.spent.mu * card.spent.mu


def releases_for(epsilon: float, noise: Gauss, delta: float = DELTA, before: float = 0.0) -> int:
    """How often a row may leave with this noise until ε is used up, of which it has spent some
    `before`.

    >>> from colonnade.protect.embedding import gauss
    >>> releases_for(4.4, gauss(1, 4)), releases_for(4.4, gauss(1, 4), before=0.5)
    (4, 2)
    """

    def fits(releases: int) -> bool:
        return epsilon_of(math.sqrt(before + spent(noise, releases)), delta) <= epsilon

    low, high = 0, 1
    while high < RELEASES_MAX and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class RowReleases:
    """How often each row of a party has left: a passive party's in batches, uploads and
    evaluations, the active one's in snapshots."""

    def __init__(self, agreement: Agreement, me: str = "") -> None:
        self._me = me
        self._plan, self._schedule = agreement.plan, agreement.schedule
        self._rows = agreement.rows
        self._trained = np.zeros(agreement.rows["train"], np.int64)
        self._most_trained = 0
        self._evaluated: dict[Split, int] = dict.fromkeys(SPLITS, 0)
        self._batch = agreement.job.train.batch_size
        self._shown: dict[int, Packed] = {}
        """What the newest snapshots show of this party, by round."""

    def count(self, message: Message) -> None:
        """A message is about to leave."""
        if isinstance(message, Embedding):
            self._add(self._plan.batch(message.round), 1)
        elif isinstance(message, Upload):
            self._add(slice(message.start, message.start + message.tensor.shape[0]), 1)
        elif isinstance(message, EvaluationEmbedding) and message.start == 0:
            self._evaluated[message.split] += 1
        elif isinstance(message, Snapshot) and self._me in message.parties:
            self._show(message.round, message.embeddings[message.parties.index(self._me)])

    def _show(self, round: int, own: Packed) -> None:
        """One and the same tensor goes to every party, which is one release of its rows."""
        if self._shown.get(round) is own:
            return
        self._add(self._plan.batch(round), 1)
        self._shown[round] = own
        if len(self._shown) > SHOWN_MAX:
            del self._shown[next(iter(self._shown))]

    def _add(self, rows: Rows | slice, times: int) -> None:
        self._trained[rows] += times
        self._most_trained = max(self._most_trained, int(self._trained[rows].max(initial=0)))

    def recall(self, lines: Iterable[Line]) -> None:
        """Add what the ledger says to have left before."""
        asked: Counter[int] = Counter()
        shown: dict[int, set[str]] = {}
        uploads = 0
        for line in lines:
            if line.note is not None:
                # Whoever begins again says so; what is shown then has other noise.
                shown.clear()
            if line.way != "sent" or line.round is None:
                continue
            if line.kind == "Embedding":
                self._add(self._plan.batch(line.round), line.messages)
            elif line.kind == "EvaluationEmbedding":
                asked[line.round] += line.messages
            elif line.kind == "Snapshot":
                self._recall_shown(line, shown)
            uploads += line.messages if line.kind == "Upload" else 0
        # Which rows a line stands for is not said, so that the most is taken.
        self._add(slice(None), -(-uploads * self._batch // len(self._trained)))
        for round, messages in asked.items():
            tests = round >= self._schedule.rounds
            splits: tuple[Split, ...] = ("test",) if tests else self._schedule.splits
            pieces = sum(-(-self._rows[split] // EVALUATION_ROWS) for split in splits)
            for split in splits:
                self._evaluated[split] += -(-messages // pieces)

    def _recall_shown(self, line: Line, shown: dict[int, set[str]]) -> None:
        """A snapshot of a round shows everybody the same, unless a party has had it before: then
        the round has begun again."""
        assert line.round is not None
        peers = shown.setdefault(line.round, set())
        if not peers or line.peer in peers:
            self._add(self._plan.batch(line.round), line.messages)
            peers.clear()
        peers.add(line.peer)

    @property
    def most(self) -> int:
        """How often the row that has left most often did."""
        trained = self._most_trained + self._evaluated["train"]
        return max(trained, self._evaluated["validation"], self._evaluated["test"])


@dataclass(eq=False)
class Accountant:
    """Counts what leaves with noise, and stops where ε would be more than the policy allows."""

    noise: Gauss
    rows: RowReleases
    epsilon_max: float | None = None
    """`policy.epsilon_max`."""
    delta: float = DELTA
    before: float = 0.0
    """What the rows have spent in the runs that this one goes on from."""
    tell: Callable[[], None] | None = None
    """Called where a row is about to leave more often than any did before."""

    @property
    def spent(self) -> Spent | None:
        """For the model's card; None where it has no bound."""
        total = self._total
        return None if total == math.inf else Spent(self.rows.most, math.sqrt(total))

    @property
    def _total(self) -> float:
        return self.before + spent(self.noise, self.rows.most)

    @property
    def epsilon(self) -> float:
        """Of the row that has left most often."""
        return epsilon_of(math.sqrt(self._total), self.delta)

    def facts(self) -> dict[str, float | None]:
        """For the record of the run; JSON has no word for infinity."""
        epsilon = self.epsilon if self.epsilon < math.inf else None
        return {"releases": self.rows.most, "epsilon": epsilon, "delta": self.delta}

    def sentence(self) -> str:
        """For a person."""
        more = ", with the runs that it goes on from" if self.before else ""
        return (
            f"its rows left up to {self.rows.most:,} times with {self.noise.text}: local "
            f"differential privacy of a row's embedding, ε = {self.epsilon:.4g} at δ = "
            f"{self.delta:g}{more}"
        )

    def release(self, message: Message) -> None:
        """A message is about to leave."""
        before = self.rows.most
        self.rows.count(message)
        if self.epsilon_max is not None and self.rows.most > self._allowed:
            raise PartyError(
                f"policy.epsilon_max is {self.epsilon_max:g}, which lets a row leave "
                f"{self._allowed:,} times with {self.noise.text}, and that is used up: find out "
                "why the parties begin again and again, or raise policy.epsilon_max"
            )
        if self.tell is not None and self.rows.most > before:
            self.tell()

    @cached_property
    def _allowed(self) -> int:
        assert self.epsilon_max is not None
        return releases_for(self.epsilon_max, self.noise, self.delta, self.before)


def accountant_of(party: Participant) -> Accountant | None:
    """What counts how often a party's rows leave, where they leave with noise."""
    noise = noise_of(party.method.protect)
    if noise is None or not _leaving(party):
        return None
    rows = RowReleases(party.agreement(), party.me)
    return Accountant(noise, rows, party.policy.epsilon_max, before=inherited(party))


def spent_in(party: Participant, accountant: Accountant | None) -> Spent | None:
    """What a party's rows have spent when a run ends: nothing, where no embedding leaves it."""
    if accountant is not None:
        return accountant.spent
    before = inherited(party)
    return None if _leaving(party) or before == math.inf else Spent(0, math.sqrt(before))
