"""The most that can leave a passive party in one run of a job, message by message.

It follows from the terms alone: how many rounds there are, which rounds are evaluated, on which
rows, and how tensors are written. The party's program enforces every part of it, so that it holds
whatever the active party asks for; and a run in lock-step that nothing ends early sends exactly
this. Counted are the messages that carry something of the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from colonnade.compress import Encoding, Key, plain
from colonnade.naming import own_method
from colonnade.participation import Participant
from colonnade.party.build import DTYPES
from colonnade.party.template import Template
from colonnade.party.torch_passive import EVALUATION_ROWS
from colonnade.policies.view import Exchange, Role
from colonnade.wire.codec import Codec
from colonnade.wire.messages import (
    UPDATES_MAX,
    Embedding,
    EvaluationEmbedding,
    Packed,
    Status,
    Upload,
)

Most = dict[str, tuple[int, int]]
"""Messages and bytes by kind."""


def ceiling(me: Participant) -> Most:
    """The most that a passive party can be made to send of each kind that carries data.

    >>> from colonnade.job import load
    >>> from colonnade.participation import participant
    >>> most = ceiling(participant(load("digits", ["train.rounds=5"]), "lab"))
    >>> {kind: messages for kind, (messages, _) in most.items()}
    {'Embedding': 5, 'EvaluationEmbedding': 2}
    """
    assert not me.leads, "the active party's share follows from the others'"
    return _Count(me).all()


class _Count:
    def __init__(self, me: Participant) -> None:
        self.me = me
        self.method = own_method(me.method, me.job, me.me)
        self.contract = me.contract(dict.fromkeys(me.job.parties, 1))
        self.rounds = self.contract.setup(me.me).view(Role.PASSIVE).rounds
        self.codec = Codec(me.job.limits.message_bytes)

    def all(self) -> Most:
        found: Most = {}
        if self.method.quorum.uploads:
            found["Upload"] = self._uploads()
        if self.method.local.reports:
            sizes = (self._bytes(Status(r, UPDATES_MAX)) for r in range(self.rounds))
            found["Status"] = (self.rounds, sum(sizes))
        found["Embedding"] = self._embeddings()
        if len(self.contract.schedule):
            found["EvaluationEmbedding"] = self._evaluations()
        return found

    def _bytes(self, message: Any) -> int:
        return len(self.codec.encode(message))

    def _tensor(self, encoding: Encoding, rows: int, round: int, known: bool) -> Packed:
        key, width = Key(0, self.me.me, "embedding"), self.me.bottom.width
        template = Template(encoding, key, width, DTYPES[self.me.job.train.dtype])
        if known:
            return template.piece(rows, round)
        return template.packed(Exchange(round, np.arange(rows)))

    def _embeddings(self) -> tuple[int, int]:
        """Of every round; all that are as long as one another are counted together."""
        plan, encoding = self.contract.plan, self.method.compress.embedding
        last = plan.rows - (plan.per_epoch - 1) * plan.batch_size
        alike: Counter[tuple[int, int, Any, bool]] = Counter()
        first: dict[tuple[int, int, Any, bool], int] = {}
        for round in range(self.rounds):
            ends = round % plan.per_epoch == plan.per_epoch - 1
            rows = min(last, plan.batch_size) if ends else plan.batch_size
            # Which columns matter is known once a reply was used.
            known = round >= self.method.window.most
            kind = (rows, _digits(round), _at(encoding, round), known)
            alike[kind] += 1
            first.setdefault(kind, round)
        total = 0
        for kind, count in alike.items():
            tensor = self._tensor(encoding, kind[0], first[kind], kind[3])
            total += count * self._bytes(Embedding(first[kind], tensor))
        return self.rounds, total

    def _evaluations(self) -> tuple[int, int]:
        train, schedule = self.me.job.train, self.contract.schedule
        encoding = plain() if train.evaluate_plain else self.method.compress.embedding
        alike: Counter[tuple[int, Any, Any]] = Counter()
        first: dict[tuple[int, Any, Any], int] = {}
        asked = [(r, schedule.splits) for r in range(schedule.rounds) if schedule.due(r)]
        if schedule.tests:
            asked.append((schedule.rounds, ("test",)))
        for round, splits in asked:
            kind = (_digits(round), _at(encoding, round), splits)
            alike[kind] += 1
            first.setdefault(kind, round)
        messages = total = 0
        for kind, count in alike.items():
            for answer in self._answer(encoding, first[kind], kind[2]):
                messages += count
                total += count * self._bytes(answer)
        return messages, total

    def _answer(
        self, encoding: Encoding, round: int, splits: tuple[Any, ...]
    ) -> Iterator[EvaluationEmbedding]:
        pieces: dict[int, Packed] = {}
        for split in splits:
            count = self.contract.schedule.rows[split]
            for start in range(0, count, EVALUATION_ROWS):
                rows = min(EVALUATION_ROWS, count - start)
                if rows not in pieces:
                    pieces[rows] = self._tensor(encoding, rows, round, known=True)
                yield EvaluationEmbedding(round, split, start, pieces[rows])

    def _uploads(self) -> tuple[int, int]:
        plan, sizes = self.contract.plan, []
        for start in range(0, plan.rows, plan.batch_size):
            rows = min(plan.batch_size, plan.rows - start)
            sizes.append(self._bytes(Upload(start, self._tensor(plain(), rows, 0, known=False))))
        return len(sizes), sum(sizes)


def _digits(number: int) -> int:
    """How many bytes a number of 0 or more takes in a header.

    >>> [_digits(number) for number in (0, 127, 128, 255, 256, 65_536)]
    [1, 1, 2, 2, 3, 5]
    """
    return next(size for size, end in _ENDS if number < end)


_ENDS = ((1, 1 << 7), (2, 1 << 8), (3, 1 << 16), (5, 1 << 32), (9, 1 << 64))


def _at(encoding: Any, round: int) -> Any:
    """What an encoding that changes over the rounds is in one of them."""
    if hasattr(encoding, "inner"):
        return _at(encoding.inner, round)
    return _at(encoding.at(round), round) if hasattr(encoding, "at") else encoding
