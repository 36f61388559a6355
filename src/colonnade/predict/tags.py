"""How a row is asked for whose id the other party may not have: by a tag.

A passive party has a key for predictions, and knows each of its rows by a tag, which follows from
the id and the key (OPRF of RFC 9497, as in an alignment). The active party gets the tag of an id by
sending it as a blinded point: the passive party sees neither the id nor the tag, and only when it
is asked for the row it learns which of its rows that is. Of an id that it does not have it learns
nothing, and the active party learns that it does not have it.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from colonnade.align.desk import Randomness
from colonnade.align.idset import digests_of
from colonnade.align.work import (
    PREDICTION_TAG,
    blind_all,
    evaluate_all,
    outputs_all,
    own_outputs_all,
)
from colonnade.align.workers import Workers
from colonnade.job.ids import Ids
from colonnade.predict.lookup import NAME_BYTES as TAG_BYTES
from colonnade.predict.lookup import Lookup
from colonnade.predict.rows import Rows
from colonnade.record.private import write_whole

POINT_BYTES = 32
KEY, TAGS = "key", "tags"
_PIECE = 65_536
_KEPT_MAX = 1_000_000
"""The most tags that the active party remembers of one party."""


class TagIndex:
    """A passive party's rows by their tags."""

    def __init__(
        self, ids: pa.Array, rule: Ids, folder: Path, workers: Workers, randomness: Randomness
    ) -> None:
        """Key and tags stay in the folder: to compute them takes a while."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._workers = workers
        self._key = _kept_key(folder / KEY, randomness)
        self.mark = hashlib.sha256(b"mark of " + self._key).hexdigest()
        """By which others know whether the key is still the same."""
        self._ids, self._rule, self._path = ids, rule, folder / TAGS

    @cached_property
    def lookup(self) -> Lookup:
        """All rows by their tags. To compute these takes a while, the first time; where rows are
        asked for by their places only, nobody needs them."""
        return Lookup(self._all_tags(self._ids, self._rule, self._path))

    @property
    def is_built(self) -> bool:
        """Whether the tags are there."""
        return "lookup" in vars(self)

    def _all_tags(self, ids: pa.Array, rule: Ids, path: Path) -> bytes:
        digests = digests_of(ids.to_pylist(), rule)
        mark = hashlib.sha256(self._key + b"".join(digests)).digest()
        if path.is_file() and path.stat().st_size == len(mark) + TAG_BYTES * len(digests):
            kept = path.read_bytes()
            if kept[: len(mark)] == mark:
                return kept[len(mark) :]
        pieces = [
            own_outputs_all(self._workers, digests[at : at + _PIECE], self._key)[:, PREDICTION_TAG]
            for at in range(0, len(digests), _PIECE)
        ]
        tags = b"".join(np.ascontiguousarray(piece).tobytes() for piece in pieces)
        write_whole(path, [mark, tags])
        return tags

    def evaluate(self, points: bytes) -> bytes:
        """The points of somebody's ids, multiplied by the key."""
        return evaluate_all(self._workers, points, self._key)

    def rows(self, tags: bytes) -> Rows:
        """The rows that have these tags, `LACKING` where none has."""
        return self.lookup.rows(tags)


def _kept_key(path: Path, randomness: Randomness) -> bytes:
    if not path.is_file():
        write_whole(path, [randomness(32)])
    return path.read_bytes()


class TagBook:
    """What the active party knows of one passive party's tags."""

    def __init__(self, workers: Workers, randomness: Randomness) -> None:
        self._workers = workers
        self._secret = randomness(32)
        self._asked = 0
        self._mark = ""
        self._known: dict[bytes, bytes] = {}
        self._open: dict[int, tuple[int, list[bytes]]] = {}
        """By question: the number of its first blind, and the digests of its ids."""

    def unknown(self, digests: list[bytes]) -> list[bytes]:
        """Those whose tags have to be asked for."""
        return [digest for digest in digests if digest not in self._known]

    def ask(self, number: int, digests: list[bytes]) -> bytes:
        """The blinded points of ids; each has a blind that is never used again."""
        first, self._asked = self._asked, self._asked + len(digests)
        self._open[number] = first, digests
        return blind_all(self._workers, digests, self._secret, first)

    def expected(self, number: int) -> int | None:
        """How many points an answer to a question has; None where nothing was asked."""
        return None if number not in self._open else len(self._open[number][1])

    def learn(self, number: int, points: bytes) -> None:
        """The points have come back."""
        first, digests = self._open.pop(number)
        found = outputs_all(self._workers, digests, points, self._secret, first)
        tags = np.ascontiguousarray(found[:, PREDICTION_TAG]).tobytes()
        if len(self._known) + len(digests) > _KEPT_MAX:
            self._known.clear()
        for place, digest in enumerate(digests):
            self._known[digest] = tags[place * TAG_BYTES : (place + 1) * TAG_BYTES]

    def forget(self, number: int) -> None:
        """Nobody waits for the answer to a question any more."""
        self._open.pop(number, None)

    def begin(self, mark: str) -> None:
        """The parties begin, or begin again: no question is open, and tags are those of a key that
        has this mark."""
        self._open.clear()
        if mark != self._mark:
            self._known.clear()
        self._mark = mark

    def tags(self, digests: list[bytes]) -> bytes:
        """Of ids whose tags are known."""
        return b"".join(self._known[digest] for digest in digests)
