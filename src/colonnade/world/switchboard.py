"""The side of a party that faces its connections: a reader and a writer for each.

They move segments between the connections and the sessions. What is whole goes into one inbox; a
full inbox stops the readers, and with them, through the transport's flow control, the senders.
"""

from __future__ import annotations

import asyncio
from collections import deque

from colonnade.errors import PartyError
from colonnade.job.records import Job
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Message
from colonnade.world.line import Emulation, Outlet, Stream
from colonnade.world.roster import Roster
from colonnade.world.session import Frame, Kind, Segment, Session
from colonnade.world.watch import Watch

BEAT_S = 1.0
"""How often a party says that it is there."""
OVERFLOW = 16
"""How many times over its bound an inbox may grow while its party is blocked in a send."""
ENDED = 1
"""The flag of a LEAVE that says that the job is over."""


class Switchboard:
    """A party's connections, sessions and inbox."""

    def __init__(
        self,
        job: Job,
        me: str,
        watch: Watch,
        incarnation: int,
        emulation: Emulation | None,
    ) -> None:
        self.me = me
        self.leads = me == job.active
        self.peers = job.passives if self.leads else (job.active,)
        self.watch = watch
        self.limits = job.limits
        self.codec = Codec(job.limits.message_bytes)
        self.inbox: deque[tuple[str, Message, int]] = deque()
        """Messages that have come, with their senders and sizes."""
        self.goodbyes: dict[str, bytes] = {}
        """The receipts of those who have said goodbye."""
        self.outlets: dict[str, Outlet] = {}
        """The connections that are open, by peer."""
        self.ended: str | None = None
        """The job is over, and why; whoever joins now is told so."""
        self.why: str | None = None
        """Why all begin again, until the program does."""
        self.fault: PartyError | None = None
        """Why the program must end."""
        self.stirred = asyncio.Event()
        """Something has happened that the program may wait for."""
        self.room = asyncio.Event()
        """Something was taken out of the inbox."""
        self.blocked = False
        """The program waits in a send: the inbox may overflow, so that both ends do not."""
        self._emulation = emulation
        self.roster = Roster(
            self.peers,
            self.leads,
            lambda generation: Session(generation, job.limits.message_bytes),
            self._regroup,
            incarnation,
            ordered=False,
        )

    def _regroup(self, why: str) -> None:
        self.why = why
        self.inbox.clear()
        self.goodbyes.clear()
        for name, outlet in self.outlets.items():
            outlet.session = self.roster.peers[name].session
        self.room.set()
        self.stirred.set()

    def fail(self, fault: PartyError) -> None:
        """Let the program end with this, wherever it waits."""
        self.fault = self.fault or fault
        self.room.set()
        self.stirred.set()

    async def serve(self, peer: str, stream: Stream, first: Segment | None) -> None:
        """Move segments over a connection until it ends; `first` is one read already."""
        outlet = Outlet(stream, self.roster.peers[peer].session, self._emulation)
        self.outlets[peer] = outlet
        self.watch.connected(peer)
        if not self.leads:
            outlet.say(self.roster.join())
        if outlet.session is not None:
            outlet.session.rewind()
        writer = asyncio.ensure_future(outlet.run())
        try:
            if first is not None:
                await self._take(peer, outlet, first)
            while (raw := await stream.read()) is not None:
                self.watch.heard(peer)
                await self._take(peer, outlet, Segment.decode(raw))
        finally:
            writer.cancel()
            if self.outlets.get(peer) is outlet:
                del self.outlets[peer]
                self.watch.lost(peer)
            self.stirred.set()

    async def _take(self, peer: str, outlet: Outlet, segment: Segment) -> None:
        if segment.kind in (Kind.REFUSE, Kind.FAIL, Kind.LEAVE):
            self._told(peer, segment)
            return
        if self.ended is not None and segment.kind == Kind.JOIN:
            outlet.say(Segment(Kind.LEAVE, flags=ENDED, data=self.ended.encode()))
            return
        frames, answers = self.roster.take(peer, segment)
        outlet.session = self.roster.peers[peer].session
        for answer in answers:
            outlet.say(answer)
        for frame in frames:
            self._deliver(peer, frame)
        session = outlet.session
        if session is not None and session.owes:
            outlet.say(session.acknowledge())
        outlet.stir()
        self.stirred.set()
        while frames and self._crowded():
            self.room.clear()
            await self.room.wait()

    def _crowded(self) -> bool:
        bound = self.limits.queue_messages * (OVERFLOW if self.blocked else 1)
        return len(self.inbox) >= bound and self.why is None and self.fault is None

    def _deliver(self, peer: str, frame: Frame) -> None:
        if frame.last:
            self.goodbyes[peer] = bytes(frame.data)
        else:
            self.inbox.append((peer, self.codec.decode(frame.data), len(frame.data)))

    def _told(self, peer: str, segment: Segment) -> None:
        text = segment.text()
        if segment.kind == Kind.LEAVE and segment.flags:
            self.ended = text
            self.stirred.set()
        elif segment.kind == Kind.LEAVE:
            self.watch.left(peer, text)
        elif segment.kind == Kind.REFUSE:
            self.fail(PartyError(f"{peer} refused: {text}"))
        else:
            self.fail(PartyError(text if text.startswith(f"{peer} ") else f"{peer} failed: {text}"))

    async def beat(self) -> None:
        """Say to everybody that one is there, and look who is not, until cancelled."""
        while True:
            await asyncio.sleep(BEAT_S)
            for peer, outlet in list(self.outlets.items()):
                if outlet.session is not None:
                    outlet.say(outlet.session.acknowledge())
                if self.watch.silent(peer):
                    outlet.stream.close()
            self.watch.report.tick()
            fault = self.watch.look(self.peers)
            if fault is not None:
                self.fail(fault)

    async def tell(self, kind: Kind, text: str) -> None:
        """Say something to everybody that ends this party's part, and give it time to leave."""
        for outlet in self.outlets.values():
            outlet.say(Segment(kind, data=text.encode()[:2000]))
        await asyncio.sleep(0.2 if self.outlets else 0)
