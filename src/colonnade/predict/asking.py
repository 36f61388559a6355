"""The active party's part of a prediction: it asks everybody about rows, and scores them.

Several requests are on their way at once, so that the line is used while a party computes. A
request whose time is up is given back with the names of those who did not answer; their answers
may still come, and are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.align.group import InvalidPoint
from colonnade.errors import BreachError
from colonnade.job.terms import shown
from colonnade.learn.inbound import received
from colonnade.learn.participant import DTYPES
from colonnade.learn.saved import Head
from colonnade.party.world import Work, World
from colonnade.predict.part import OwnPart
from colonnade.predict.request import Request, Scored, Source
from colonnade.predict.rows import LACKING
from colonnade.predict.tags import POINT_BYTES, TagBook
from colonnade.record.events import Recorded, RowsScored
from colonnade.units import NS_PER
from colonnade.wire.messages import (
    Answer,
    BlindedIds,
    Buffer,
    Declined,
    EvaluatedIds,
    Failure,
    Finish,
    Message,
    Query,
)

WINDOW = 4
"""How many requests may be on their way."""
DROPPED_MAX = 1024
"""How many dropped questions are remembered one by one; of older ones, answers are dropped too."""
_REASON_CHARS_MAX = 300


@dataclass(eq=False)
class Open:
    """A request on its way."""

    request: Request
    by_tag: dict[str, list[bytes]] = field(default_factory=dict)
    """By party, the digests of the ids that it is asked for by tag."""
    own: torch.Tensor | None = None
    embeddings: dict[str, torch.Tensor] = field(default_factory=dict)
    lacking: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    declined: dict[str, str] = field(default_factory=dict)

    def waits_for(self, peers: tuple[str, ...]) -> list[str]:
        """The parties that have not answered yet."""
        return [peer for peer in peers if peer not in self.embeddings | self.declined]


class Asking:
    """From the parties' handshake to the last request."""

    def __init__(
        self,
        world: World,
        part: OwnPart,
        heads: Mapping[str, Head],
        source: Source,
        books: Mapping[str, TagBook],
        by_place: frozenset[str],
        window: int = WINDOW,
        done: int = 0,
    ) -> None:
        """`by_place` are the parties that know rows by their places in the training; `done` is how
        many rows were scored before the parties began again."""
        self._world, self._part, self._heads = world, part, heads
        self._source, self._books, self._by_place = source, books, by_place
        self._window = window
        self._number, self.done = 0, done
        self._open: dict[int, Open] = {}
        self._dropped: dict[int, set[str]] = {}
        """Questions that nobody waits for any more, and who may still answer them."""
        self._forgotten = 0
        """Those with a lower number are not remembered."""
        self._again: deque[Request] = deque()
        self._noted: set[str] = set()
        """Who has declined a question."""

    @property
    def unfinished(self) -> list[Request]:
        """The requests that are not delivered yet."""
        return [*(each.request for each in self._open.values()), *self._again]

    async def run(self, again: list[Request]) -> None:
        """Score until the source is over; `again` are requests of an attempt before."""
        world = self._world
        self._again.extend(again)
        while self._again:
            await self._begin(self._again.popleft())
        self._expire()
        while True:
            while len(self._open) < self._window and (new := self._source.take()) is not None:
                await self._begin(new)
            if not self._open and self._source.over:
                break
            came = await world.receive(self._next_deadline(), self.waiting_for)
            if came is not None:
                await self._take(*came)
            self._expire()
        for peer in world.peers:
            await world.send(peer, Finish(self._number, -1, "end"))

    def waiting_for(self) -> str:
        """For whom the party waits, and for what."""
        if not self._open:
            return "the next request"
        oldest = next(iter(self._open.values()))
        missing = oldest.waits_for(self._world.peers)
        return f"{', '.join(missing)}: embeddings of {len(oldest.request)} rows"

    def missing(self) -> tuple[str, ...]:
        """The parties that owe an answer to the oldest request."""
        for each in self._open.values():
            return tuple(each.waits_for(self._world.peers))
        return ()

    def _next_deadline(self) -> int | None:
        return min(
            (each.request.deadline_ns for each in self._open.values() if each.request.deadline_ns),
            default=None,
        )

    def _expire(self) -> None:
        now = self._world.now()
        for number, each in list(self._open.items()):
            deadline = each.request.deadline_ns
            if deadline is not None and now >= deadline:
                late = each.waits_for(self._world.peers)
                del self._open[number]
                self._forget(number, late)
                self._deliver(each, late=tuple(late))

    def _forget(self, number: int, late: list[str]) -> None:
        """Nobody waits for the answers any more that these parties owe."""
        if not late:
            return
        self._dropped[number] = set(late)
        for peer in late:
            self._books[peer].forget(number)
        if len(self._dropped) > DROPPED_MAX:
            self._forgotten = next(iter(self._dropped)) + 1
            del self._dropped[self._forgotten - 1]

    async def _begin(self, request: Request) -> None:
        number, world = self._number, self._world
        self._number += 1
        opened = self._open[number] = Open(request)
        for peer in world.peers:
            tagged = request.places == LACKING
            if peer not in self._by_place:
                tagged = np.ones_like(tagged)
            digests = [request.digests[row] for row in np.flatnonzero(tagged)]
            opened.by_tag[peer] = digests
            await self._query_once_known(number, opened, peer)
        if self._part.width(request.model):
            embed = partial(
                self._part.embed, request.model, request.own, request.mean, request.features
            )
            opened.own, lacking = await world.compute(embed, Work.SCORE)
            opened.lacking[world.me] = lacking
        await self._score_if_ready(number)

    async def _query_once_known(self, number: int, opened: Open, peer: str) -> None:
        """Ask for the tags that are not known; for the rows where all are."""
        book = self._books[peer]
        if unknown := book.unknown(opened.by_tag[peer]):
            ask = partial(book.ask, number, unknown)
            points = await self._world.compute(ask, Work.ALIGN)
            await self._world.send(peer, BlindedIds(number, Buffer(memoryview(points))))
        else:
            await self._query(number, opened, peer)

    async def _query(self, number: int, opened: Open, peer: str) -> None:
        request = opened.request
        places = request.places if peer in self._by_place else np.full(len(request), LACKING)
        tags = self._books[peer].tags(opened.by_tag[peer])
        within = 0
        if request.deadline_ns is not None:
            within = max(1, (request.deadline_ns - self._world.now()) // NS_PER["ms"])
        packed = places.astype("<i8").tobytes()
        query = Query(
            number,
            request.model,
            Buffer(memoryview(packed)),
            Buffer(memoryview(tags)),
            request.mean,
            within,
        )
        await self._world.send(peer, query)

    async def _take(self, sender: str, message: Message) -> None:
        if isinstance(message, Failure):
            raise BreachError(sender, f"{sender} failed: {shown(message.reason, 300)}")
        if not isinstance(message, EvaluatedIds | Answer | Declined):
            kind = type(message).__name__
            raise BreachError(sender, f"{sender} sent a message that is not due, of kind {kind}")
        number = message.number
        if number in self._dropped and sender in self._dropped[number]:
            # After the points of a question that was dropped no embeddings follow.
            self._dropped[number].discard(sender)
            if not self._dropped[number]:
                del self._dropped[number]
            return
        opened = self._open.get(number)
        if opened is None and 0 <= number < self._forgotten:
            return
        if opened is None or sender not in opened.waits_for(self._world.peers):
            raise BreachError(sender, f"{sender} answered a question that nobody asked")
        if isinstance(message, EvaluatedIds):
            await self._learn_tags(sender, message, opened)
            return
        if isinstance(message, Declined):
            opened.declined[sender] = said = shown(message.reason, _REASON_CHARS_MAX)
            # One of each party is enough for the ledger: there may be one to every question.
            if sender not in self._noted:
                self._noted.add(sender)
                world, note = self._world, f"{sender} declined a question: {said}"
                world.tell(Recorded(world.me, world.now(), note))
            self._books[sender].forget(number)
        else:
            self._read(sender, message, opened)
        await self._score_if_ready(number)

    async def _learn_tags(self, sender: str, message: EvaluatedIds, opened: Open) -> None:
        book, points = self._books[sender], message.points.view.tobytes()
        expected = book.expected(message.number)
        if expected is None or len(points) != expected * POINT_BYTES:
            raise BreachError(sender, f"{sender} sent other points than it was asked for")
        try:
            learn = partial(book.learn, message.number, points)
            await self._world.compute(learn, Work.ALIGN)
        except InvalidPoint as fault:
            raise BreachError(sender, f"{sender} sent points that are none: {fault}") from None
        # To make room for these, others may have been forgotten.
        await self._query_once_known(message.number, opened, sender)

    def _read(self, sender: str, message: Answer, opened: Open) -> None:
        request = opened.request
        rows, bits = len(request), np.frombuffer(message.lacking.view, np.uint8)
        if self._books[sender].expected(message.number) is not None or len(bits) != -(-rows // 8):
            raise BreachError(sender, f"{sender} answered otherwise than it was asked")
        card = self._heads[request.model].card
        shape, dtype = (rows, card.widths[sender]), DTYPES[card.dtype]
        opened.embeddings[sender] = received(message.tensor, shape, dtype, sender)
        lacking = np.unpackbits(bits, bitorder="little", count=rows).astype(np.bool_)
        opened.lacking[sender] = lacking

    async def _score_if_ready(self, number: int) -> None:
        opened = self._open.get(number)
        if opened is None or opened.waits_for(self._world.peers):
            return
        if self._part.width(opened.request.model) and opened.own is None:
            return
        del self._open[number]
        if opened.declined:
            self._deliver(opened)
            return
        embeddings = dict(opened.embeddings)
        if opened.own is not None:
            embeddings[self._world.me] = opened.own
        head = self._heads[opened.request.model]
        scores = await self._world.compute(partial(head.scores, embeddings), Work.SCORE)
        self._deliver(opened, scores)

    def _deliver(
        self, opened: Open, scores: NDArray[np.float64] | None = None, late: tuple[str, ...] = ()
    ) -> None:
        request = opened.request
        outputs = self._heads[request.model].card.outputs
        if scores is None:
            scores = np.full((len(request), outputs), np.nan)
        lacking = {name: rows for name, rows in opened.lacking.items() if rows.any()}
        if not request.mean:
            for rows in lacking.values():
                scores[rows] = np.nan
        request.deliver(Scored(scores, lacking, opened.declined, late))
        self.done += len(request)
        if self._source.rows:
            world = self._world
            world.tell(RowsScored(world.me, world.now(), self.done, self._source.rows))
