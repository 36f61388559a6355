"""The leading party of an alignment: it asks, and finds out."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from colonnade.align.desk import TABLES, Appended, RowFile
from colonnade.align.garbled import BUCKET, SLOT_BYTES, Words, look_up
from colonnade.align.group import Batch, InvalidPoint
from colonnade.align.idset import IdSet
from colonnade.align.plan import WINDOW
from colonnade.align.roles import (
    ATTEMPT_BYTES,
    COMMON_BYTES,
    COUNT,
    TAG_BYTES,
    TAGS_PIECE,
    Found,
    Letters,
    Place,
    Seen,
    check_points,
    not_due,
)
from colonnade.align.sealing import Channel
from colonnade.align.work import (
    MARK,
    MASK,
    TAG,
    blind_all,
    outputs_all,
    relabelled,
)
from colonnade.errors import BreachError
from colonnade.wire.messages import (
    BlindedPoints,
    CommonTags,
    EvaluatedPoints,
    MaskTable,
    Sealed,
)

Places = npt.NDArray[np.int64]


class Lead:
    """The party with the fewest ids: it has its points evaluated by all others, gets their tables,
    and finds out which of its ids are in all of them."""

    def __init__(self, place: Place, start: int) -> None:
        self.place, plan = place, place.plan
        self._done = self._sent = start
        self.found: Found | None = None
        self._points: dict[str, deque[bytes]] = {party: deque() for party in plan.followers}
        self._seen = {party: Seen() for party in plan.followers}
        self._outputs: dict[str, list[RowFile]] = {}
        self._tables: dict[str, Appended] = {}
        for party in plan.followers:
            self._outputs[party] = place.rows(f"outputs-{party}", 3 * TAG_BYTES)
            width = ATTEMPT_BYTES + plan.shape(party).table_bytes
            self._tables[party] = place.desk.appended(f"{TABLES}-{party}", place.step, width)
            self._tables[party].cut(plan.tables_due(party, start))

    @property
    def done(self) -> int:
        """The rounds whose points have come back from all, and whose tables are here."""
        return self._done

    def take(self, letter: Sealed, content: bytes) -> None:
        plan, sender = self.place.plan, letter.sender
        if isinstance(letter, EvaluatedPoints):
            round = self.done + len(self._points[sender])
            if letter.round != round or round >= self._sent:
                raise not_due(letter)
            check_points(letter, content, plan.chunk(round), self._seen[sender])
            self._points[sender].append(content)
        elif isinstance(letter, MaskTable):
            tables = self._tables[sender]
            due = letter.round == len(tables) < plan.shape(sender).buckets
            if not due or len(content) != tables.width:
                raise not_due(letter)
            tables.add(content)
        else:
            raise not_due(letter)

    def work(self) -> Callable[[], Letters] | None:
        plan = self.place.plan
        if self.found is not None:
            return None
        if self.done == plan.rounds:
            return self._intersect
        if all(self._points.values()) and not self._missing_tables():
            return self._read_points
        if self._sent < plan.rounds and self._sent - self.done < WINDOW:
            return self._ask
        return None

    def waits_for(self) -> str:
        silent = [party for party, points in self._points.items() if not points]
        return f"{', '.join(silent or self._missing_tables())}: the next points and tables"

    def _missing_tables(self) -> list[str]:
        plan = self.place.plan
        return [
            party
            for party, tables in self._tables.items()
            if len(tables) < plan.tables_due(party, self.done + 1)
        ]

    def _ask(self) -> Letters:
        place, round = self.place, self._sent
        start, stop = place.plan.chunk(round)
        ids = place.news.digests(start, stop)
        points = blind_all(place.workers, ids, place.secrets.blinds, start)
        self._sent += 1
        return [
            place.channels[party].seal(BlindedPoints, round, points)
            for party in place.plan.followers
        ]

    def _read_points(self) -> Letters:
        place = self.place
        start, stop = place.plan.chunk(self.done)
        ids = place.news.digests(start, stop)
        for party, waiting in self._points.items():
            points = waiting.popleft()
            try:
                found = outputs_all(place.workers, ids, points, place.secrets.blinds, start)
            except InvalidPoint as fault:
                raise BreachError(party, f"{party} sent points that are none: {fault}") from None
            kept = (found[:, MASK], found[:, TAG], found[:, MARK])
            self._outputs[party][-1].write(start, np.concatenate(kept, axis=1))
        self._done += 1
        return []

    def _intersect(self) -> Letters:
        """Of the ids that all have, those are told that not all had before."""
        place = self.place
        found = [self._common(step, ids) for step, ids in enumerate(place.generations)]
        news = np.concatenate(
            [_digests(ids, at) for ids, at in zip(place.generations, found, strict=True)]
        )
        is_new = ~place.had(news)
        order = np.flatnonzero(is_new)[_shuffled(place.secrets.order, int(is_new.sum()))]
        common = hashlib.blake2b(place.secrets.order, digest_size=COMMON_BYTES, person=b"common")
        self.found = place.found(news[order], common.digest())
        letters: Letters = []
        for party in place.plan.followers:
            tags = [
                _tags(file, len(ids), at)
                for file, ids, at in zip(
                    self._outputs[party], place.generations, found, strict=True
                )
            ]
            told = np.concatenate(tags)[order].tobytes()
            letters += _told(place.channels[party], common.digest(), told)
        return letters

    def _common(self, step: int, ids: IdSet) -> Places:
        """Where the tables of all followers add up to zero, the id is in all of them."""
        place, plan = self.place, self.place.plan
        total = np.zeros((len(ids), 2), dtype=np.uint64)
        for party in plan.followers:
            edges = ids.edges(plan.shape(party).buckets)
            for bucket, (start, stop) in enumerate(pairwise(edges.tolist())):
                known = self._outputs[party][step].read(start, stop)
                masks, marks = relabelled(known[:, :16], known[:, 32:48], place.secrets.label)
                table, attempt = read_table(self._tables[party][bucket])
                total[start:stop] ^= look_up(table, marks, attempt) ^ masks
        return np.flatnonzero(~total.any(axis=1))


def _digests(ids: IdSet, places: Places) -> Words:
    """Of the ids at these places, which ascend."""
    pieces = [np.empty((0, 2), dtype=np.uint64)]
    for start, stop, own in _pieces(len(ids), places):
        pieces.append(ids.words(start, stop)[own])
    return np.concatenate(pieces)


def _tags(outputs: RowFile, count: int, places: Places) -> Batch:
    """A follower's names for the ids at these places, which ascend."""
    pieces = [np.empty((0, TAG_BYTES), dtype=np.uint8)]
    for start, stop, own in _pieces(count, places):
        pieces.append(outputs.read(start, stop)[own, TAG_BYTES : 2 * TAG_BYTES])
    return np.concatenate(pieces)


def _pieces(count: int, places: Places) -> Iterator[tuple[int, int, Places]]:
    """From where to where to read, and which of these rows are wanted."""
    for start in range(0, count, BUCKET):
        stop = min(start + BUCKET, count)
        own = places[np.searchsorted(places, start) : np.searchsorted(places, stop)]
        yield start, stop, own - start


def read_table(piece: bytes) -> tuple[Words, int]:
    """A table as it was sent, and the attempt with which it was filled."""
    table = np.frombuffer(piece, dtype=np.uint64, offset=ATTEMPT_BYTES)
    return table.reshape(-1, SLOT_BYTES // 8), int.from_bytes(piece[:ATTEMPT_BYTES], "little")


def _shuffled(secret: bytes, count: int) -> npt.NDArray[np.int64]:
    """An order of so many things that nobody can guess without the secret."""
    drawn = hashlib.shake_256(b"order" + secret).digest(count * 16)
    keys = np.frombuffer(drawn, dtype=np.uint64).reshape(-1, 2)
    return np.lexsort((keys[:, 1], keys[:, 0]))


def _told(channel: Channel, common: bytes, tags: bytes) -> Letters:
    """The letters with the result: how many common ids there are, the common name, the tags."""
    count = len(tags) // TAG_BYTES
    head = np.array([count], dtype=COUNT).tobytes() + common
    step = TAGS_PIECE * TAG_BYTES
    pieces = [tags[at : at + step] for at in range(0, len(tags), step)] or [b""]
    pieces[0] = head + pieces[0]
    return [channel.seal(CommonTags, number, piece) for number, piece in enumerate(pieces)]
