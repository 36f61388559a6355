"""How many bytes a round's messages have: those of learners that learn nothing, encoded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from colonnade.learn.null import NullActive, NullPassive
from colonnade.methods.method import Method
from colonnade.planning.workload import Workload
from colonnade.policies.view import Exchange
from colonnade.record.sizes import Sizes
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Embedding, Message, Status

_LONGER = (128, 256, 65_536, 2**32)
"""Rounds from which on their number takes more bytes."""


class Frames(NamedTuple):
    """Bytes of a round's frames between the active party and a passive one."""

    up: float
    """The embedding."""
    down: float
    """The reply: a gradient or a snapshot."""
    status: float = 0
    """What goes before each of them, where the parties agree on a number of updates."""


class PartyFrames(NamedTuple):
    """Frames of a whole batch and of the last one of an epoch, on average over the job."""

    full: Frames
    last: Frames


class _Shape(NamedTuple):
    """All that frames depend on beside the encodings."""

    active: str
    widths: tuple[tuple[str, int], ...]
    batches: tuple[int, int, int]
    """Rows of a whole batch and of the last one of an epoch, and batches in an epoch."""
    rounds: int
    dtype: str
    top: tuple[tuple[int, ...], ...]


def frames(method: Method, workload: Workload) -> dict[str, PartyFrames]:
    """The frames of every passive party.

    >>> from colonnade.job import load
    >>> from colonnade.methods import build
    >>> widths = {"clinic": 16, "lab": 16, "insurer": 16}
    >>> work = Workload.of(load("digits"), rows=1000, widths=widths)
    >>> frames(build({"name": "fedsgd"}), work)["lab"].full
    Frames(up=4144.0, down=4144.0, status=0.0)
    """
    # What else a method has is the same for all frames, and would only keep the cache from finding
    # them.
    own = tuple(
        (name, Method(exchange=made.exchange, compress=made.compress, protect=made.protect))
        for name in (workload.active.name, *(each.name for each in workload.passives))
        for made in [workload.method_of(method, name)]
    )
    shape = _Shape(
        workload.active.name,
        tuple(workload.widths.items()),
        (workload.batch_size, workload.last_rows, workload.per_epoch),
        workload.rounds,
        workload.dtype,
        workload.top if method.exchange.sends_snapshots else (),
    )
    return _frames(shape, own, method.local.reports)


@lru_cache(maxsize=1024)
def _frames(
    shape: _Shape, own: tuple[tuple[str, Method], ...], reports: bool
) -> dict[str, PartyFrames]:
    maker = _Maker(shape, dict(own), reports)
    rows, last_rows, per_epoch = shape.batches
    changes = {mark for _, method in own for mark in _changes(method, shape.rounds)}
    totals = {name: (np.zeros(3), np.zeros(3)) for name in maker.passives}
    counts = [0, 0]
    for start, end in _spans(shape.rounds, changes):
        short = end // per_epoch - start // per_epoch
        for which, (size, count) in enumerate(((rows, end - start - short), (last_rows, short))):
            counts[which] += count
            for name, found in maker.at(start, size).items() if count else ():
                totals[name][which][:] += count * np.array(found)
    made = {}
    for name, sums in totals.items():
        full, last = (
            Frames(*(total / count).tolist()) if count else None
            for total, count in zip(sums, counts, strict=True)
        )
        known = full or last
        assert known is not None, "a job has a round"
        made[name] = PartyFrames(full or known, last or known)
    return made


class _Maker:
    """Makes a round's messages, and measures them."""

    def __init__(self, shape: _Shape, own: dict[str, Method], reports: bool) -> None:
        sizes = Sizes(
            widths=dict(shape.widths),
            rows={"train": shape.batches[0], "validation": 0, "test": 0},
            dtype=getattr(torch, shape.dtype),
            top=shape.top,
        )
        self.passives = {
            name: NullPassive(name, method, sizes)
            for name, method in own.items()
            if name != shape.active
        }
        self._active = NullActive(shape.active, own, sizes)
        self._codec = Codec()
        self._reports = reports

    def at(self, round: int, rows: int) -> dict[str, Frames]:
        """The frames of a round, by passive party."""
        exchange = Exchange(round, np.arange(rows))
        for learner in (self._active, *self.passives.values()):
            # Which columns matter is known once a reply was used.
            learner.applied = [0] if round else []
        exchange.packed = {name: each.pack(exchange) for name, each in self.passives.items()}
        exchange.answer = self._active.aggregate(exchange, None, True).answer
        status = self._bytes(Status(round, 1)) if self._reports else 0
        return {
            name: Frames(
                self._bytes(Embedding(round, packed)),
                self._bytes(self._active.reply(exchange, name, 0)),
                status,
            )
            for name, packed in exchange.packed.items()
        }

    def _bytes(self, message: Message) -> int:
        return len(self._codec.encode(message))


def _spans(rounds: int, changes: set[int]) -> Iterator[tuple[int, int]]:
    """The rounds of a job in pieces, in each of which all messages of a kind are equally long."""
    marks = {mark for mark in (1, *_LONGER, *changes) if 0 < mark < rounds}
    return pairwise([0, *sorted(marks), rounds])


def _changes(method: Method, rounds: int) -> list[int]:
    """The rounds in which an encoding of a method changes."""
    roles = method.compress
    return [
        mark for each in (roles.embedding, roles.gradient, roles.top) for mark in _of(each, rounds)
    ]


def _of(encoding: Any, rounds: int) -> list[int]:
    found = [start for start, _ in getattr(encoding, "parts", ())]
    if hasattr(encoding, "first"):
        # Bits are added as the rounds double.
        found += [1 << octave for octave in range(rounds.bit_length())]
    return found + (_of(encoding.inner, rounds) if hasattr(encoding, "inner") else [])
