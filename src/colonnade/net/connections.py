"""The side of a party that faces its connections: a reader and a writer for each.

They move segments between the connections and the sessions. What is whole goes into one inbox; a
full inbox stops the readers, and with them, through the transport's flow control, the senders.
"""

from __future__ import annotations

import asyncio
from collections import deque

from colonnade.errors import ColonnadeError, PartyError, RefusedError, StoppedError, WireError
from colonnade.job.records import Job
from colonnade.net.detector import FailureDetector
from colonnade.net.link import Connection, Emulation, Stream
from colonnade.net.roster import Roster
from colonnade.net.session import ACK_EVERY_FRAMES, Frame, Kind, Segment, Session
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Message

HEARTBEAT_S = 1.0
"""How often a party says that it is there."""
OVERFLOW = 16
"""How many times over its bound an inbox may grow while its party is blocked in a send."""
ALONE_HEARTBEATS = 5
"""After so many beats a party that is to stop waits no more for one that is away."""
LEAVING_S = 0.2
"""How long the last word may take to leave."""
ENDED = 1
"""The flag of a LEAVE that says that the job is over."""


class Connections:
    """A party's connections, sessions and inbox."""

    def __init__(
        self,
        job: Job,
        me: str,
        detector: FailureDetector,
        incarnation: int,
        emulation: Emulation | None,
        generation: int,
    ) -> None:
        self.me = me
        self.leads = me == job.active
        self.peers = job.passives if self.leads else (job.active,)
        self.detector = detector
        self.detector.judges = self.leads
        self.limits = job.limits
        self.codec = Codec(job.limits.message_bytes)
        self.inbox: deque[tuple[str, Message, int]] = deque()
        """Messages that have come, with their senders and sizes."""
        self.inbox_bytes = 0
        self.goodbyes: dict[str, bytes] = {}
        """The receipts of those who have said goodbye."""
        self.connections: dict[str, Connection] = {}
        """The connections that are open, by peer."""
        self.ended: str | None = None
        """The job is over, and why; whoever joins now is told so."""
        self.told_ended: set[str] = set()
        """Who came back after the end and was told so."""
        self.regroup_reason: str | None = None
        """Why all begin again, until the program does."""
        self.agreed = False
        """All mean the same job; before, a party that fails is spared."""
        self.fault: ColonnadeError | None = None
        """Why the program must end."""
        self.changed = asyncio.Event()
        """Something has happened that the program may wait for."""
        self.room = asyncio.Event()
        """Something was taken out of the inbox."""
        self.stopping: str | None = None
        """Why somebody wants this party to stop; None as long as nobody does."""
        self._alone = 0
        self._leaving = False
        """This party has said its last word, and expects its connections to end."""
        self._stops_together = job.recovery.on_stop == "stop"
        self.blocked = False
        """The program waits in a send: the inbox may overflow, so that both ends do not."""
        self._emulation = emulation
        self.roster = Roster(
            self.peers,
            self.leads,
            self._open_session,
            self._regroup,
            incarnation,
            ordered=False,
            first=generation,
        )

    def _open_session(self, generation: int) -> Session:
        every = min(ACK_EVERY_FRAMES, -(-self.limits.queue_messages // 2))
        return Session(generation, self.limits.message_bytes, ack_every=every)

    def _regroup(self, why: str) -> None:
        self.regroup_reason = why
        self.agreed = False
        self.inbox.clear()
        self.inbox_bytes = 0
        self.goodbyes.clear()
        news = self.roster.announcements()
        for name, connection in self.connections.items():
            connection.session = self.roster.peers[name].session
            if name in news:
                connection.send_urgent(news[name])
        self.room.set()
        self.changed.set()

    def fail(self, fault: ColonnadeError) -> None:
        """Let the program end with this, wherever it waits."""
        self.fault = self.fault or fault
        self.room.set()
        self.changed.set()

    async def serve(self, peer: str, stream: Stream, first: Segment | None) -> None:
        """Move segments over a connection until it ends; `first` is one read already.

        It takes the place of a connection to the same peer: what that had on its way goes again.
        """
        connection = Connection(stream, self.roster.peers[peer].session, self._emulation)
        if (old := self.connections.get(peer)) is not None:
            old.retire()
        self.connections[peer] = connection
        self.detector.connected(peer)
        if not self.leads:
            connection.send_urgent(self.roster.join())
        if connection.session is not None:
            connection.session.rewind()
        reader = asyncio.ensure_future(self._read(peer, connection, first))
        writer = asyncio.ensure_future(connection.run())
        tasks = [reader, writer, asyncio.ensure_future(connection.closing.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if connection.refusal is not None:
                raise WireError(connection.refusal)
            if reader.done() and not reader.cancelled():
                reader.result()
            elif writer.done() and writer.exception() is not None:
                self.detector.broke(peer, _cause(writer))
        finally:
            connection.retire()
            if self.connections.get(peer) is connection:
                del self.connections[peer]
                if self.ended is None and not self._leaving:
                    self.detector.lost(peer)
            self.changed.set()
            try:
                # gRPC takes no other write before the one that is under way is done.
                await asyncio.wait([writer], timeout=LEAVING_S)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, peer: str, connection: Connection, first: Segment | None) -> None:
        """Take in what comes, until nothing comes any more or another connection is there."""
        if first is not None:
            self.detector.heard(peer)
            await self._take(peer, connection, first)
        while (
            raw := await connection.stream.read()
        ) is not None and not connection.closing.is_set():
            self.detector.heard(peer)
            await self._take(peer, connection, Segment.decode(raw))

    async def _take(self, peer: str, connection: Connection, segment: Segment) -> None:
        if segment.kind in (Kind.REFUSE, Kind.FAIL, Kind.LEAVE):
            if connection.said_last:
                raise WireError(f"a second {Kind(segment.kind).name}: one is the last word")
            connection.said_last = True
            self._take_last_word(peer, segment)
            return
        known = self.roster.peers[peer].incarnation
        if segment.kind == Kind.JOIN:
            if connection.incarnation not in (None, segment.number):
                raise WireError(f"{peer} came as another process on the same connection")
            connection.incarnation = segment.number
        if self.ended is not None and segment.kind == Kind.JOIN and segment.number != known:
            connection.send_urgent(Segment(Kind.LEAVE, flags=ENDED, data=self.ended.encode()))
            self.told_ended.add(peer)
            return
        frames, answers = self.roster.take(peer, segment)
        connection.session = self.roster.peers[peer].session
        for answer in answers:
            connection.send_urgent(answer)
        for frame in frames:
            try:
                self._deliver(peer, frame)
            except WireError:
                # What is no message was never here: it is not acknowledged.
                assert connection.session is not None
                connection.session.take_back()
                raise
        session = connection.session
        if session is not None and session.ack_due:
            connection.send_urgent(session.acknowledge())
        self.changed.set()
        if frames:
            # The program's turn, before the next read is prepared.
            await asyncio.sleep(0)
        while frames and self._inbox_full():
            connection.paused = True
            self.room.clear()
            await self.room.wait()
        if connection.paused:
            connection.paused = False
            self.detector.heard(peer)

    def _inbox_full(self) -> bool:
        over = OVERFLOW if self.blocked else 1
        many = len(self.inbox) >= self.limits.queue_messages * over
        large = self.inbox_bytes >= self.limits.queue_bytes * over
        return (many or large) and self.regroup_reason is None and self.fault is None

    def _deliver(self, peer: str, frame: Frame) -> None:
        if frame.last:
            self.goodbyes[peer] = bytes(frame.data)
            if not self.leads:
                self.ended = "the job is complete"
        else:
            message = self.codec.decode(frame.data)
            self.inbox.append((peer, message, len(frame.data)))
            self.inbox_bytes += len(frame.data)

    def _take_last_word(self, peer: str, segment: Segment) -> None:
        text = segment.text()
        if self.leads and (segment.kind == Kind.REFUSE or segment.flags):
            raise WireError(f"a {Kind(segment.kind).name} segment at the wrong end of a link")
        if segment.kind == Kind.LEAVE and segment.flags:
            self.ended = text
            self.changed.set()
        elif segment.kind == Kind.LEAVE:
            self.detector.left(peer, text)
            if self._stops_together:
                self.stop(f"{peer} stopped")
        elif segment.kind == Kind.REFUSE:
            began = self.roster.generation > 0
            self.fail((PartyError if began else RefusedError)(f"{peer} refused: {text}"))
        elif self.leads and not self.agreed:
            self.detector.failed(peer, text)
        else:
            self.fail(PartyError(text if text.startswith(f"{peer} ") else f"{peer} failed: {text}"))

    async def heartbeat(self) -> None:
        """Say to everybody that one is there, and look who is not, until cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            fault = self.detector.check(self.peers) or self._left_alone()
            for peer, connection in list(self.connections.items()):
                if connection.session is not None:
                    connection.send_urgent(connection.session.acknowledge())
                if self.detector.silent(peer) and not connection.paused:
                    connection.closing.set()
            if fault is not None:
                self.fail(fault)

    def stop(self, why: str) -> None:
        """Ask the party to stop at the next occasion."""
        if self.stopping is None:
            self.stopping = why
            self.detector.notice(f"stops at the next rest: {why}")
            self.changed.set()

    def _left_alone(self) -> StoppedError | None:
        """Who is to stop and cannot come to rest, because somebody is away, stops all the same."""
        away = [peer for peer in self.peers if peer not in self.connections]
        self._alone = self._alone + 1 if away and self.stopping is not None else 0
        if self._alone < ALONE_HEARTBEATS:
            return None
        return StoppedError(
            f"stopped without a new checkpoint, because {', '.join(away)} is away: {self.stopping}"
        )

    async def announce(self, kind: Kind, text: str) -> None:
        """Say something to everybody that ends this party's part, and give it time to leave."""
        self._leaving = True
        for connection in self.connections.values():
            connection.send_urgent(Segment(kind, data=text.encode()[:2000]))
        latency_s = 0 if self._emulation is None else self._emulation.latency_ns / 1e9
        await asyncio.sleep(LEAVING_S + latency_s if self.connections else 0)


def _cause(task: asyncio.Future[None]) -> str:
    """Why a writer has ended, in words."""
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__} {error}".strip()
