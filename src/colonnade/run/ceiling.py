"""The most that can leave a passive party in one run of a job, message by message.

It follows from the terms alone: how many rounds there are, which rounds are evaluated, on which
rows, and how tensors are written. The party's program enforces every part of it, so that it holds
whatever the active party asks for; and a run in lock-step that nothing ends early sends exactly
this. Counted are the messages that carry something of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from colonnade.compress import Encoding, plain
from colonnade.learn.agreement import own_method
from colonnade.learn.outbound import Outbound, Purpose
from colonnade.learn.participant import DTYPES, Participant
from colonnade.learn.schedule import EVALUATION_ROWS
from colonnade.learn.template import Template
from colonnade.party.probes import CALIBRATIONS_MAX, LONG, READY, SHORT, long_bytes, zeros
from colonnade.policies.view import Exchange
from colonnade.protect.secret import KEY_BYTES, Secret
from colonnade.wire.codec import Codec
from colonnade.wire.messages import (
    TIME_NS_MAX,
    UPDATES_MAX,
    Echo,
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
    >>> from colonnade.run.setup import participant
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
        self.agreement = me.agreement()
        self.rounds = self.agreement.view(me.me).rounds
        self.codec = Codec(me.job.limits.message_bytes)

    def all(self) -> Most:
        found: Most = {}
        if self.method.calibrates:
            found["Echo"] = self._echoes()
        if self.method.quorum.uploads:
            found["Upload"] = self._uploads()
        if self.method.local.reports:
            sizes = (
                (end - start) * self._bytes(Status(start, UPDATES_MAX))
                for start, end in _spans(self.rounds)
            )
            found["Status"] = (self.rounds, sum(sizes))
        found["Embedding"] = self._embeddings()
        if len(self.agreement.schedule):
            found["EvaluationEmbedding"] = self._evaluations()
        return found

    def _bytes(self, message: Any) -> int:
        return len(self.codec.encode(message))

    def _tensor(
        self, purpose: Purpose, encoding: Encoding, rows: int, round: int, known: bool
    ) -> Packed:
        out = Outbound(0, self.me.me, Secret(bytes(KEY_BYTES))).stage(purpose, encoding)
        dtype = DTYPES[self.me.job.train.dtype]
        template = Template(out, self.me.width, dtype, self.method.protect)
        if known:
            return template.piece(rows, round)
        return template.packed(Exchange(round, np.arange(rows)))

    def _embeddings(self) -> tuple[int, int]:
        """Of every round; all that are as long as one another are counted together."""
        plan, encoding = self.agreement.plan, self.method.compress.embedding
        last = plan.rows - (plan.per_epoch - 1) * plan.batch_size
        # Which columns matter is known once a reply was used.
        unknown = self.method.window.most
        total = 0
        for start, end in _spans(self.rounds, [unknown, *_changes(encoding)]):
            short = end // plan.per_epoch - start // plan.per_epoch
            counts = (plan.batch_size, end - start - short), (min(last, plan.batch_size), short)
            for rows, count in counts:
                if count:
                    tensor = self._tensor("embedding", encoding, rows, start, start >= unknown)
                    total += count * self._bytes(Embedding(start, tensor))
        return self.rounds, total

    def _evaluations(self) -> tuple[int, int]:
        train, schedule = self.me.job.train, self.agreement.schedule
        encoding = plain() if train.evaluate_plain else self.method.compress.embedding
        asked = [
            (start, schedule.before(end) - schedule.before(start), schedule.splits)
            for start, end in _spans(schedule.rounds, _changes(encoding))
        ]
        if schedule.tests:
            asked.append((schedule.rounds, 1, ("test",)))
        messages = total = 0
        for round, count, splits in asked:
            for answer in self._answer(encoding, round, splits) if count else ():
                messages += count
                total += count * self._bytes(answer)
        return messages, total

    def _answer(
        self, encoding: Encoding, round: int, splits: tuple[Any, ...]
    ) -> Iterator[EvaluationEmbedding]:
        pieces: dict[int, Packed] = {}
        for split in splits:
            count = self.agreement.schedule.rows[split]
            for start in range(0, count, EVALUATION_ROWS):
                rows = min(EVALUATION_ROWS, count - start)
                if rows not in pieces:
                    pieces[rows] = self._tensor("evaluation", encoding, rows, round, known=True)
                yield EvaluationEmbedding(round, split, start, pieces[rows])

    def _echoes(self) -> tuple[int, int]:
        """They say how fast the party is, and else nothing but zeros."""
        size = long_bytes(self.agreement, self.me.me)
        times = TIME_NS_MAX, TIME_NS_MAX, TIME_NS_MAX
        short, long = (
            len(numbers) * self._bytes(Echo(numbers[-1], *times, zeros(count)))
            for numbers, count in (((READY, *SHORT), 0), (LONG, size))
        )
        return CALIBRATIONS_MAX * (LONG[-1] + 1), CALIBRATIONS_MAX * (short + long)

    def _uploads(self) -> tuple[int, int]:
        plan, sizes = self.agreement.plan, []
        for start in range(0, plan.rows, plan.batch_size):
            rows = min(plan.batch_size, plan.rows - start)
            tensor = self._tensor("upload", plain(), rows, 0, known=False)
            sizes.append(self._bytes(Upload(start, tensor)))
        return len(sizes), sum(sizes)


def _spans(rounds: int, changes: Iterable[int] = ()) -> Iterator[tuple[int, int]]:
    """The rounds of a job in pieces, of each of which all messages of a kind are as long as one
    another: what is written changes at `changes`, and numbers get longer, and bits more, at powers
    of two. A job may have so many rounds that nobody could count them one by one.

    >>> list(_spans(11, [3]))
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 8), (8, 11)]
    """
    powers = (1 << octave for octave in range(rounds.bit_length()))
    marks = {mark for mark in (*powers, *changes) if 0 < mark < rounds}
    return pairwise([0, *sorted(marks), rounds])


def _changes(encoding: Any) -> list[int]:
    """The rounds in which an encoding changes, other than powers of two."""
    if hasattr(encoding, "inner"):
        return _changes(encoding.inner)
    return [start for start, _ in getattr(encoding, "parts", ())]
