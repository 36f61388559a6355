"""What the parties of an alignment do: the leading one asks, the others answer.

Either is a value with `take`, for a letter that has come, and `work`, which gives the next piece of
work, or None where only a letter helps. Neither knows how letters travel.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from colonnade.align.desk import Appended, Desk, Secrets, force
from colonnade.align.garbled import SLOT_BYTES, Words, garble, look_up
from colonnade.align.group import BYTES, Batch, InvalidPoint, batch
from colonnade.align.idset import IdSet
from colonnade.align.plan import CHUNK, WINDOW, Plan
from colonnade.align.sealing import Channel
from colonnade.align.work import (
    MARK,
    MASK,
    PREDICTION_TAG,
    TAG,
    blind_all,
    evaluate_all,
    outputs_all,
    own_outputs_all,
    words,
    zero_shares,
)
from colonnade.align.workers import Workers
from colonnade.errors import BreachError, DataError
from colonnade.wire.messages import (
    BlindedPoints,
    CommonTags,
    EvaluatedPoints,
    MaskTable,
    Sealed,
)

TAG_BYTES, COMMON_BYTES = 16, 16
TAGS_PIECE = 65_536
"""The most tags of a letter."""
_ATTEMPT_BYTES = 2
_COUNT = np.dtype("<u8")
Letters = list[Sealed]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Found:
    """What comes out of an alignment."""

    rows: Rows
    """The rows of the own table that all parties have, in the common order."""
    common: str
    """A name that all parties of the alignment know, and nobody else."""


@dataclass(frozen=True)
class Place:
    """All that a role works with."""

    me: str
    plan: Plan
    ids: IdSet
    secrets: Secrets
    channels: Mapping[str, Channel]
    desk: Desk
    workers: Workers


class Role(Protocol):
    """A party's part, from the checkpoint on from which it begins."""

    place: Place
    found: Found | None

    @property
    def done(self) -> int:
        """How many rounds are behind this party."""
        ...

    def take(self, letter: Sealed, content: bytes) -> None:
        """A letter has come and was opened; one that is not due is a breach."""
        ...

    def work(self) -> Callable[[], Letters] | None:
        """The next piece of work, which gives the letters to send; None while there is none."""
        ...

    def waits_for(self) -> str:
        """For whom this party waits, and for what."""
        ...


class Lead:
    """The party with the fewest ids: it has its points evaluated by all others, gets their tables,
    and finds out which of its ids are in all of them."""

    def __init__(self, place: Place, start: int) -> None:
        self.place, plan = place, place.plan
        self._done = self._sent = start
        self.found: Found | None = None
        self._points: dict[str, deque[bytes]] = {party: deque() for party in plan.followers}
        self._outputs: dict[str, Batch] = {}
        self._tables: dict[str, Appended] = {}
        for party in plan.followers:
            size = plan.sizes[place.me]
            self._outputs[party] = place.desk.rows(f"outputs-{party}.bin", size, 3 * TAG_BYTES)
            width = _ATTEMPT_BYTES + plan.shape(party).table_bytes
            self._tables[party] = place.desk.appended(f"tables-{party}.bin", width)
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
                raise _not_due(letter)
            _check_points(letter, content, plan.chunk(round))
            self._points[sender].append(content)
        elif isinstance(letter, MaskTable):
            tables = self._tables[sender]
            due = letter.round == len(tables) < plan.shape(sender).buckets
            if not due or len(content) != tables.width:
                raise _not_due(letter)
            tables.add(content)
        else:
            raise _not_due(letter)

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
        ids = place.ids.digests(start, stop)
        points = blind_all(place.workers, ids, place.secrets.blinds, start)
        self._sent += 1
        return [
            place.channels[party].seal(BlindedPoints, round, points)
            for party in place.plan.followers
        ]

    def _read_points(self) -> Letters:
        place = self.place
        start, stop = place.plan.chunk(self.done)
        ids = place.ids.digests(start, stop)
        for party, waiting in self._points.items():
            points = waiting.popleft()
            try:
                found = outputs_all(place.workers, ids, points, place.secrets.blinds, start)
            except InvalidPoint as fault:
                raise BreachError(party, f"{party} sent points that are none: {fault}") from None
            kept = (found[:, MASK], found[:, TAG], found[:, MARK])
            self._outputs[party][start:stop] = np.concatenate(kept, axis=1)
            force(self._outputs[party])
        self._done += 1
        return []

    def _intersect(self) -> Letters:
        """Where the tables of all followers add up to zero, the id is in all of them."""
        place, plan = self.place, self.place.plan
        total = np.zeros((len(place.ids), 2), dtype=np.uint64)
        for party in plan.followers:
            edges = place.ids.edges(plan.shape(party).buckets)
            for bucket, (start, stop) in enumerate(pairwise(edges.tolist())):
                known = np.array(self._outputs[party][start:stop])
                table, attempt = _read_table(self._tables[party][bucket])
                value = look_up(table, words(known[:, 32:48]), attempt)
                total[start:stop] ^= value ^ words(known[:, 0:16])
        places = np.flatnonzero(~total.any(axis=1))
        places = places[_shuffled(place.secrets.order, len(places))]
        common = hashlib.blake2b(place.secrets.order, digest_size=COMMON_BYTES, person=b"common")
        rows = place.ids.rows(0, len(place.ids))[places]
        self.found = Found(rows, common.hexdigest())
        letters: Letters = []
        for party in plan.followers:
            tags = np.array(self._outputs[party][places, 16:32]).tobytes()
            letters += _told(place.channels[party], common.digest(), tags)
        return letters


class Follower:
    """A party that evaluates the leading one's points with its key, and gives it tables in which
    its own ids are hidden."""

    def __init__(self, place: Place, start: int) -> None:
        self.place, plan = place, place.plan
        self._shape = plan.shape(place.me)
        self._edges = place.ids.edges(self._shape.buckets)
        self._evaluated = start
        self._tables_sent = plan.tables_due(place.me, start)
        self._points: deque[bytes] = deque()
        self._parts: list[Batch] = []
        """Of the bucket that is being worked on."""
        size, desk = len(place.ids), place.desk
        self._tags = desk.rows("tags.bin", size, TAG_BYTES)
        self._prediction_tags = desk.rows("prediction-tags.bin", size, TAG_BYTES)
        self._tables = desk.appended("tables.bin", _ATTEMPT_BYTES + self._shape.table_bytes)
        self._asked = desk.appended("asked.bin", hashlib.sha256().digest_size)
        self._seen = Seen()
        self.found: Found | None = None
        self._heard: list[bytes] = []

    @property
    def done(self) -> int:
        """The rounds whose points are evaluated, and whose tables are sent."""
        plan, me = self.place.plan, self.place.me
        done = self._evaluated
        while done and plan.tables_due(me, done) > self._tables_sent:
            done -= 1
        return done

    def take(self, letter: Sealed, content: bytes) -> None:
        plan = self.place.plan
        if letter.sender != plan.lead:
            raise _not_due(letter)
        if isinstance(letter, BlindedPoints):
            round = self._evaluated + len(self._points)
            if letter.round != round or round >= plan.rounds or len(self._points) >= WINDOW:
                raise _not_due(letter)
            _check_points(letter, content, plan.chunk(round))
            if not self._seen.add(batch(content)):
                raise BreachError(letter.sender, f"{letter.sender} sent the same point twice")
            self._check_asked(round, content)
            self._points.append(content)
        elif isinstance(letter, CommonTags):
            self._hear(letter, content)
        else:
            raise _not_due(letter)

    def _check_asked(self, round: int, content: bytes) -> None:
        """After a restart the same points come again. Others would be more evaluations than the
        leading party has ids, and each tells whether an id is here."""
        digest = hashlib.sha256(content).digest()
        if round == len(self._asked):
            self._asked.add(digest)
        elif self._asked[round] != digest:
            lead = self.place.plan.lead
            raise BreachError(
                lead, f"{lead} asks for other points in round {round + 1} than it did before"
            )

    def work(self) -> Callable[[], Letters] | None:
        if self._points:
            return self._evaluate
        plan, me = self.place.plan, self.place.me
        # One table ahead of what is due: there is something to do while points are under way.
        ahead = plan.tables_due(me, self._evaluated) + 1
        if self._tables_sent < self._shape.buckets and self._tables_sent <= ahead:
            return self._tabulate
        return None

    def waits_for(self) -> str:
        what = "the result" if self.done == self.place.plan.rounds else "the next points"
        return f"{self.place.plan.lead}: {what}"

    def _evaluate(self) -> Letters:
        place, round = self.place, self._evaluated
        lead = place.plan.lead
        try:
            answer = evaluate_all(place.workers, self._points.popleft(), place.secrets.key)
        except InvalidPoint as fault:
            raise BreachError(lead, f"{lead} sent points that are none: {fault}") from None
        self._evaluated += 1
        return [place.channels[lead].seal(EvaluatedPoints, round, answer)]

    def _tabulate(self) -> Letters:
        """A part of the next table, or the table when all parts of it are there."""
        place, bucket = self.place, self._tables_sent
        start, stop = self._edges[bucket : bucket + 2].tolist()
        if bucket >= len(self._tables):
            at = start + sum(len(part) for part in self._parts)
            if at < stop:
                ids = place.ids.digests(at, min(at + CHUNK, stop))
                self._parts.append(own_outputs_all(place.workers, ids, place.secrets.key))
                return []
            self._garble(bucket, start, stop)
        self._tables_sent += 1
        lead = place.plan.lead
        return [place.channels[lead].seal(MaskTable, bucket, self._tables[bucket])]

    def _garble(self, bucket: int, start: int, stop: int) -> None:
        place, shape = self.place, self._shape
        if stop - start > shape.capacity:
            raise DataError(
                f"the digests of {stop - start:,} ids of {place.me} are so alike that they do not "
                f"fit into a table for {shape.capacity:,}: somebody may have chosen the ids so"
            )
        found = np.concatenate([np.empty((0, 64), dtype=np.uint8), *self._parts])
        self._parts.clear()
        others = [party for party in place.plan.followers if party != place.me]
        shares = zero_shares(
            place.ids.digests(start, stop), [place.channels[party].seed for party in others]
        )
        values = words(found[:, MASK]) ^ shares
        secret = place.secrets.filling + bucket.to_bytes(8, "little")
        table, attempt = garble(words(found[:, MARK]), values, shape.third, secret)
        self._tags[start:stop] = found[:, TAG]
        self._prediction_tags[start:stop] = found[:, PREDICTION_TAG]
        for kept in (self._tags, self._prediction_tags):
            force(kept)
        self._tables.add(attempt.to_bytes(_ATTEMPT_BYTES, "little") + table.tobytes())

    def _hear(self, letter: Sealed, content: bytes) -> None:
        plan, sender = self.place.plan, letter.sender
        if self.done < plan.rounds or letter.round != len(self._heard) or self.found is not None:
            raise _not_due(letter)
        self._heard.append(content)
        head = self._heard[0]
        if len(head) < _COUNT.itemsize + COMMON_BYTES:
            raise _not_due(letter)
        count = int(np.frombuffer(head, dtype=_COUNT, count=1)[0])
        most = min(plan.sizes.values())
        tags = sum(map(len, self._heard)) - _COUNT.itemsize - COMMON_BYTES
        full = len(content) >= TAGS_PIECE * TAG_BYTES
        if count > most or tags > count * TAG_BYTES or (tags < count * TAG_BYTES and not full):
            raise BreachError(sender, f"{sender} announced {count:,} common ids, and sent others")
        if tags == count * TAG_BYTES:
            whole = b"".join(self._heard)
            self._heard.clear()
            self.found = self._match(whole)

    def _match(self, heard: bytes) -> Found:
        place = self.place
        common, tags = np.split(
            np.frombuffer(heard, dtype=np.uint8)[_COUNT.itemsize :], [COMMON_BYTES]
        )
        own, wanted = words(np.array(self._tags)), words(tags.reshape(-1, TAG_BYTES))
        order = np.lexsort((own[:, 1], own[:, 0]))
        at = np.searchsorted(own[order, 0], wanted[:, 0])
        places = order[np.minimum(at, len(order) - 1)] if len(order) else at
        lead = place.plan.lead
        if len(wanted) and (not len(order) or (own[places] != wanted).any()):
            raise BreachError(lead, f"{lead} named ids in the result that {place.me} does not have")
        if len(np.unique(places)) != len(places):
            raise BreachError(lead, f"{lead} named an id in the result twice")
        rows = place.ids.rows(0, len(place.ids))[places]
        return Found(rows, common.tobytes().hex())


class Seen:
    """Which points have come: none may come twice.

    >>> seen, points = Seen(), np.eye(16, 32, dtype=np.uint8)
    >>> seen.add(points), seen.add(points[:1])
    (True, False)
    """

    def __init__(self) -> None:
        self._sorted = np.empty((0, 2), dtype=np.uint64)
        self._recent: list[Words] = []

    def add(self, points: Batch) -> bool:
        """Whether none of these, which is a batch of its own, came before."""
        # Half of a point's bytes tell it from all others.
        news = words(points[:, :16])
        recent = np.concatenate([news, *self._recent])
        recent = recent[np.lexsort((recent[:, 1], recent[:, 0]))]
        if (recent[1:] == recent[:-1]).all(axis=1).any() or self._known(news):
            return False
        self._recent.append(news)
        if sum(map(len, self._recent)) > max(8 * CHUNK, len(self._sorted) // 4):
            whole = np.concatenate([self._sorted, *self._recent])
            self._sorted = whole[np.lexsort((whole[:, 1], whole[:, 0]))]
            self._recent.clear()
        return True

    def _known(self, news: Words) -> bool:
        if not len(self._sorted):
            return False
        at = np.searchsorted(self._sorted[:, 0], news[:, 0])
        same = self._sorted[np.minimum(at, len(self._sorted) - 1)] == news
        return bool(same.all(axis=1).any())


def _check_points(letter: Sealed, content: bytes, chunk: tuple[int, int]) -> None:
    due = chunk[1] - chunk[0]
    if len(content) != due * BYTES:
        raise BreachError(
            letter.sender,
            f"{letter.sender} sent {len(content) / BYTES:,g} points in round {letter.round + 1}, "
            f"and {due:,} are due",
        )


def _not_due(letter: Sealed) -> BreachError:
    what = f"a {type(letter).__name__} numbered {letter.round}"
    return BreachError(letter.sender, f"{letter.sender} sent {what}, which is not due")


def _read_table(piece: bytes) -> tuple[Words, int]:
    table = np.frombuffer(piece, dtype=np.uint64, offset=_ATTEMPT_BYTES)
    return table.reshape(-1, SLOT_BYTES // 8), int.from_bytes(piece[:_ATTEMPT_BYTES], "little")


def _shuffled(secret: bytes, count: int) -> npt.NDArray[np.int64]:
    """An order of so many things that nobody can guess without the secret."""
    drawn = hashlib.shake_256(b"order" + secret).digest(count * 16)
    keys = np.frombuffer(drawn, dtype=np.uint64).reshape(-1, 2)
    return np.lexsort((keys[:, 1], keys[:, 0]))


def _told(channel: Channel, common: bytes, tags: bytes) -> Letters:
    """The letters with the result: how many common ids there are, the common name, the tags."""
    count = len(tags) // TAG_BYTES
    head = np.array([count], dtype=_COUNT).tobytes() + common
    step = TAGS_PIECE * TAG_BYTES
    pieces = [tags[at : at + step] for at in range(0, len(tags), step)] or [b""]
    pieces[0] = head + pieces[0]
    return [channel.seal(CommonTags, number, piece) for number, piece in enumerate(pieces)]
