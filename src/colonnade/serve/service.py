"""A service: what is asked of it, answered by all parties together and within a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from colonnade.data.preprocess import Preprocessor
from colonnade.learn.saved import Head
from colonnade.predict.request import Scored
from colonnade.serve.answers import Reply, declined_reply, late_reply, refusal, scored_reply
from colonnade.serve.asked import (
    Array,
    Body,
    BodyError,
    IdReader,
    RowReader,
    choose_model,
    read_body,
)
from colonnade.serve.live import FullError, Live, Ticket
from colonnade.serve.metrics import Metrics
from colonnade.units import NS_PER

GRACE_S = 0.01
"""How long after its deadline a request is given up here, where the party's program has not done
so: it names those who are late, but does not run while the parties meet again."""


class Parties(Protocol):
    """What a service knows of the others."""

    me: str
    peers: tuple[str, ...]

    def away(self) -> tuple[str, ...]:
        """Those that are not connected."""

    def owing(self) -> tuple[str, ...]:
        """Those that are connected, and for which the oldest question waits."""

    def connected_since(self, peer: str) -> float | None:
        """When a party connected, in seconds of Unix time; None for one that is away."""


@dataclass(frozen=True, eq=False)
class Offer:
    """What a service has to offer."""

    job: str
    heads: Mapping[str, Head]
    """The top models by version; the first is the one that is meant where none is named."""
    preprocessors: Mapping[str, Preprocessor | None]
    """Of the active party's own columns, by version."""
    ids: IdReader
    deadline_ns: int
    mean: bool = False
    """What becomes of a row that a party lacks, where the request does not say."""


class Service:
    """Answers requests; knows HTTP by the numbers of its statuses only."""

    def __init__(self, offer: Offer, live: Live, parties: Parties, metrics: Metrics) -> None:
        self._offer, self._live, self._parties, self.metrics = offer, live, parties, metrics
        columns = offer.ids.columns
        self._rows = {
            version: RowReader(columns, fitted, offer.heads[version].card.types)
            for version, fitted in offer.preprocessors.items()
        }
        self.models = {
            version: {"run": head.card.run, "version": version}
            for version, head in offer.heads.items()
        }
        self._began_s = time.time()

    @property
    def deadline_ms(self) -> float:
        """How long a request may take, unless it says less."""
        return self._offer.deadline_ns / NS_PER["ms"]

    async def predict(self, content: bytes) -> Reply:
        """Answer a request by its body."""
        began = time.perf_counter()
        try:
            reply = await self._predict(content)
        except BodyError as error:
            reply = refusal(422, str(error))
        self.metrics.request(reply.status, time.perf_counter() - began)
        return reply

    async def _predict(self, content: bytes) -> Reply:
        body = read_body(content)
        version = choose_model(body.model, self._offer.heads)
        ids, features = self._asked(body, version)
        mean = self._offer.mean if body.missing is None else body.missing == "mean"
        limit_ns = self._offer.deadline_ns
        if body.deadline_ms is not None:
            limit_ns = min(limit_ns, body.deadline_ms * NS_PER["ms"])
        try:
            scored = await self._score(
                self._offer.ids.texts(ids), version, mean, limit_ns, features
            )
        except FullError:
            return refusal(503, "too many requests wait already: ask again later", retry_s=1)
        model = self.models[version]
        if scored.late:
            self.metrics.late(scored.late)
            return late_reply(scored.late, limit_ns / NS_PER["ms"], model)
        if scored.declined:
            return declined_reply(scored.declined, model)
        self.metrics.scored(len(ids), scored)
        return scored_reply(self._offer.heads[version], ids, scored, mean, model)

    def _asked(self, body: Body, version: str) -> tuple[Any, Array | None]:
        if body.rows is not None:
            return self._rows[version].read(body.rows)
        return body.ids, None

    async def _score(
        self,
        texts: list[str],
        version: str,
        mean: bool,
        limit_ns: int,
        features: Array | None,
    ) -> Scored:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Scored] = loop.create_future()

        def settle(scored: Scored) -> None:
            if not answer.done():
                answer.set_result(scored)

        ticket = Ticket(texts, version, mean, time.monotonic_ns() + limit_ns, settle, features)
        self._live.put(ticket)
        timer = loop.call_later(limit_ns / NS_PER["s"] + GRACE_S, self._give_up, ticket)
        try:
            return await answer
        finally:
            timer.cancel()

    def _give_up(self, ticket: Ticket) -> None:
        self._live.give_up(ticket, self._missing())

    def _missing(self) -> tuple[str, ...]:
        """Who is to blame that no answer is there. Where nobody else is, this party is too slow."""
        parties = self._parties
        return parties.away() or parties.owing() or (parties.me,)

    def health(self, whole: bool = True) -> Reply:
        """Whether rows can be scored now, and who is there."""
        away = self._parties.away()
        status = 503 if away else 200
        said: dict[str, Any] = {"status": "waiting" if away else "serving"}
        if whole:
            said |= {
                "party": self._parties.me,
                "job": self._offer.job,
                "since": _stamp(self._began_s),
                "deadline_ms": self.deadline_ms,
                "models": list(self.models.values()),
                "parties": {name: self._presence(name, away) for name in self._parties.peers},
                "waiting_requests": self._live.waiting,
            }
        return Reply(status, said)

    def _presence(self, name: str, away: Collection[str]) -> dict[str, Any]:
        since = self._parties.connected_since(name)
        stamp = None if since is None else _stamp(since)
        return {"connected": name not in away, "since": stamp}


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
