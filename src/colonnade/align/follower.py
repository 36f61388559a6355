"""The other parties of an alignment: they answer."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

import numpy as np

from colonnade.align.desk import ASKED, TABLES
from colonnade.align.garbled import garble
from colonnade.align.group import BYTES, Batch, InvalidPoint
from colonnade.align.oprf import OUTPUT_BYTES
from colonnade.align.plan import CHUNK, WINDOW
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
from colonnade.align.work import (
    MARK,
    MASK,
    TAG,
    evaluate_all,
    labelled,
    own_outputs_all,
    relabelled,
    words,
    zero_shares,
)
from colonnade.errors import BreachError, DataError
from colonnade.wire.messages import (
    BlindedPoints,
    CommonTags,
    EvaluatedPoints,
    MaskTable,
    Sealed,
)

_NONE = np.empty((0, OUTPUT_BYTES), dtype=np.uint8)


class Follower:
    """A party that evaluates the leading one's points with its key, and gives it tables in which
    its own ids are hidden."""

    def __init__(self, place: Place, start: int) -> None:
        self.place, plan = place, place.plan
        self._shape = plan.shape(place.me)
        self._edges = [ids.edges(self._shape.buckets) for ids in place.generations]
        self._evaluated = start
        self._tables_sent = plan.tables_due(place.me, start)
        self._points: deque[bytes] = deque()
        self._parts: list[Batch] = []
        """Of the bucket that is being worked on."""
        desk, step = place.desk, place.step
        self._own = place.rows("own", OUTPUT_BYTES)
        self._tables = desk.appended(TABLES, step, ATTEMPT_BYTES + self._shape.table_bytes)
        self._asked = desk.appended(ASKED, step, hashlib.sha256().digest_size)
        left = plan.points - plan.chunk(len(self._asked))[0]
        place.evaluations.check(left, plan.lead)
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
            raise not_due(letter)
        if isinstance(letter, BlindedPoints):
            round = self._evaluated + len(self._points)
            if letter.round != round or round >= plan.rounds or len(self._points) >= WINDOW:
                raise not_due(letter)
            check_points(letter, content, plan.chunk(round), self._seen)
            self._check_asked(round, content)
            self._points.append(content)
        elif isinstance(letter, CommonTags):
            self._hear(letter, content)
        else:
            raise not_due(letter)

    def _check_asked(self, round: int, content: bytes) -> None:
        """After a restart the same points come again. Others would be more evaluations than the
        leading party has ids, and each tells whether an id is here."""
        digest, lead = hashlib.sha256(content).digest(), self.place.plan.lead
        if round == len(self._asked):
            self.place.evaluations.spend(len(content) // BYTES, lead)
            self._asked.add(digest)
        elif self._asked[round] != digest:
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
        start, stop = self._edges[-1][bucket : bucket + 2].tolist()
        if bucket >= len(self._tables):
            at = start + sum(len(part) for part in self._parts)
            if at < stop:
                ids = place.news.digests(at, min(at + CHUNK, stop))
                self._parts.append(own_outputs_all(place.workers, ids, place.secrets.key))
                return []
            self._own[-1].write(start, np.concatenate([_NONE, *self._parts]))
            self._parts.clear()
            self._garble(bucket)
        self._tables_sent += 1
        lead = place.plan.lead
        return [place.channels[lead].seal(MaskTable, bucket, self._tables[bucket])]

    def _garble(self, bucket: int) -> None:
        """The table has the ids of all steps, under the masks and with the shares of this one."""
        place, shape, label = self.place, self._shape, self.place.secrets.label
        ids, outputs = self._bucket(bucket)
        if len(ids) > shape.capacity:
            raise DataError(
                f"the digests of {len(ids):,} ids of {place.me} are so alike that they do not "
                f"fit into a table for {shape.capacity:,}: somebody may have chosen the ids so"
            )
        others = [party for party in place.plan.followers if party != place.me]
        seeds = [labelled(place.channels[party].seed, label) for party in others]
        masks, marks = relabelled(outputs[:, MASK], outputs[:, MARK], label)
        secret = place.secrets.filling + bucket.to_bytes(8, "little")
        table, attempt = garble(marks, masks ^ zero_shares(ids, seeds), shape.third, secret)
        self._tables.add(attempt.to_bytes(ATTEMPT_BYTES, "little") + table.tobytes())

    def _bucket(self, bucket: int) -> tuple[list[bytes], Batch]:
        """The ids of a bucket, with their outputs."""
        ids: list[bytes] = []
        outputs = [_NONE]
        for own, file, edges in zip(self.place.generations, self._own, self._edges, strict=True):
            start, stop = edges[bucket : bucket + 2].tolist()
            ids += own.digests(start, stop)
            outputs.append(file.read(start, stop))
        return ids, np.concatenate(outputs)

    def _hear(self, letter: Sealed, content: bytes) -> None:
        plan, sender = self.place.plan, letter.sender
        if self.done < plan.rounds or letter.round != len(self._heard) or self.found is not None:
            raise not_due(letter)
        self._heard.append(content)
        head = self._heard[0]
        if len(head) < COUNT.itemsize + COMMON_BYTES:
            raise not_due(letter)
        count = int(np.frombuffer(head, dtype=COUNT, count=1)[0])
        most = min(plan.sizes.values()) - len(self.place.desk.common(self.place.step - 1))
        tags = sum(map(len, self._heard)) - COUNT.itemsize - COMMON_BYTES
        full = len(content) >= TAGS_PIECE * TAG_BYTES
        if count > most or tags > count * TAG_BYTES or (tags < count * TAG_BYTES and not full):
            raise BreachError(sender, f"{sender} announced {count:,} common ids, and sent others")
        if tags == count * TAG_BYTES:
            whole = b"".join(self._heard)
            self._heard.clear()
            self.found = self._match(whole)

    def _match(self, heard: bytes) -> Found:
        place, lead = self.place, self.place.plan.lead
        common, tags = np.split(
            np.frombuffer(heard, dtype=np.uint8)[COUNT.itemsize :], [COMMON_BYTES]
        )
        own = np.concatenate([words(file.part(TAG)) for file in self._own])
        wanted = words(tags.reshape(-1, TAG_BYTES))
        order = np.argsort(own[:, 0])
        at = np.searchsorted(own[:, 0], wanted[:, 0], sorter=order)
        places = order[np.minimum(at, len(order) - 1)] if len(order) else at
        if len(wanted) and (not len(order) or (own[places] != wanted).any()):
            raise BreachError(lead, f"{lead} named ids in the result that {place.me} does not have")
        ids = [own.words(0, len(own)) for own in place.generations]
        named = np.concatenate(ids)[places]
        if len(np.unique(places)) != len(places) or place.had(named).any():
            raise BreachError(lead, f"{lead} named an id in the result twice")
        return place.found(named, common.tobytes())
