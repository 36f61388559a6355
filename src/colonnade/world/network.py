"""The network world: one party in this process, its peers over connections that may break.

Everything runs in one asyncio loop. The party's program waits in `receive` and `send`; the
switchboard moves segments between it and the connections; heavy work runs in the one compute
thread, so that sending and receiving go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from colonnade.errors import AbsentError, PartyError
from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import Message
from colonnade.world.base import Over, Regrouped, Work
from colonnade.world.line import Emulation
from colonnade.world.session import Session
from colonnade.world.switchboard import Switchboard
from colonnade.world.timeline import Timeline
from colonnade.world.watch import Watch

T = TypeVar("T")

INLINE_NS = 3_000_000
"""Work shorter than this is not worth the way to the compute thread and back."""


class NetworkWorld(Switchboard):
    """One party's view of the network; implements `World`."""

    def __init__(
        self,
        job: Job,
        me: str,
        watch: Watch,
        *,
        incarnation: int,
        emulation: Emulation | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(job, me, watch, incarnation, emulation)
        self.ledger = Ledger()
        self.stopping: str | None = None
        self.timeline = Timeline()
        self.receipt: Callable[[str], bytes] = lambda peer: b""
        """What this party tells a peer at the end."""
        self._policy = policy or Policy()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compute")
        self._typical_ns = dict.fromkeys(Work, 0)

    def now(self) -> int:
        """Nanoseconds since the job began."""
        return self.watch.now()

    async def begin(self) -> None:
        """Wait until the link to everybody is open in the newest generation."""
        with self.watch.waiting(self._absent, joining=True):
            while not all(peer.session for peer in self.roster.peers.values()):
                if self.ended is not None:
                    raise Over(self.ended)
                await self._stir(check=False)
        if self.why is not None:
            self.watch.report.event(f"begins again, because {self.why}")
        self.why = None

    def _absent(self) -> str:
        missing = [name for name, peer in self.roster.peers.items() if peer.session is None]
        return f"{', '.join(missing)}: to join"

    async def _stir(self, check: bool = True) -> None:
        """Wait for anything new."""
        self.stirred.clear()
        await self.stirred.wait()
        if self.fault is not None:
            raise self.fault
        if check and self.why is not None:
            raise Regrouped(self.why)

    async def send(self, to: str, message: Message) -> None:
        """Encode, count, and hand to the session; wait while it keeps too much."""
        kind = type(message)
        if (refusal := self._policy.refuse(kind.__name__)) is not None:
            raise PartyError(refusal)
        frame = self.codec.encode(message)
        await self._put(to, frame)
        self.ledger.count(to, "sent", kind, len(frame))
        self.watch.message("sent", to, kind.__name__, getattr(message, "round", -1), len(frame))
        # The writer's turn: whatever the program does next may take long.
        await asyncio.sleep(0)

    async def _put(self, to: str, frame: bytearray, last: bool = False) -> None:
        if self.why is not None:
            raise Regrouped(self.why)
        session = self._session(to)
        if self._full(session, len(frame)):
            self.blocked = True
            self.room.set()
            with self.watch.waiting(lambda: f"{to}: to take in what was sent"):
                while self._full(session, len(frame)):
                    await self._stir()
            self.blocked = False
        session.put(frame, last)
        if (outlet := self.outlets.get(to)) is not None:
            outlet.stir()

    def _full(self, session: Session, size: int) -> bool:
        many = session.unacknowledged >= self.limits.queue_messages
        return many or (
            session.queued_bytes > 0 and session.queued_bytes + size > self.limits.queue_bytes
        )

    def _session(self, to: str) -> Session:
        session = self.roster.peers[to].session
        assert session is not None, "nothing is sent before the beginning"
        return session

    async def receive(
        self, until: int | None = None, waiting_for: Callable[[], str] | None = None
    ) -> tuple[str, Message] | None:
        """Take the next message, or wait for one."""
        if self.why is not None:
            raise Regrouped(self.why)
        if not self.inbox:
            began_ns = self.now()
            with self.watch.waiting(waiting_for or (lambda: "any message")), self._alarm(until):
                while not self.inbox:
                    if until is not None and self.now() >= until:
                        return None
                    await self._stir()
            self.timeline.add("wait", began_ns, self.now())
        sender, message, size = self.inbox.popleft()
        self.room.set()
        kind = type(message)
        if (refusal := self._policy.refuse_received(kind.__name__)) is not None:
            raise PartyError(f"{sender} sent what this party does not take: {refusal}")
        self.ledger.count(sender, "received", kind, size)
        self.watch.message("received", sender, kind.__name__, getattr(message, "round", -1), size)
        return sender, message

    @contextmanager
    def _alarm(self, until_ns: int | None) -> Iterator[None]:
        """Inside, the party is woken at an instant."""
        if until_ns is None:
            yield
            return
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(max(0, until_ns - self.now()) / 1e9, self.stirred.set)
        try:
            yield
        finally:
            alarm.cancel()

    def refused(self, peer: str, reason: str) -> None:
        """A party does not fit the job and was told so; it may come again."""
        self.watch.refused(peer, reason)

    def pending(self) -> int:
        """Messages that are here, or the news that all begin again."""
        return len(self.inbox) + (self.why is not None)

    async def sleep(self, ns: int) -> None:
        """Let time pass."""
        await asyncio.sleep(ns / 1e9)

    async def compute(self, work: Callable[[], T], kind: Work) -> T:
        """Do the work in the compute thread; what is short at once."""
        began_ns = self.now()
        if self._typical_ns[kind] < INLINE_NS:
            await asyncio.sleep(0)
            result = work()
        else:
            result = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        ended_ns = self.now()
        self._typical_ns[kind] = (3 * self._typical_ns[kind] + ended_ns - began_ns) // 4
        self.timeline.add(kind.name.lower(), began_ns, ended_ns)
        return result

    @contextmanager
    def off_clock(self) -> Iterator[None]:
        """Over the network everything takes the time it takes."""
        yield

    async def part(self, settled: Callable[[], None]) -> None:
        """Passive parties say goodbye and hear the active one's, which speaks when all have."""
        if not self.leads:
            await self._say_goodbye()
        try:
            with self.watch.waiting(self._lingering):
                while len(self.goodbyes) < len(self.peers):
                    await self._stir()
        except AbsentError as fault:
            if self.leads:
                raise
            raise Over(f"{fault}; nothing was left to do but to say goodbye") from None
        settled()
        if self.leads:
            self.ended = "the job is complete"
            await self._say_goodbye()
        for peer, outlet in self.outlets.items():
            outlet.say(self._session(peer).acknowledge())
        until_ns = self.now() + self.watch.finish_ns
        with self.watch.waiting(self._lingering), self._alarm(until_ns):
            while self._unheard() and self.now() < until_ns:
                await self._stir(check=False)

    def _unheard(self) -> bool:
        """Whether somebody may not have heard the goodbye: the active party waits for the answers,
        a passive one for the active party to end the connection."""
        if not self.leads:
            return bool(self.outlets)
        return any(self._session(peer).unacknowledged for peer in self.peers)

    def _lingering(self) -> str:
        waiting = [peer for peer in self.peers if peer not in self.goodbyes]
        return f"{', '.join(waiting or self.peers)}: to say goodbye"

    async def _say_goodbye(self) -> None:
        for peer in self.peers:
            await self._put(peer, bytearray(self.receipt(peer) or b"goodbye"), last=True)

    def stop(self, why: str) -> None:
        """Ask the party to stop at the next occasion."""
        self.stopping = why
        self.watch.report.event(f"stops at the next rest: {why}")
        self.stirred.set()

    def close(self) -> None:
        """Let go of the compute thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
