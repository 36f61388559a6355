"""Who is there, and in which generation: how parties begin together, and begin again.

A passive party that starts says JOIN with its incarnation, a number that grows with every start
of its process. The active party answers OPEN with the present generation, and both begin a
session. When a party that had begun comes back as a new incarnation, what it knew is lost: the
active party begins a new generation, tells everybody with OPEN, and all go back to a checkpoint.

Only the active party advances generations, and nobody can make it: it counts from a *first* one,
which is another each time its process starts. Both go with OPEN, and come back with JOIN. So a
passive party that knows an earlier process of the active party is told from one that claims what
was never given out, which is a breach. Nothing here depends on a clock, and what is late is told
by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from colonnade.errors import WireError
from colonnade.net.session import PROTOCOL, Frame, Kind, Segment, Session

OPEN_SESSION = Callable[[int], Session]
FIRST_MAX = 1 << 31
"""The highest first generation: above it, as many can still be begun."""


@dataclass(slots=True)
class Peer:
    """The other end of a link, as this party knows it."""

    name: str
    session: Session | None = None
    incarnation: int = -1
    """The newest start of that party that was heard of; only the active party keeps it."""
    gone: str | None = None
    """Why it left as planned, until it comes back."""


class Roster:
    """The generation and the sessions of one party.

    `on_regroup` is called with the sentence that says why everybody begins again.
    """

    def __init__(
        self,
        peers: Iterable[str],
        leads: bool,
        open_session: OPEN_SESSION,
        on_regroup: Callable[[str], None],
        incarnation: int = 0,
        ordered: bool = True,
        first: int = 1,
    ) -> None:
        self.leads = leads
        self.first = first if leads else 0
        """The first generation of this process of the active party."""
        self.generation = self.first
        """0 at a passive party that has not heard of one."""
        self.begun_again = False
        self.incarnation = incarnation
        self.peers = {name: Peer(name) for name in peers}
        self._ordered = ordered
        """Whether incarnations grow; over connections, which come one after another, another
        number is enough."""
        self._open_session = open_session
        self._on_regroup = on_regroup

    def join(self) -> Segment:
        """What a passive party says until it knows the generation, and on each connection."""
        return Segment(Kind.JOIN, self.generation, self.incarnation, self.first, PROTOCOL)

    def take(self, sender: str, segment: Segment) -> tuple[list[Frame], Sequence[Segment]]:
        """Take in a segment: frames for the party, and segments to answer with."""
        peer = self.peers[sender]
        if segment.kind in (Kind.DATA, Kind.ACK):
            if peer.session is None or segment.generation != peer.session.generation:
                return [], self._stranger(peer, segment)
            return peer.session.take(segment), ()
        if segment.kind == Kind.JOIN and self.leads:
            return [], self._joined(peer, segment)
        if segment.kind == Kind.OPEN and not self.leads:
            self._opened(peer, segment)
            return [], ()
        if segment.kind == Kind.WHO and not self.leads:
            return [], (self.join(),)
        raise WireError(f"a {Kind(segment.kind).name} segment at the wrong end of a link")

    def _stranger(self, peer: Peer, segment: Segment) -> Sequence[Segment]:
        """Something of another generation: at the active party, tell the sender of the present."""
        if not self.leads:
            return ()
        if peer.incarnation < 0:
            return (Segment(Kind.WHO, self.generation),)
        return (self._announce(peer),)

    def _announce(self, peer: Peer) -> Segment:
        return Segment(Kind.OPEN, self.generation, peer.incarnation, self.first)

    def _joined(self, peer: Peer, segment: Segment) -> Sequence[Segment]:
        generation, number, first = segment.generation, segment.number, segment.acknowledged
        # What an earlier process of this party gave out is unknown here, and of no consequence.
        if first == self.first and not first <= generation <= self.generation:
            raise WireError(f"a JOIN of generation {generation}, which nobody has begun")
        if self._ordered and number < peer.incarnation:
            return ()
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
        for peer in self.peers.values():
            known = peer.incarnation >= 0
            peer.session = self._open_session(self.generation) if known else None
        self._on_regroup(why)

    def expel(self, name: str, why: str) -> None:
        """At the active party: forget a party, and begin again, with it or another of its name."""
        self.peers[name].incarnation = -1
        self._begin_again(why)

    def announcements(self) -> dict[str, Segment]:
        """At the active party: OPEN for all who joined and have not spoken in this generation."""
        return {
            name: self._announce(peer)
            for name, peer in self.peers.items()
            if self.leads and peer.session is not None and not peer.session.begun
        }

    def _opened(self, peer: Peer, segment: Segment) -> None:
        if segment.number != self.incarnation or not self._is_news(segment):
            return
        self.begun_again = segment.generation > segment.acknowledged or self.generation > 0
        known = self.generation
        self.generation, self.first = segment.generation, segment.acknowledged
        peer.session = self._open_session(self.generation)
        if known:
            self._on_regroup(f"{peer.name} calls all together")

    def _is_news(self, opened: Segment) -> bool:
        first, generation = opened.acknowledged, opened.generation
        if first == self.first:
            return generation > self.generation
        return first > self.first or not self._ordered
