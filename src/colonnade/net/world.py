"""The network world: one party in this process, its peers over connections that may break.

Everything runs in one asyncio loop. The party's program waits in `receive` and `send`;
`Connections` moves segments between it and the peers; heavy work runs in the compute thread, so
that sending and receiving go on meanwhile.
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
from colonnade.net.sends import Sent
from colonnade.net.session import Session
from colonnade.party.world import NAMES, UNCHARGED, Over, Regrouped, Work
from colonnade.record.events import Event, Waited, Worked
from colonnade.record.exchanges import Exchanges
from colonnade.record.timeline import Timeline
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import Message

T = TypeVar("T")

POLL_S, DRAIN_NS = 0.01, 5_000_000_000
"""When a party stops: how often it checks that everything is acknowledged, and for how long."""
YIELD_AFTER_NS = 300_000
"""How long inline work may keep the event loop before the connections get a turn."""


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
        """`generation` is the first one of an active party's process; see `new_generation`."""
        super().__init__(job, me, detector, incarnation, emulation, generation)
        self.ledger = Ledger()
        self.timeline = Timeline()
        self.exchanges = Exchanges()
        self.receipt: Callable[[str], bytes] = lambda peer: b""
        """What this party's goodbye to a peer carries."""
        self.settled: Callable[[], None] = lambda: None
        """Called when it is certain that everybody is done, and before others rely on it."""
        self._fresh = True
        """Nothing was computed since the parties began, so a stop needs no checkpoint."""
        self._gathering_since_ns: int | None = None
        """Since when the parties have been trying to begin; None once they agree."""
        self._policy = policy or Policy()
        self._compute_thread = ComputeThread(detector.now)
        self._yielded_ns = 0
        self._interrupted = False

    def now(self) -> int:
        return self.detector.now()

    def tell(self, event: Event) -> None:
        self.exchanges(event)
        self.detector.tell(event)

    def token(self) -> str:
        return token_hex(16)

    async def begin(self) -> None:
        """Wait until there is a session with every peer in the newest generation."""
        self._fresh = True
        # It was meant for a program that runs no more.
        self._interrupted = False
        # `agree` resets this. Parties that begin again and again without ever agreeing, because one
        # of them crashes each time, would otherwise never come to an end.
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
        self._note_sends(all_of_them=True)
        # What one end sends from here on is what the other receives from there on.
        now_ns, generation = self.now(), str(self.roster.generation)
        self.timeline.add("begin", now_ns, now_ns, message=generation)

    def _absent(self) -> str:
        missing = [name for name, peer in self.roster.peers.items() if peer.session is None]
        return f"{', '.join(missing)}: to join"

    async def _wait_for_change(self, check: bool = True) -> None:
        """Wait until anything happens, and raise what the program has to know.

        Between the caller's condition and `clear` nothing is awaited, so no event is lost.
        """
        self._check(check)
        self.changed.clear()
        await self.changed.wait()
        self._check(check)

    def _check(self, regroups: bool = True) -> None:
        """Raise what the program has to know before anything else.

        A stop is raised here only where nothing needs saving; otherwise the program itself looks
        at `stopping`, and stops at a barrier.
        """
        if self.fault is not None:
            raise self.fault
        if regroups and self.regroup_reason is not None:
            raise Regrouped(self.regroup_reason)
        if self.stopping is not None and self._fresh:
            raise StoppedError(f"stopped as planned before a round was begun: {self.stopping}")

    async def send(self, to: str, message: Message) -> None:
        kind = type(message)
        if (refusal := self._policy.refuse(kind.__name__)) is not None:
            raise PartyError(refusal)
        frame = self.codec.encode(message)
        session = await self._room_for(to, len(frame))
        # The ledger comes first: after a crash, an entry without a message is a smaller evil than a
        # message without an entry.
        sent = Sent(
            to, kind.__name__, getattr(message, "round", -1), len(frame), self.detector.now()
        )
        self.detector.message("sent", to, sent.kind, sent.round, sent.size)
        self.ledger.count(to, "sent", kind, sent.size)
        self._put(to, session, frame)
        self.sends.queued(session, sent)
        # Let the writer send it now: whatever the program does next may take long.
        await self._yield_to_io()

    async def _room_for(self, to: str, size: int) -> Session:
        """The session with a peer, once a frame of this size may be queued."""
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
        # Paused readers go on, up to `OVERFLOW` times the bound: the peer may be blocked in a send
        # to this party, until its messages are read and acknowledged here.
        self.blocked = True
        self.room.set()
        began_ns = self.now()
        try:
            with self.detector.waiting(lambda: f"{to}: to take in what was sent"):
                while not session.has_room(size, self.limits):
                    await self._wait_for_change()
        finally:
            self.blocked = False
            self.detector.arrived(to)
            self._waited(began_ns, self.now(), to)

    def _session(self, to: str) -> Session:
        session = self.roster.peers[to].session
        assert session is not None, "nothing is sent before the beginning"
        return session

    async def receive(
        self, until: int | None = None, waiting_for: Callable[[], str] | None = None
    ) -> tuple[str, Message] | None:
        self._check()
        if not self.inbox and not await self._wait_for_message(until, waiting_for):
            return None
        sender, message, size, came_ns = self.inbox.popleft()
        self.inbox_bytes -= size
        self.room.set()
        kind = type(message)
        if (refusal := self._policy.refuse_received(kind.__name__)) is not None:
            fault = f"{sender} sent what {self.me} does not take: {refusal}"
            raise BreachError(sender, fault)
        self.ledger.count(sender, "received", kind, size)
        round = getattr(message, "round", -1)
        self.detector.message("received", sender, kind.__name__, round, size)
        came_ns -= self.detector.begun_ns
        more = round + 1, size, sender, kind.__name__
        self.timeline.add("receive", came_ns, self.now(), *more)
        self._note_sends()
        return sender, message

    async def _wait_for_message(
        self, until: int | None, waiting_for: Callable[[], str] | None
    ) -> bool:
        """Whether one is here; False when the instant came first, or an interruption."""
        began_ns = self.now()
        wakes = alarm(self.changed, None if until is None else until - began_ns)
        try:
            with self.detector.waiting(waiting_for or (lambda: "any message")), wakes:
                while not self.inbox:
                    if self._interrupted or (until is not None and self.now() >= until):
                        self._interrupted = False
                        return False
                    await self._wait_for_change()
            return True
        finally:
            self._yielded_ns = self.now()
            # Who was waited for is whose message has ended it.
            peer = self.inbox[0][0] if self.inbox else ""
            self._waited(began_ns, self._yielded_ns, peer)

    def _waited(self, began_ns: int, ended_ns: int, peer: str) -> None:
        self.timeline.add("wait", began_ns, ended_ns, peer=peer)
        self.tell(Waited(self.me, began_ns, "wait", ended_ns, peer=peer))

    def _note_sends(self, all_of_them: bool = False) -> None:
        """Put what has left into the timeline; only while nothing is computed, which may be what
        reads it."""
        if all_of_them:
            self.sends.settle()
        begun_ns = self.detector.begun_ns
        for sent, until_ns in self.sends.taken():
            more = sent.round + 1, sent.size, sent.peer, sent.kind
            self.timeline.add("send", sent.queued_ns - begun_ns, until_ns - begun_ns, *more)

    def interrupt(self) -> None:
        self._interrupted = True
        self.changed.set()

    def refused(self, peer: str, reason: str) -> None:
        self.detector.refused(peer, reason)

    def agree(self, start: int) -> None:
        self.agreed = True
        self._gathering_since_ns = None

    def expel(self, breach: BreachError) -> None:
        # A connection that is refused ends with a `WireError` in the server, which counts it.
        connection = self.connections.get(breach.peer)
        if connection is None or not self.leads:
            self.detector.refused(breach.peer, str(breach))
        # A passive party cannot go on without the active one.
        if not self.leads:
            raise breach
        if connection is not None:
            connection.refuse(str(breach))
        self.roster.expel(breach.peer, f"{breach.peer} was refused")

    def pending(self) -> int:
        # What `receive` would raise at once counts too.
        return len(self.inbox) + (self.regroup_reason is not None) + (self.fault is not None)

    async def sleep(self, ns: int) -> None:
        await asyncio.sleep(ns / 1e9)

    async def compute(self, work: Callable[[], T], kind: Work, round: int = -1) -> T:
        """Run the work in the compute thread, or inline where work of its kind has been short."""
        self._fresh = self._fresh and kind in UNCHARGED
        self._note_sends(all_of_them=kind == Work.SAVE)
        if kind == Work.SAVE:
            self._flush()
        began_ns = self.now()
        if self._compute_thread.is_short(kind):
            if began_ns - self._yielded_ns > YIELD_AFTER_NS:
                await self._yield_to_io()
            result = self._compute_thread.run_inline(work, kind)
        else:
            result = await self._compute_thread.run(work, kind)
        ended_ns = self.now()
        self.timeline.add(NAMES[kind], began_ns, ended_ns, round + 1)
        self.tell(Worked(self.me, began_ns, NAMES[kind], ended_ns, round))
        return result

    def _flush(self) -> None:
        """Put on disk what has led to a state that is about to be saved: a process that is killed
        right after goes on from that state, and would never know what came before."""
        for recording in (self.timeline, self.exchanges):
            known = recording.fault
            recording.flush()
            if recording.fault is not None and known is None:
                self.detector.note(recording.fault)

    async def _yield_to_io(self) -> None:
        """Give the readers and writers a turn."""
        await asyncio.sleep(0)
        self._yielded_ns = self.now()

    @contextmanager
    def off_clock(self, in_order: bool = False) -> Iterator[None]:
        # Over the network everything takes the time it takes, and arrives in order.
        yield

    async def part(self) -> None:
        """Exchange goodbyes: the passive parties first, the active one when it has all of theirs.

        So a passive party that has the active party's goodbye knows that everybody is done.
        """
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
        self.settled()
        # `ended` comes first: a passive party that crashed and comes back now is told that the job
        # is complete, and does not make everybody begin again.
        if self.leads:
            self.ended = "the job is complete"
            await self._say_goodbye()
        # No data follows that could carry the acknowledgement of the goodbye.
        for peer, connection in self.connections.items():
            connection.send_urgent(self._session(peer).acknowledge())
        with suppress(AbsentError):  # Everybody is done: a peer that has gone is not missed.
            await self._linger()

    async def _linger(self) -> None:
        until_ns = self.now() + self.detector.finish_ns
        with self.detector.waiting(self._lingering), alarm(self.changed, self.detector.finish_ns):
            while self._unheard() and self.now() < until_ns:
                await self._wait_for_change(check=False)

    def _unheard(self) -> bool:
        """Whether a peer may not have the goodbye yet: the active party waits for acknowledgements,
        a passive one until the active party closes the connection."""
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
        """Wait until the connected peers have acknowledged everything that was sent."""
        until_ns = self.now() + DRAIN_NS
        while self.now() < until_ns and any(
            connection.session.unacknowledged
            for connection in self.connections.values()
            if connection.session
        ):
            await asyncio.sleep(POLL_S)

    def close(self) -> None:
        """Release the compute thread."""
        self._compute_thread.close()
