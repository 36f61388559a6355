"""Membership: which parties are there, in which generation, and how they begin again.

A passive party that starts sends JOIN with its incarnation, a number that identifies the start of
its process. The active party answers OPEN with the present generation, and both begin a session.
When a party that had begun comes back as a new incarnation, its state is lost: the active party
begins a new generation, announces it to everybody with OPEN, and all go back to a checkpoint.

Only the active party advances the generation. It counts from a *first* one, which differs each
time its process starts. OPEN carries both numbers, and JOIN returns them. So a passive party that
knows an earlier process of the active party is told apart from one that claims a generation that
was never begun, which is a breach. Nothing here depends on a clock; a segment that is late is
recognised by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from colonnade.errors import WireError
from colonnade.net.session import PROTOCOL, Frame, Kind, Segment, Session

OPEN_SESSION = Callable[[int], Session]
FIRST_MAX = 1 << 31
"""The highest first generation; the field has 32 bits, so as many again can follow it."""


@dataclass(slots=True)
class Peer:
    """The other end of a link, as this party knows it."""

    name: str
    session: Session | None = None
    incarnation: int = -1
    """That party's newest known incarnation, at the active party; -1 for none."""
    gone: str | None = None
    """Why it left as planned, until it comes back."""


class Roster:
    """The generation and the sessions of one party.

    `on_regroup` is called with the reason, in words, when all parties begin again.
    """

    def __init__(
        self,
        peers: Iterable[str],
        leads: bool,
        open_session: OPEN_SESSION,
        on_regroup: Callable[[str], None],
        incarnation: int = 0,
        first: int = 1,
    ) -> None:
        self.leads = leads
        self.first = first if leads else 0
        """The first generation of this process of the active party."""
        self.generation = self.first
        """The present generation; 0 at a passive party that has not joined yet."""
        self.begun_again = False
        """Whether the parties have begun more than once, as far as this party knows."""
        self.incarnation = incarnation
        self.peers = {name: Peer(name) for name in peers}
        self._open_session = open_session
        self._on_regroup = on_regroup

    def join(self) -> Segment:
        """The JOIN segment of a passive party."""
        return Segment(Kind.JOIN, self.generation, self.incarnation, self.first, PROTOCOL)

    def take(self, sender: str, segment: Segment) -> tuple[list[Frame], Sequence[Segment]]:
        """Take in a segment; return the frames it completes, and the segments to answer with."""
        peer = self.peers[sender]
        if segment.kind in (Kind.DATA, Kind.ACK):
            if peer.session is None or segment.generation != peer.session.generation:
                return [], self._other_generation(peer, segment)
            return peer.session.take(segment), ()
        if segment.kind == Kind.JOIN and self.leads:
            return [], self._joined(peer, segment)
        if segment.kind == Kind.OPEN and not self.leads:
            self._opened(peer, segment)
            return [], ()
        if segment.kind == Kind.WHO and not self.leads:
            return [], (self.join(),)
        raise WireError(f"a {Kind(segment.kind).name} segment at the wrong end of a link")

    def _other_generation(self, peer: Peer, segment: Segment) -> Sequence[Segment]:
        """Drop a segment of another generation; the active party announces the present one."""
        if not self.leads:
            return ()
        if peer.incarnation < 0:
            return (Segment(Kind.WHO, self.generation),)
        return (self._announce(peer),)

    def _announce(self, peer: Peer) -> Segment:
        return Segment(Kind.OPEN, self.generation, peer.incarnation, self.first)

    def _joined(self, peer: Peer, segment: Segment) -> Sequence[Segment]:
        generation, number, first = segment.generation, segment.number, segment.acknowledged
        # Which generations an earlier process of this party began is not known here, so a claim
        # about them can be neither checked nor harmful.
        if first == self.first and not first <= generation <= self.generation:
            raise WireError(f"a JOIN of generation {generation}, which nobody has begun")
        # A session with another incarnation: that process, and what it had received, is gone. The
        # same incarnation only reconnects, or repeats a JOIN whose answer was lost.
        lost = number != peer.incarnation and peer.session is not None
        peer.incarnation, peer.gone = number, None
        if lost:
            self._begin_again(f"{peer.name} started again")
        elif peer.session is None:
            peer.session = self._open_session(self.generation)
        return [self._announce(peer)]

    def _begin_again(self, why: str) -> None:
        self.generation += 1
        self.begun_again = True
        # A party that is not here gets its session when it joins.
        for peer in self.peers.values():
            known = peer.incarnation >= 0
            peer.session = self._open_session(self.generation) if known else None
        self._on_regroup(why)

    def expel(self, name: str, why: str) -> None:
        """At the active party: forget a peer's process and begin a new generation, which that peer
        has to join."""
        self.peers[name].incarnation = -1
        self._begin_again(why)

    def announcements(self) -> dict[str, Segment]:
        """At the active party: OPEN for each peer that joined and may not know the generation yet,
        since no frame has crossed in it."""
        return {
            name: self._announce(peer)
            for name, peer in self.peers.items()
            if self.leads and peer.session is not None and not peer.session.begun
        }

    def _opened(self, peer: Peer, segment: Segment) -> None:
        # An OPEN for an earlier process of this party, or one that came twice: to take it would
        # replace a session in use.
        if segment.number != self.incarnation or not self._is_new(segment):
            return
        self.begun_again = segment.generation > segment.acknowledged or self.generation > 0
        known = self.generation
        self.generation, self.first = segment.generation, segment.acknowledged
        peer.session = self._open_session(self.generation)
        # The first OPEN ends no earlier attempt: the program waits for it in `begin`.
        if known:
            self._on_regroup(f"{peer.name} calls all together")

    def _is_new(self, opened: Segment) -> bool:
        # Connections come one after another and deliver nothing late: any other first generation is
        # that of a new process.
        return opened.acknowledged != self.first or opened.generation > self.generation
