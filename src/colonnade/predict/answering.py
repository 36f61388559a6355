"""A passive party's part of a prediction: it answers what its policy allows."""

from __future__ import annotations

from collections import deque
from functools import partial

import numpy as np

from colonnade.align.group import InvalidPoint
from colonnade.errors import BreachError
from colonnade.learn.outbound import Outbound
from colonnade.party.world import Work, World
from colonnade.predict.account import RowAccount
from colonnade.predict.lookup import NAME_BYTES
from colonnade.predict.part import OwnPart
from colonnade.predict.quota import Quota
from colonnade.predict.request import ROWS_MAX
from colonnade.predict.rows import LACKING, Rows
from colonnade.predict.tags import POINT_BYTES, TagIndex
from colonnade.units import NS_PER
from colonnade.wire.messages import (
    Answer,
    BlindedIds,
    Buffer,
    Declined,
    EvaluatedIds,
    Finish,
    Message,
    Query,
)

_PLACE_BYTES = 8


class Answering:
    """From the parties' handshake to the active party's last word."""

    def __init__(
        self,
        world: World,
        part: OwnPart,
        index: TagIndex | None,
        quota: Quota,
        outbound: Outbound,
        account: RowAccount | None = None,
    ) -> None:
        """`account` is that of a party whose embeddings leave with noise."""
        self._world, self._part, self._index, self._quota = world, part, index, quota
        self._account = account
        self._stage = outbound.stage("prediction")
        (self._active,) = world.peers
        self._came: deque[tuple[int, Message]] = deque()
        """Questions, with the instant at which each came."""

    async def run(self) -> int:
        """Answer until the active party has no more questions; how many rows were answered."""
        while True:
            while self._world.pending() or not self._came:
                came = await self._world.receive(waiting_for=self.waiting_for)
                if came is not None:
                    self._came.append((self._world.now(), came[1]))
            at_ns, message = self._came.popleft()
            if isinstance(message, Finish):
                return self._quota.answered
            if isinstance(message, BlindedIds):
                await self._evaluate(message)
            elif isinstance(message, Query):
                await self._answer(message, at_ns)
            else:
                kind = type(message).__name__
                raise self._breach(f"sent a message that is not due, of kind {kind}")

    def waiting_for(self) -> str:
        """For whom the party waits, and for what."""
        return f"{self._active}: the next question"

    def _breach(self, what: str) -> BreachError:
        return BreachError(self._active, f"{self._active} {what}")

    async def _evaluate(self, message: BlindedIds) -> None:
        points = message.points.view.tobytes()
        if self._index is None:
            raise self._breach(f"asks {self._world.me} about ids, and its rows have none")
        if len(points) % POINT_BYTES or not 0 < len(points) <= ROWS_MAX * POINT_BYTES:
            raise self._breach(f"asks about {len(points) / POINT_BYTES:g} ids at once")
        try:
            work = partial(self._index.evaluate, points)
            answer = await self._world.compute(work, Work.ALIGN)
        except InvalidPoint as fault:
            raise self._breach(f"sent points that are none: {fault}") from None
        reply = EvaluatedIds(message.number, Buffer(memoryview(answer)))
        await self._world.send(self._active, reply)

    async def _answer(self, query: Query, at_ns: int) -> None:
        index = self._index
        if index is not None and query.tags.view.nbytes and not index.is_built:
            await self._world.compute(lambda: index.lookup, Work.ALIGN)
        rows = self._rows(query)
        now_ns = self._world.now()
        if query.within_ms and now_ns - at_ns > query.within_ms * NS_PER["ms"]:
            reason: str | None = (
                f"the time of the question was up before {self._world.me} came to it"
            )
        else:
            reason = self._quota.refuse(len(rows), now_ns)
        allowed = self._quota.allowed(rows)
        if reason is None:
            reason = self._spend(allowed, query.mean)
        if reason is not None:
            await self._world.send(self._active, Declined(query.number, reason))
            return
        work = partial(self._part.embed, query.model, allowed, query.mean)
        embedding, lacking = await self._world.compute(work, Work.SCORE)
        bits = np.packbits(lacking, bitorder="little").tobytes()
        answer = Answer(query.number, self._stage.pack(embedding), Buffer(memoryview(bits)))
        await self._world.send(self._active, answer)

    def _spend(self, rows: Rows, mean: bool) -> str | None:
        """Account for rows that are about to leave; why they do not, where they may not."""
        if self._account is None:
            return None
        means = int((rows == LACKING).sum()) if mean else 0
        sample = len(range(self._part.rows.count)[self._part.sample])
        return self._account.refuse(rows, means, max(1, sample))

    def _rows(self, query: Query) -> Rows:
        """The rows that are asked for; everything a query claims is checked here."""
        places, tags = query.places.view.tobytes(), query.tags.view.tobytes()
        if len(places) % _PLACE_BYTES or not 0 < len(places) <= ROWS_MAX * _PLACE_BYTES:
            raise self._breach(f"asks for {len(places) / _PLACE_BYTES:g} rows at once")
        if not self._part.width(query.model):
            raise self._breach("asks for a model that the parties did not agree on")
        at = np.frombuffer(places, "<i8").astype(np.int64)
        tagged = at == LACKING
        if len(tags) != int(tagged.sum()) * NAME_BYTES or (len(tags) and self._index is None):
            raise self._breach("asks for rows by other tags than it sends")
        if (at < LACKING).any():
            raise self._breach("asks for rows at places that no table has")
        found = np.full(len(at), LACKING, dtype=np.int64)
        if not tagged.all():
            if self._part.rows.order is None:
                raise self._breach("asks for rows by places of a table that has changed since")
            found[~tagged] = self._part.rows.at(at[~tagged])
        if tagged.any():
            assert self._index is not None
            found[tagged] = self._index.rows(tags)
        return found
