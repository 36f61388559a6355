"""One party's view of the simulation."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import coroutine
from typing import TYPE_CHECKING, TypeVar

from colonnade.errors import BreachError, PartyError
from colonnade.job.records import Costs
from colonnade.party.world import COSTS, NAMES, Work
from colonnade.record.events import Event, Waited, Worked
from colonnade.record.exchanges import Exchanges
from colonnade.record.timeline import Timeline
from colonnade.sim.links import Trace
from colonnade.units import duration_ns
from colonnade.wire.codec import Codec
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import Message

if TYPE_CHECKING:
    from colonnade.sim.kernel import Route, Simulator

T = TypeVar("T")
Frame = tuple[str, bytearray, int]
"""A sender, what it has sent, and when that came."""

MEASURED = None
"""Stands for a cost that is the measured duration of the work."""
Cost = int | Trace | None
"""Nanoseconds, a trace of them, or `MEASURED`."""


class SimulatedWorld:
    """One party's view of the simulation; implements `World`.

    A party is suspended where something here yields, until the kernel wakes it.
    """

    def __init__(self, kernel: Simulator, me: str, peers: tuple[str, ...], rank: int) -> None:
        self.me = me
        self.peers = peers
        self.ledger = Ledger()
        self.stopping: str | None = None
        self.timeline = Timeline()
        self.exchanges = Exchanges()
        self.inbox: deque[Frame] = deque()
        self.blocked = False
        self.wake = 0
        """How often the party has acted; see `Simulator.wake_at`."""
        self.routes: dict[str, Route] = {}
        """The route to each peer."""
        self.waiting: tuple[int, Callable[[], str]] | None = None
        """Since when the party has waited, and for what; None while it runs or computes."""
        self.rank = rank
        """0 for the active party, 1 for passives: who acts first at one instant."""
        self._tokens = 0
        self._kernel = kernel
        self._codec = Codec(kernel.job.limits.message_bytes)
        self._costs = _read_costs(kernel.job.compute.of(me))
        self._off_clock = 0
        self._in_order = False
        self._interrupted = False
        self._work_codes = [self.timeline.code(name) for name in NAMES]
        self._wait_codes = {peer: self.timeline.code("wait", peer) for peer in ("", *peers)}
        self._receive_codes: dict[str, dict[type[Message], int]] = {peer: {} for peer in peers}
        """By sender and kind of message: the words of its spans."""

    def token(self) -> str:
        # A counter, so that a simulation is the same each time.
        self._tokens += 1
        return f"{self._tokens:032x}"

    def now(self) -> int:
        return self._kernel.now_ns

    def tell(self, event: Event) -> None:
        self.exchanges(event)
        for subscriber in self._kernel.subscribers:
            subscriber(event)

    async def begin(self) -> None:
        """Do nothing: on links that lose nothing there is no session to open."""

    async def part(self) -> None:
        """Do nothing: nothing can be lost, so no peer needs this party any more."""

    async def sleep(self, ns: int) -> None:
        until = self._kernel.now_ns + ns
        while self._kernel.now_ns < until:
            # A delivery wakes a party that sleeps, too.
            self._kernel.wake_at(until, self)
            await self._idle(lambda: "its own pause to end")

    async def send(self, to: str, message: Message) -> None:
        frame = self._codec.encode(message)
        route = self.routes[to]
        if route.queued >= self._kernel.queue_max:
            await self._room(route)
        kind = type(message)
        size = len(frame)
        self.ledger.count(to, "sent", kind, size)
        if self._off_clock:
            route.put_at_once(frame, self._in_order)
        else:
            route.put(frame, kind.__name__)
        code = route.codes.get(kind) or self._code(route.codes, "send", to, kind)
        pipe, round = route.pipe, getattr(message, "round", -1) + 1
        self.timeline.append((code, pipe.begun_ns, pipe.left_ns, round, size))

    def _code(
        self, codes: dict[type[Message], int], way: str, peer: str, kind: type[Message]
    ) -> int:
        """The words of the spans of a kind of message, for the first of them."""
        code = codes[kind] = self.timeline.code(way, peer, kind.__name__)
        assert code, "the first words are those of work"
        return code

    async def _room(self, route: Route) -> None:
        """Wait until another message fits into the queue."""
        kernel = self._kernel
        while route.queued >= kernel.queue_max:
            self.blocked = True
            # The inbox may grow over its bound now, which may let a blocked peer go on.
            kernel.admit(to=self)
            await self._idle(lambda: f"room in its queue to {route.to.me}", route.to.me)
            self.blocked = False

    async def receive(
        self, until: int | None = None, waiting_for: Callable[[], str] | None = None
    ) -> tuple[str, Message] | None:
        while not self.inbox:
            if self._interrupted:
                self._interrupted = False
                return None
            if until is not None:
                if until <= self._kernel.now_ns:
                    return None
                self._kernel.wake_at(until, self)
            await self._idle(waiting_for or _any_message)
        sender, frame, came_ns = self.inbox.popleft()
        if self._kernel.stalled:
            self._kernel.admit(to=self)
        message = self._codec.decode(frame)
        kind, size = type(message), len(frame)
        self.ledger.count(sender, "received", kind, size)
        codes = self._receive_codes[sender]
        code = codes.get(kind) or self._code(codes, "receive", sender, kind)
        round = getattr(message, "round", -1) + 1
        self.timeline.append((code, came_ns, self._kernel.now_ns, round, size))
        self.timeline.pack_some()
        return sender, message

    def interrupt(self) -> None:
        self._interrupted = True
        if self.waiting is not None:
            self._kernel.wake_at(self._kernel.now_ns, self)

    def refused(self, peer: str, reason: str) -> None:
        # In a simulation nobody can come back with a corrected file.
        raise PartyError(reason)

    def agree(self, start: int) -> None:
        """Do nothing: a failure of any party ends the simulation, before and after."""

    def expel(self, breach: BreachError) -> None:
        raise breach

    def take(self, sender: str, frame: bytearray) -> None:
        """Take in a frame from the link."""
        self.inbox.append((sender, frame, self._kernel.now_ns))
        if self.waiting is not None:
            self._kernel.wake_at(self._kernel.now_ns, self)

    def pending(self) -> int:
        return len(self.inbox)

    @coroutine
    def compute(
        self, work: Callable[[], T], kind: Work, round: int = -1
    ) -> Generator[None, None, T]:
        """Do the work at once, and suspend the party for its cost in virtual time."""
        cost = self._costs[kind]
        if cost == 0 or self._off_clock:
            return work()
        kernel = self._kernel
        start = kernel.now_ns
        if type(cost) is int:
            result, end = work(), start + cost
        else:
            result, end = self._timed(work, cost)
        if end > start:
            # What is appended here is packed when the party next receives.
            self.timeline.append((self._work_codes[kind], start, end, round + 1, 0))
            if kernel.subscribers:
                self.tell(Worked(self.me, start, NAMES[kind], end, round))
            if not kernel.jump(end):
                kernel.wake_at(end, self)
                yield
        return result

    def _timed(self, work: Callable[[], T], cost: Cost) -> tuple[T, int]:
        """Do work whose cost is not always the same; when it ends."""
        start, began_ns = self._kernel.now_ns, time.perf_counter_ns()
        result = work()
        took_ns = cost.at(start) if isinstance(cost, Trace) else time.perf_counter_ns() - began_ns
        return result, start + took_ns

    @contextmanager
    def off_clock(self, in_order: bool = False) -> Iterator[None]:
        """Inside, work and waiting cost nothing, and messages arrive at the same instant, or with
        `in_order` together with the last one in flight."""
        before, self._in_order = self._in_order, in_order
        self._off_clock += 1
        try:
            yield
        finally:
            self._off_clock -= 1
            self._in_order = before

    @coroutine
    def _idle(self, waiting_for: Callable[[], str], peer: str = "") -> Generator[None, None, None]:
        """Suspend the party until it is woken, perhaps for want of this peer."""
        since = self._kernel.now_ns
        self.waiting = (since, waiting_for)
        yield
        self.waiting = None
        now_ns = self._kernel.now_ns
        if now_ns > since and not self._off_clock:
            # Who was waited for is whose message has ended it.
            if not peer and self.inbox:
                peer = self.inbox[0][0]
            self.timeline.append((self._wait_codes[peer], since, now_ns, 0, 0))
            if self._kernel.subscribers:
                self.tell(Waited(self.me, since, "wait", now_ns, peer=peer))


def _any_message() -> str:
    return "any message"


def _read_costs(costs: Costs) -> list[Cost]:
    """The cost of each kind of work."""
    read: list[Cost] = []
    for kind in Work:
        quantity = getattr(costs, COSTS[kind]) if kind in COSTS else "0s"
        if quantity == "measured":
            read.append(MEASURED)
        else:
            trace = Trace.of(quantity, duration_ns)
            read.append(trace.values[0] if len(trace.values) == 1 else trace)
    return read
