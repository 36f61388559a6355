"""Prediction as a program of one party."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from colonnade.align.desk import Randomness
from colonnade.align.workers import Workers
from colonnade.job.records import Job
from colonnade.job.terms import digest
from colonnade.learn.outbound import Outbound
from colonnade.learn.saved import Head
from colonnade.party.kinds import Kinds
from colonnade.party.world import World
from colonnade.predict.account import RowAccount
from colonnade.predict.answering import Answering
from colonnade.predict.asking import WINDOW, Asking
from colonnade.predict.part import OwnPart
from colonnade.predict.quota import Quota
from colonnade.predict.request import Request, Source
from colonnade.predict.tags import TagBook, TagIndex
from colonnade.record.card import Card
from colonnade.record.checkpoints import Store
from colonnade.record.tree import Tree
from colonnade.wire.messages import ANSWERS, QUESTIONS, Hello, Welcome


@dataclass(frozen=True, eq=False)
class Ready:
    """What a party brings to a prediction."""

    part: OwnPart
    index: TagIndex | None = None
    """Its rows by their tags; None at the active party, and where rows have no ids."""
    heads: Mapping[str, Head] | None = None
    """The top models, at the active party."""
    quota: Quota | None = None
    """What a passive party answers."""
    account: RowAccount | None = None
    """What its rows have spent by being scored, where they leave with noise."""


class Predict:
    """From rows that the active party names to their scores.

    `ready` gives the party with its rows; it is called when they are first needed.
    """

    start = 0
    store: Store | None = None

    def __init__(
        self,
        job: Job,
        me: str,
        cards: Mapping[str, Card],
        ready: Callable[[], Ready],
        *,
        source: Source | None = None,
        workers: Workers,
        randomness: Randomness,
        outbound: Outbound,
        restarts: int | None = None,
        window: int = WINDOW,
    ) -> None:
        """`cards` are those of the party's models, by version; the active party has a `source` of
        requests."""
        self.me, self.leads = me, me == job.active
        self.kinds = Kinds(QUESTIONS, ANSWERS) if self.leads else Kinds(ANSWERS, QUESTIONS)
        self.terms = predict_terms(job, cards)
        self.restarts = job.recovery.restarts if restarts is None else restarts
        self.asking: Asking | None = None
        """At the active party, since the parties last began."""
        self._job, self._cards, self._ready = job, cards, ready
        self._source, self._outbound = source, outbound
        self._workers, self._randomness, self._window = workers, randomness, window
        self._books = {peer: TagBook(workers, randomness) for peer in job.passives if self.leads}
        self._again: list[Request] = []

    @cached_property
    def ready(self) -> Ready:
        """The party with its rows, which are read now if they were not before."""
        return self._ready()

    @cached_property
    def hello(self) -> Hello:
        """The rows that it has by their places in the training, and those that it has by id."""
        rows = self.ready.part.rows
        by_place = 0 if rows.order is None else len(rows.order)
        by_id = 0 if rows.ids is None else rows.count
        width = next(iter(self._cards.values())).width
        index = self.ready.index
        mark = "" if index is None else index.mark
        return Hello(self.me, digest(self.terms), by_place, by_id, width, mark)

    def refuse(self, peer: str, hello: Hello) -> str | None:
        width = next(iter(self._cards.values())).widths[peer]
        if hello.width != width:
            return (
                f"the embeddings of {peer} are {hello.width} wide, and in the training they were "
                f"{width}: start {peer} with the folder of the same run"
            )
        if not hello.rows and not hello.test_rows:
            return (
                f"{peer} knows its rows neither by id nor by their places in the training: give it "
                "a table with ids, or the one that was trained on"
            )
        return None

    def welcome(self, heard: Mapping[str, Hello]) -> Welcome:
        self._heard = heard
        return Welcome(self.me, digest(self.terms), 0, {})

    def begin(self, world: World, welcome: Welcome) -> None:
        part = self.ready.part
        if not self.leads:
            index, quota, account = self.ready.index, self.ready.quota, self.ready.account
            assert quota is not None
            self._answering = Answering(world, part, index, quota, self._outbound, account)
            return
        assert self._source is not None and self.ready.heads is not None
        done = 0
        if self.asking is not None:
            self._again, done = [*self._again, *self.asking.unfinished], self.asking.done
        for peer, book in self._books.items():
            book.begin(self._heard[peer].fingerprint)
        by_place = frozenset(peer for peer, hello in self._heard.items() if hello.rows)
        self.asking = Asking(
            world,
            part,
            self.ready.heads,
            self._source,
            self._books,
            by_place if part.rows.order is not None else frozenset(),
            self._window,
            done,
        )

    async def _ask(self, world: World) -> int:
        """How many rows there were to score."""
        assert self.asking is not None and self._source is not None
        again, self._again = self._again, []
        self._source.bind(world.interrupt)
        try:
            await self.asking.run(again)
        finally:
            # The handshake, which may come next, is not to be interrupted.
            self._source.bind(lambda: None)
        return self._source.rows

    def run(self, world: World) -> Coroutine[Any, Any, Any]:
        return self._ask(world) if self.leads else self._answering.run()

    def state(self) -> Tree:
        return {}

    def restore(self, state: Tree) -> None:
        pass

    def keep(self, outcome: Any) -> None:
        pass


def predict_terms(job: Job, cards: Mapping[str, Card]) -> dict[str, str]:
    """What parties must agree on before they score rows: who takes part, how ids are compared, and
    which versions of the model there are.

    >>> from colonnade.job import load
    >>> predict_terms(load("breast-cancer"), {})["models"]
    '[]'
    """
    roles = {f"parties.{name}.role": party.role for name, party in job.parties.items()}
    said = {
        "program": "predict",
        "parties": list(job.parties),
        **roles,
        "ids": job.ids.text(),
        "models": list(cards),
    }
    return {path: msgspec.json.encode(value).decode() for path, value in said.items()}
