"""Requests as they come in: a bounded queue from which whatever waits is scored together.

Nothing waits for others to join it. While some requests are on their way the next ones queue up,
and all of them that ask for the same go together when there is room for one more question.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.predict.batch import IdRows
from colonnade.predict.request import ROWS_MAX, Request, Scored

Array = NDArray[Any]
WAITING_MAX, ROWS_WAITING_MAX = 1024, 16 * ROWS_MAX
"""How many requests, and how many rows of them, may wait."""
Key = tuple[str, bool, bool]


class FullError(Exception):
    """So much waits already that nothing more is taken."""


@dataclass(eq=False)
class Ticket:
    """One request of somebody who waits for the answer."""

    texts: list[str]
    """The ids, under the job's rule."""
    model: str
    mean: bool
    until_ns: int
    """After this nobody waits any more, by the clock of the queue."""
    settle: Callable[[Scored], None]
    """Called once."""
    features: Array | None = None
    """The active party's rows of numbers, where they came with the request."""
    alone: bool = False
    """Whether it goes by itself: it went with others before, and a party declined that."""
    number: int = field(default=-1, repr=False)
    settled: bool = field(default=False, repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def key(self) -> Key:
        """What requests must have in common to go together."""
        return self.model, self.mean, self.features is not None


class Live:
    """The source of a service: it never ends.

    >>> import pyarrow as pa
    >>> from colonnade.job.ids import Ids
    >>> from colonnade.predict.rows import PartyRows
    >>> rows = IdRows(PartyRows(2, {}, pa.array(["a", "b"])), Ids())
    >>> live = Live(lambda: rows, now=lambda: 0, world_now=lambda: 0)
    >>> for name in ("a", "b"):
    ...     live.put(Ticket([name], "v1", False, 10**9, lambda scored: print(len(scored.scores))))
    >>> request = live.take()
    >>> len(request), live.waiting
    (2, 0)
    >>> request.deliver(Scored(np.zeros((2, 1))))
    1
    1
    """

    over = False
    rows = 0

    def __init__(
        self,
        index: Callable[[], IdRows],
        *,
        now: Callable[[], int],
        world_now: Callable[[], int],
        may_ask: Callable[[], bool] = lambda: True,
        batches: bool = True,
        on_batch: Callable[[int, int], None] = lambda requests, rows: None,
    ) -> None:
        """`may_ask` says whether all parties can be reached: else requests stay where they are;
        `on_batch` is told how many requests and rows go together."""
        self._index, self._now, self._world_now = index, now, world_now
        self._may_ask, self._batches, self._on_batch = may_ask, batches, on_batch
        self._queues: dict[Key, deque[Ticket]] = {}
        self._interrupt: Callable[[], None] = lambda: None
        self._numbers = 0
        self.waiting = 0
        """How many requests wait to be taken."""
        self._rows_waiting = 0

    def bind(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt

    def wake(self) -> None:
        """Something has changed that may let requests go."""
        if self.waiting:
            self._interrupt()

    def put(self, ticket: Ticket) -> None:
        """Queue a request, or raise `FullError`."""
        if self.waiting >= WAITING_MAX or self._rows_waiting + len(ticket) > ROWS_WAITING_MAX:
            raise FullError
        self._numbers += 1
        ticket.number = self._numbers
        self._queues.setdefault(ticket.key, deque()).append(ticket)
        self._count(1, len(ticket))
        self._interrupt()

    def give_up(self, ticket: Ticket, late: tuple[str, ...]) -> None:
        """The time is up: settle a request that is not settled yet, wherever it is."""
        queue = self._queues.get(ticket.key)
        if queue is not None and ticket in queue:
            queue.remove(ticket)
            self._count(-1, -len(ticket))
        self._settle(ticket, Scored(np.empty((0, 0)), late=late))

    def take(self) -> Request | None:
        if not self.waiting or not self._may_ask():
            return None
        queue = min((q for q in self._queues.values() if q), key=lambda q: q[0].number)
        tickets = [queue.popleft()]
        rows = len(tickets[0])
        while self._goes_along(tickets[0], queue, rows):
            tickets.append(queue.popleft())
            rows += len(tickets[-1])
        self._count(-len(tickets), -rows)
        self._on_batch(len(tickets), rows)
        return self._request(tickets)

    def _goes_along(self, first: Ticket, queue: deque[Ticket], rows: int) -> bool:
        if not queue or not self._batches or first.alone or queue[0].alone:
            return False
        return rows + len(queue[0]) <= ROWS_MAX

    def _count(self, requests: int, rows: int) -> None:
        self.waiting += requests
        self._rows_waiting += rows

    def _request(self, tickets: list[Ticket]) -> Request:
        first, texts = tickets[0], [text for each in tickets for text in each.texts]
        last_ns = max(each.until_ns for each in tickets)
        given = [each.features for each in tickets if each.features is not None]
        return self._index().request(
            texts,
            first.model,
            lambda scored: self._deliver(tickets, scored),
            first.mean,
            self._world_now() + last_ns - self._now(),
            np.concatenate(given) if given else None,
        )

    def _deliver(self, tickets: list[Ticket], scored: Scored) -> None:
        if scored.declined and len(tickets) > 1:
            # What is too much for a party together may not be too much one by one.
            self._retry(tickets)
            return
        start = 0
        for ticket in tickets:
            stop = start + len(ticket)
            lacking = {name: rows[start:stop] for name, rows in scored.lacking.items()}
            part = Scored(scored.scores[start:stop], lacking, scored.declined, scored.late)
            self._settle(ticket, part)
            start = stop

    def _retry(self, tickets: list[Ticket]) -> None:
        for ticket in reversed([each for each in tickets if not each.settled]):
            ticket.alone = True
            self._queues[ticket.key].appendleft(ticket)
            self._count(1, len(ticket))
        self.wake()

    def _settle(self, ticket: Ticket, scored: Scored) -> None:
        if not ticket.settled:
            ticket.settled = True
            ticket.settle(scored)
