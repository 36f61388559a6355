"""A party's connections: a reader and a writer task for each, and one inbox.

The tasks move segments between the connections and the sessions. Complete messages go into the
inbox; a full inbox pauses the readers, and through the transport's flow control the senders.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial

from colonnade.errors import ColonnadeError, PartyError, RefusedError, StoppedError, WireError
from colonnade.job.records import Job
from colonnade.net.detector import FailureDetector
from colonnade.net.link import Connection, Emulation, Stream
from colonnade.net.roster import Roster
from colonnade.net.sends import Sends
from colonnade.net.session import ACK_EVERY_FRAMES, Frame, Kind, Segment, Session
from colonnade.record.events import Disconnected, PeerFailed
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Message

HEARTBEAT_S = 1.0
"""The interval between two heartbeats."""
OVERFLOW = 16
"""How many times over its bound an inbox may grow while its party is blocked in a send."""
ALONE_HEARTBEATS = 5
"""A party that is to stop waits for so many heartbeats for a peer that is away, and no longer."""
LEAVING_S = 0.2
"""How long a last segment may take to be written."""
ENDED = 1
"""The flag of a LEAVE segment that says that the job is over."""


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
        self.inbox: deque[tuple[str, Message, int, int]] = deque()
        """Received messages, with their senders and sizes, and when they came."""
        self.sends = Sends(detector.now)
        self.inbox_bytes = 0
        self.goodbyes: dict[str, bytes] = {}
        """The receipts of the peers that have said goodbye."""
        self.connections: dict[str, Connection] = {}
        """The open connections, by peer."""
        self.ended: str | None = None
        """Why the job is over, None as long as it is not; whoever joins later is told this."""
        self.told_ended: set[str] = set()
        """The peers that came back after the end and were told so."""
        self.regroup_reason: str | None = None
        """Why all parties begin again; None once this party's program does."""
        self.agreed = False
        """Whether all parties agree on the job; before that, a peer may fail and come back."""
        self.fault: ColonnadeError | None = None
        """The error with which the program must end."""
        self.changed = asyncio.Event()
        """Set when anything happens that the program may be waiting for."""
        self.room = asyncio.Event()
        """Set when paused readers should look again whether there is room in the inbox."""
        self.stopping: str | None = None
        """Why this party is asked to stop; None as long as it is not."""
        self._alone = 0
        """For how many heartbeats in a row this party has been asked to stop with a peer away."""
        self._leaving = False
        """This party has announced its end, so connections that close are expected."""
        self._stops_together = job.recovery.on_stop == "stop"
        self.blocked = False
        """The program is blocked in a send. The inbox may then grow over its bound: two parties
        blocked in sends to each other could otherwise never go on."""
        self._emulation = emulation
        self.roster = Roster(
            self.peers,
            self.leads,
            self._open_session,
            self._regroup,
            incarnation,
            first=generation,
        )

    def _open_session(self, generation: int) -> Session:
        # The other end stops at `queue_messages` unacknowledged ones. An ACK after half of them is
        # there in time for it to go on without waiting for a heartbeat.
        every = min(ACK_EVERY_FRAMES, -(-self.limits.queue_messages // 2))
        return Session(generation, self.limits.message_bytes, ack_every=every)

    def _regroup(self, why: str) -> None:
        self.regroup_reason = why
        self.agreed = False
        # Messages of the generation before do not count any more, nor do its goodbyes.
        self.inbox.clear()
        self.inbox_bytes = 0
        self.goodbyes.clear()
        news = self.roster.announcements()
        # Connections outlive generations: each goes on with the peer's new session.
        for name, connection in self.connections.items():
            connection.session = self.roster.peers[name].session
            if name in news:
                connection.send_urgent(news[name])
        self.room.set()
        self.changed.set()

    def fail(self, fault: ColonnadeError) -> None:
        """End the program with this error, wherever it waits; the first error counts."""
        self.fault = self.fault or fault
        self.room.set()
        self.changed.set()

    async def serve(self, peer: str, stream: Stream, first: Segment | None) -> None:
        """Move segments over a connection until it ends; `first` is a segment read already.

        The connection replaces an open one to the same peer.
        """
        connection = Connection(stream, self.roster.peers[peer].session, self._emulation)
        connection.written = partial(self.sends.written, peer)
        # The old writer must take nothing more from the session: two would mix up its segments.
        if (old := self.connections.get(peer)) is not None:
            old.retire()
        self.connections[peer] = connection
        self.detector.connected(peer)
        if not self.leads:
            connection.send_urgent(self.roster.join())
        # Nobody knows what of the last connection arrived, so everything unacknowledged goes again;
        # the other end drops what it has.
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
                # Raises what the reader did: a peer that breaks the protocol is refused by the
                # caller, which knows how.
                reader.result()
            elif writer.done() and writer.exception() is not None:
                self.detector.tell_of(peer, Disconnected, _cause(writer))
        finally:
            connection.retire()
            # One that was replaced is not lost.
            if self.connections.get(peer) is connection:
                del self.connections[peer]
                if self.ended is None and not self._leaving:
                    self.detector.lost(peer)
            self.changed.set()
            try:
                # gRPC accepts no write, such as the caller's refusal, while another is in progress;
                # and one that was cancelled stays in progress. So the writer ends by itself first.
                await asyncio.wait([writer], timeout=LEAVING_S)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, peer: str, connection: Connection, first: Segment | None) -> None:
        """Take in segments until the stream ends or the connection is being closed."""
        if first is not None:
            self.detector.heard(peer)
            await self._take(peer, connection, first)
        while (raw := await connection.stream.read()) is not None:
            if connection.closing.is_set():
                return
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
        # A new process would begin a new generation, for which nobody is left after the end. The
        # process that was there before may still need the goodbye, and goes on with its session.
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
                # Not acknowledged: the sender must not believe that a message was taken in.
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
        # Not reading is what stops the other end, through HTTP/2 flow control.
        while frames and self._inbox_full():
            connection.paused = True
            self.room.clear()
            await self.room.wait()
        if connection.paused:
            connection.paused = False
            # Its heartbeats were not read meanwhile, which is no silence of the peer.
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
            self.inbox.append((peer, message, len(frame.data), self.detector.now()))
            self.inbox_bytes += len(frame.data)

    def _take_last_word(self, peer: str, segment: Segment) -> None:
        """Handle the segment with which a peer ends its part, or this party's."""
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
            # Refused before it joined, a party was started wrongly (exit code 2).
            began = self.roster.generation > 0
            self.fail((PartyError if began else RefusedError)(f"{peer} refused: {text}"))
        elif self.detector.patient:
            self.detector.left(peer, f"it failed, and may come again: {text}")
        elif self.leads and not self.agreed:
            self.detector.tell_of(peer, PeerFailed, text)
        else:
            self.fail(PartyError(text if text.startswith(f"{peer} ") else f"{peer} failed: {text}"))

    async def heartbeat(self) -> None:
        """Send heartbeats to all peers, and check who is missing, until cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            fault = self.detector.check(self.peers) or self._left_alone()
            for peer, connection in list(self.connections.items()):
                # The heartbeat is an ACK: it covers what was not worth an ACK of its own.
                if connection.session is not None:
                    connection.send_urgent(connection.session.acknowledge())
                if self.detector.silent(peer) and not connection.paused:
                    connection.closing.set()
            if fault is not None:
                self.fail(fault)

    def stop(self, why: str) -> None:
        """Ask the party to stop at the next barrier; the first reason counts."""
        if self.stopping is None:
            self.stopping = why
            self.detector.notice(f"stops at the next barrier: {why}")
            self.changed.set()

    def _left_alone(self) -> StoppedError | None:
        """Stop without a barrier where none can be reached, because a peer is away."""
        away = [peer for peer in self.peers if peer not in self.connections]
        self._alone = self._alone + 1 if away and self.stopping is not None else 0
        if self._alone < ALONE_HEARTBEATS:
            return None
        return StoppedError(
            f"stopped without a new checkpoint, because {', '.join(away)} is away: {self.stopping}"
        )

    async def announce(self, kind: Kind, text: str) -> None:
        """Send all peers a segment that ends this party's part, and give it time to be written:
        such segments are not acknowledged."""
        self._leaving = True
        for connection in self.connections.values():
            connection.send_urgent(Segment(kind, data=text.encode()[:2000]))
        latency_s = 0 if self._emulation is None else self._emulation.latency_ns / 1e9
        await asyncio.sleep(LEAVING_S + latency_s if self.connections else 0)


def _cause(task: asyncio.Future[None]) -> str:
    """Why a writer failed, in words."""
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__} {error}".strip()
