"""A simulated world in which links lose, repeat and delay messages, and processes crash.

The sessions and the roster are those of the network, in virtual time. So a link can be made to
fail at the worst moment thousands of times, and every failure can be replayed from its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from heapq import heappush
from types import coroutine
from typing import Any

from colonnade.errors import DeadlockError
from colonnade.job.records import Job
from colonnade.net.roster import Roster
from colonnade.net.session import Frame, Kind, Segment, Session
from colonnade.party.world import Over, Regrouped
from colonnade.sim.kernel import Simulator
from colonnade.sim.links import Rule
from colonnade.sim.world import SimulatedWorld
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import Message

TICK_NS = 300 * 10**6
"""The interval between two heartbeats; with each, unacknowledged frames are sent again."""
LINGER_TICKS = 20
"""For how many intervals at most the active party waits for its goodbye to be acknowledged, and at
least a party still answers after its program has ended."""
ABSENCE_NS = 60 * 10**9
"""A passive party ends if it hears nothing for so long before it begins or after it is done."""
GENERATIONS = 1000
"""More generations than an active party ever begins before it crashes."""


class OrderedRoster(Roster):
    """Incarnations and first generations grow with every start, so that a late segment of an
    earlier process is recognised, which a connection never delivers."""

    def take(self, sender: str, segment: Segment) -> tuple[list[Frame], Sequence[Segment]]:
        join = segment.kind == Kind.JOIN and segment.number < self.peers[sender].incarnation
        if join or (segment.kind == Kind.OPEN and segment.acknowledged < self.first):
            return [], ()
        return super().take(sender, segment)


class LossyWorld(SimulatedWorld):
    """One party's view of the simulation, behind sessions."""

    _kernel: LossySimulator

    def __init__(self, kernel: Simulator, me: str, peers: tuple[str, ...], rank: int) -> None:
        super().__init__(kernel, me, peers, rank)
        self.settled: Callable[[], None] = lambda: None
        self.incarnation = -1
        self.regroups = 0
        """How often the party had to begin again."""
        self.up()

    def up(self) -> None:
        """Start a process, which knows nothing of an earlier one."""
        self.incarnation += 1
        self.roster = OrderedRoster(
            self.peers,
            leads=self.rank == 0,
            open_session=lambda generation: Session(generation),
            on_regroup=self._regroup,
            incarnation=self.incarnation,
            # Segments of an earlier process of the active party may still be in flight, so the
            # generations of two processes must not overlap, and must grow.
            first=1 + GENERATIONS * self.incarnation,
        )
        self.ledger.take(Ledger())
        self.inbox.clear()
        self.goodbyes: set[str] = set()
        self.alive = True
        self.over = False
        """The job has ended: at the active party when all have said goodbye, at a passive one when
        it is told so."""
        # Wake-ups of the process before are out of date.
        self.wake += 1
        self._heard_ns = self._kernel.now_ns
        self._why: str | None = None
        self._off_clock, self._in_order = 0, False
        incarnation = self.incarnation
        self._kernel.call_at(self._kernel.now_ns, lambda: self._tick(incarnation))

    def down(self) -> None:
        """End the process: whatever arrives from now on is lost."""
        self.alive = False
        self.wake += 1
        self.waiting = None
        self.blocked = False
        self.inbox.clear()

    def _regroup(self, why: str) -> None:
        self._why = why
        self.regroups += 1
        self.inbox.clear()
        self.goodbyes.clear()
        self._wake_up()

    def _wake_up(self) -> None:
        if self.waiting is not None:
            self._kernel.wake_at(self._kernel.now_ns, self)

    def _tick(self, incarnation: int) -> None:
        """Send heartbeats and everything that may have been lost, and schedule the next tick."""
        # A timer of an earlier process: timers cannot be cancelled.
        if not self.alive or incarnation != self.incarnation:
            return
        if not self.roster.leads and self.roster.generation == 0:
            for peer in self.peers:
                self._carry(peer, self.roster.join())
        for peer, segment in self.roster.announcements().items():
            self._carry(peer, segment)
        for name, other in self.roster.peers.items():
            if other.session is not None:
                other.session.rewind()
                self._transmit(name, other.session)
                self._carry(name, other.session.acknowledge())
        self._kernel.call_at(self._kernel.now_ns + TICK_NS, lambda: self._tick(incarnation))

    def _carry(self, to: str, segment: Segment) -> None:
        route = self._kernel.routes[self.me, to]
        route.put(bytearray(segment.encode()), Kind(segment.kind).name)

    def _transmit(self, to: str, session: Session) -> None:
        while (segment := session.next()) is not None:
            self._carry(to, segment)

    def take(self, sender: str, frame: bytearray) -> None:
        """Take in a segment from the link."""
        if not self.alive:
            return
        self._heard_ns = self._kernel.now_ns
        segment = Segment.decode(bytes(frame))
        if segment.kind == Kind.LEAVE:
            self.over = True
            self._wake_up()
            return
        if self.over and segment.kind == Kind.JOIN:
            self._carry(sender, Segment(Kind.LEAVE, data=b"the job is complete"))
            return
        frames, answers = self.roster.take(sender, segment)
        for answer in answers:
            self._carry(sender, answer)
        for data, last in frames:
            if last:
                self.goodbyes.add(sender)
            else:
                self.inbox.append((sender, data, self._kernel.now_ns))
        session = self.roster.peers[sender].session
        if session is not None and session._owed_frames:
            self._carry(sender, session.acknowledge())
        self._wake_up()

    async def begin(self) -> None:
        while not all(peer.session for peer in self.roster.peers.values()):
            if self.over:
                raise Over
            await self._linger("the others to join")
        self._why = None
        now_ns, generation = self._kernel.now_ns, str(self.roster.generation)
        self.timeline.add("begin", now_ns, now_ns, message=generation)

    async def send(self, to: str, message: Message) -> None:
        frame = self._codec.encode(message)
        await self._put(to, frame, last=False)
        self.ledger.count(to, "sent", type(message), len(frame))
        now_ns = self._kernel.now_ns
        more = getattr(message, "round", -1) + 1, len(frame), to, type(message).__name__
        self.timeline.add("send", now_ns, now_ns, *more)

    async def _put(self, to: str, frame: bytearray, last: bool) -> None:
        self._check()
        while (session := self._session(to)).unacknowledged >= self._kernel.queue_max:
            self.blocked = True
            self._kernel.admit(to=self)
            await self._idle(lambda: f"room in its queue to {to}")
            self.blocked = False
            self._check()
        session.put(frame, last)
        self._transmit(to, session)

    def _session(self, to: str) -> Session:
        session = self.roster.peers[to].session
        assert session is not None, "nothing is sent before the beginning"
        return session

    def _check(self) -> None:
        if self._why is not None:
            raise Regrouped(self._why)

    async def receive(
        self, until: int | None = None, waiting_for: Callable[[], str] | None = None
    ) -> tuple[str, Message] | None:
        self._check()
        while not self.inbox:
            if until is not None:
                if until <= self._kernel.now_ns:
                    return None
                self._kernel.wake_at(until, self)
            await self._idle(waiting_for or (lambda: "any message"))
            self._check()
        return await super().receive()

    def pending(self) -> int:
        # What `receive` would raise at once counts too.
        return len(self.inbox) + (self._why is not None)

    async def part(self) -> None:
        """Exchange goodbyes: the passive parties first, then the active one."""
        if not self.roster.leads:
            await self._say_goodbye()
        while len(self.goodbyes) < len(self.peers):
            self._check()
            await self._linger("the others' goodbye")
        self._check()
        self.settled()
        until_ns = self._kernel.now_ns + LINGER_TICKS * TICK_NS
        if self.roster.leads:
            await self._say_goodbye()
            self.over = True
            while self._unheard() and self._kernel.now_ns < until_ns:
                self._kernel.wake_at(until_ns, self)
                await self._idle(lambda: "the others to hear its goodbye")
        self._kernel.call_at(until_ns + LINGER_TICKS * TICK_NS, self._leave)

    async def _linger(self, what: str) -> None:
        """Wait for the others; a passive party gives up after a while, since they may have left."""
        until_ns = self._heard_ns + ABSENCE_NS
        if not self.roster.leads:
            if self._kernel.now_ns >= until_ns:
                raise Over
            self._kernel.wake_at(until_ns, self)
        await self._idle(lambda: what)

    def _unheard(self) -> bool:
        return any(self._session(peer).unacknowledged for peer in self.peers)

    def _leave(self) -> None:
        self.alive = False

    async def _say_goodbye(self) -> None:
        for peer in self.peers:
            await self._put(peer, bytearray(b"goodbye"), last=True)


class Timer:
    """An action at an instant, before any party acts."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def arrived(self, item: None) -> None:
        self._action()


@coroutine
def _down() -> Generator[None, None, None]:
    while True:
        yield


class LossySimulator(Simulator):
    """A simulator of parties behind sessions, which may crash and come back."""

    def __init__(self, job: Job, rules: Sequence[Rule] = (), *, until_ns: int) -> None:
        super().__init__(job, rules, LossyWorld)
        self._crashed: set[str] = set()
        self.call_at(until_ns, self._give_up)

    def _give_up(self) -> None:
        raise DeadlockError(self._deadlock(set(self._programs)))

    def call_at(self, ns: int, action: Callable[[], None]) -> None:
        """Schedule an action."""
        self.events += 1
        heappush(self._heap, (ns, 0, self.events, Timer(action), None))

    def crash(self, name: str) -> bool:
        """End a party's process at once; False if its program had ended already."""
        if name not in self._programs or name in self._crashed:
            return False
        self._crashed.add(name)
        self._replace(name, _down())
        self._lossy(name).down()
        return True

    def _lossy(self, name: str) -> LossyWorld:
        world = self.worlds[name]
        assert isinstance(world, LossyWorld)
        return world

    def _replace(self, name: str, program: Coroutine[Any, Any, Any]) -> None:
        self._programs[name].close()
        self._programs[name] = program

    def gone(self, name: str) -> None:
        """A crashed party does not come back."""
        self._programs.pop(name).close()

    def restart(self, name: str, program: Coroutine[Any, Any, Any]) -> None:
        """Start a crashed party again; of its state only its checkpoints are left."""
        self._crashed.remove(name)
        self._replace(name, program)
        self._lossy(name).up()
        self.wake_at(self.now_ns, self.worlds[name])
