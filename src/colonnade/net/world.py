"""The network world: one party in this process, its peers over connections that may break.

Everything runs in one asyncio loop. The party's program waits in `receive` and `send`; the
switchboard moves segments between it and the connections; heavy work runs in the one compute
thread, so that sending and receiving go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import TypeVar

from colonnade.errors import AbsentError, BreachError, PartyError, StoppedError
from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.net.compute import ComputeThread
from colonnade.net.connections import Connections
from colonnade.net.detector import FailureDetector, alarm
from colonnade.net.link import Emulation
from colonnade.net.session import Session
from colonnade.party.world import NAMES, UNCHARGED, Over, Regrouped, Work
from colonnade.record.events import Event
from colonnade.record.timeline import Timeline
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import Message

T = TypeVar("T")

POLL_S, DRAIN_NS = 0.01, 5_000_000_000
"""When a party stops: how often it looks whether all has arrived, and for how long."""
YIELD_AFTER_NS = 300_000
"""How long short work may go on before the connections have a turn."""


class NetworkWorld(Connections):
    """One party's view of the network; implements `World`."""

    def __init__(
        self,
        job: Job,
        me: str,
        detector: FailureDetector,
        *,
        incarnation: int,
        emulation: Emulation | None = None,
        policy: Policy | None = None,
        generation: int = 1,
    ) -> None:
        """`generation` is the first that an active party gives out; see `new_generation`."""
        super().__init__(job, me, detector, incarnation, emulation, generation)
        self.ledger = Ledger()
        self.timeline = Timeline()
        self.receipt: Callable[[str], bytes] = lambda peer: b""
        """What this party tells a peer at the end."""
        self._fresh = True
        """Nothing was computed since all began, so there is nothing to save."""
        self._gathering_since_ns: int | None = None
        """Since when the parties have tried to begin; None when they have begun."""
        self._policy = policy or Policy()
        self._compute_thread = ComputeThread(detector.now)
        self._yielded_ns = 0

    def now(self) -> int:
        """Nanoseconds since the job began."""
        return self.detector.now()

    def tell(self, event: Event) -> None:
        """Tell whoever has subscribed."""
        self.detector.tell(event)

    def token(self) -> str:
        """From the operating system."""
        return token_hex(16)

    async def begin(self) -> None:
        """Wait until the link to everybody is open in the newest generation."""
        self._fresh = True
        if self._gathering_since_ns is None:
            self._gathering_since_ns = self.detector.now()
        elif self.detector.now() - self._gathering_since_ns > self.detector.stall_ns():
            raise PartyError(
                "the parties have begun again and again, the last time because "
                f"{self.regroup_reason}, and are given up (timeouts.stall)"
            )
        with self.detector.waiting(self._absent, joining=True):
            while not all(peer.session for peer in self.roster.peers.values()):
                if self.ended is not None:
                    raise Over(self.ended)
                await self._wait_for_change(check=False)
        if self.regroup_reason is not None:
            self.detector.notice(f"meets the others again: {self.regroup_reason}")
        self.regroup_reason = None

    def _absent(self) -> str:
        missing = [name for name, peer in self.roster.peers.items() if peer.session is None]
        return f"{', '.join(missing)}: to join"

    async def _wait_for_change(self, check: bool = True) -> None:
        """Wait for anything new."""
        self._check(check)
        self.changed.clear()
        await self.changed.wait()
        self._check(check)

    def _check(self, regroups: bool = True) -> None:
        """Raise what the program has to know before anything else."""
        if self.fault is not None:
            raise self.fault
        if regroups and self.regroup_reason is not None:
            raise Regrouped(self.regroup_reason)
        if self.stopping is not None and self._fresh:
            raise StoppedError(f"stopped as planned before a round was begun: {self.stopping}")

    async def send(self, to: str, message: Message) -> None:
        """Encode, note, and hand to the session; wait while it keeps too much."""
        kind = type(message)
        if (refusal := self._policy.refuse(kind.__name__)) is not None:
            raise PartyError(refusal)
        frame = self.codec.encode(message)
        session = await self._room_for(to, len(frame))
        # The line comes first: a line without a frame, after a crash, is the smaller evil.
        self.detector.message("sent", to, kind.__name__, getattr(message, "round", -1), len(frame))
        self.ledger.count(to, "sent", kind, len(frame))
        self._put(to, session, frame)
        # The writer's turn: whatever the program does next may take long.
        await self._yield_to_io()

    async def _room_for(self, to: str, size: int) -> Session:
        """The session to a peer, once it can take so much."""
        self._check()
        session = self._session(to)
        if not session.has_room(size, self.limits):
            await self._wait_for_room(session, to, size)
        return session

    def _put(self, to: str, session: Session, frame: bytearray, last: bool = False) -> None:
        session.put(frame, last)
        if (connection := self.connections.get(to)) is not None:
            connection.wake()

    async def _wait_for_room(self, session: Session, to: str, size: int) -> None:
        self.blocked = True
        self.room.set()
        try:
            with self.detector.waiting(lambda: f"{to}: to take in what was sent"):
                while not session.has_room(size, self.limits):
                    await self._wait_for_change()
        finally:
            self.blocked = False
            self.detector.arrived(to)

    def _session(self, to: str) -> Session:
        session = self.roster.peers[to].session
        assert session is not None, "nothing is sent before the beginning"
        return session

    async def receive(
        self, until: int | None = None, waiting_for: Callable[[], str] | None = None
    ) -> tuple[str, Message] | None:
        """Take the next message, or wait for one."""
        self._check()
        if not self.inbox:
            began_ns = self.now()
            wakes = alarm(self.changed, None if until is None else until - began_ns)
            with self.detector.waiting(waiting_for or (lambda: "any message")), wakes:
                while not self.inbox:
                    if until is not None and self.now() >= until:
                        return None
                    await self._wait_for_change()
            self._yielded_ns = self.now()
            self.timeline.add("wait", began_ns, self._yielded_ns)
        sender, message, size = self.inbox.popleft()
        self.inbox_bytes -= size
        self.room.set()
        kind = type(message)
        if (refusal := self._policy.refuse_received(kind.__name__)) is not None:
            fault = f"{sender} sent what {self.me} does not take: {refusal}"
            raise BreachError(sender, fault)
        self.ledger.count(sender, "received", kind, size)
        self.detector.message(
            "received", sender, kind.__name__, getattr(message, "round", -1), size
        )
        return sender, message

    def refused(self, peer: str, reason: str) -> None:
        """A party does not fit the job and was told so; it may come again."""
        self.detector.refused(peer, reason)

    def agree(self) -> None:
        """From here on a party that fails ends the job."""
        self.agreed = True
        self._gathering_since_ns = None

    def expel(self, breach: BreachError) -> None:
        """Refuse a passive party and begin again; a passive party cannot go on without the other.

        The server counts whom it turns out."""
        connection = self.connections.get(breach.peer)
        if connection is None or not self.leads:
            self.detector.refused(breach.peer, str(breach))
        if not self.leads:
            raise breach
        if connection is not None:
            connection.refuse(str(breach))
        self.roster.expel(breach.peer, f"{breach.peer} was refused")

    def pending(self) -> int:
        """Messages that are here, or the news that all begin again, or end."""
        return len(self.inbox) + (self.regroup_reason is not None) + (self.fault is not None)

    async def sleep(self, ns: int) -> None:
        """Let time pass."""
        await asyncio.sleep(ns / 1e9)

    async def compute(self, work: Callable[[], T], kind: Work) -> T:
        """Do the work in the compute thread; what has always been short of late at once."""
        self._fresh = self._fresh and kind in UNCHARGED
        began_ns = self.now()
        if self._compute_thread.is_short(kind):
            if began_ns - self._yielded_ns > YIELD_AFTER_NS:
                await self._yield_to_io()
            result = self._compute_thread.run_inline(work, kind)
        else:
            result = await self._compute_thread.run(work, kind)
        self.timeline.add(NAMES[kind], began_ns, self.now())
        return result

    async def _yield_to_io(self) -> None:
        """Let the readers and writers have a turn."""
        await asyncio.sleep(0)
        self._yielded_ns = self.now()

    @contextmanager
    def off_clock(self, in_order: bool = False) -> Iterator[None]:
        """Over the network everything takes the time it takes, and comes in order."""
        yield

    async def part(self, settled: Callable[[], None]) -> None:
        """Passive parties say goodbye and hear the active one's, which speaks when all have."""
        if not self.leads:
            await self._say_goodbye()
        try:
            with self.detector.waiting(self._lingering):
                while len(self.goodbyes) < len(self.peers):
                    await self._wait_for_change()
        except AbsentError as fault:
            if self.leads:
                raise
            raise Over(f"{fault}; nothing was left to do but to say goodbye") from None
        settled()
        if self.leads:
            self.ended = "the job is complete"
            await self._say_goodbye()
        for peer, connection in self.connections.items():
            connection.send_urgent(self._session(peer).acknowledge())
        with suppress(AbsentError):  # Nobody needs whoever has gone now.
            await self._linger()

    async def _linger(self) -> None:
        until_ns = self.now() + self.detector.finish_ns
        with self.detector.waiting(self._lingering), alarm(self.changed, self.detector.finish_ns):
            while self._unheard() and self.now() < until_ns:
                await self._wait_for_change(check=False)

    def _unheard(self) -> bool:
        """Whether somebody may not have heard the goodbye: the active party waits for the answers,
        a passive one for the active party to end the connection."""
        if not self.leads:
            return bool(self.connections)
        return any(
            self._session(peer).unacknowledged for peer in self.peers if peer not in self.told_ended
        )

    def _lingering(self) -> str:
        waiting = [peer for peer in self.peers if peer not in self.goodbyes]
        return f"{', '.join(waiting or self.peers)}: to say goodbye"

    async def _say_goodbye(self) -> None:
        for peer in self.peers:
            frame = bytearray(self.receipt(peer) or b"goodbye")
            self._put(peer, await self._room_for(peer, len(frame)), frame, last=True)

    async def drain(self) -> None:
        """Wait until those who are there have all that was sent, so that nothing is half said."""
        until_ns = self.now() + DRAIN_NS
        while self.now() < until_ns and any(
            connection.session.unacknowledged
            for connection in self.connections.values()
            if connection.session
        ):
            await asyncio.sleep(POLL_S)

    def close(self) -> None:
        """Let go of the compute thread."""
        self._compute_thread.close()
