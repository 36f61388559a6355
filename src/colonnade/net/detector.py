"""A party's own clock: whom it waits for, since when, and until when.

Nobody's clock is compared with another's: a party knows when it last heard of a peer, by its own
clock, and gives up by the timeouts of the job. What happens is told to whoever has subscribed, and
what crosses is written into the chain of the party's ledger.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from colonnade.errors import AbsentError
from colonnade.job.records import Timeouts
from colonnade.net.budget import Budget
from colonnade.net.roster import FIRST_MAX
from colonnade.record.chain import Chain
from colonnade.record.events import (
    Connected,
    Disconnected,
    Event,
    Notice,
    PeerFailed,
    PeerLeft,
    Recorded,
    Refused,
    Resumed,
    Saved,
    Started,
    Subscriber,
    Waiting,
)
from colonnade.units import NS_PER, show_seconds
from colonnade.wire.ledger import Direction

SPEAKS_AFTER_NS = 2 * NS_PER["s"]
"""A wait shorter than this is nobody's business."""
TOLD_TIMES = 3
"""So many refusals of one party are told one by one; then the tenth, the hundredth, and so on."""
LATE_NS = 3 * NS_PER["s"]
"""A look that comes later than this after the last one: this process was stopped, not the peers."""


def wall_ns() -> int:
    """The time of day: for people and for a party's own records, never compared with others'."""
    return time.time_ns()


def new_incarnation() -> int:
    """A number for this start of a party's process, unlike any other."""
    return int.from_bytes(os.urandom(7), "little")


def new_generation() -> int:
    """The first generation of an active party's process, unlike that of any other."""
    return 1 + int.from_bytes(os.urandom(7), "little") % FIRST_MAX


@contextmanager
def alarm(event: asyncio.Event, in_ns: int | None) -> Iterator[None]:
    """Inside, whoever waits for the event is woken after this time; None: is not."""
    if in_ns is None:
        yield
        return
    handle = asyncio.get_running_loop().call_later(max(0, in_ns) / 1e9, event.set)
    try:
        yield
    finally:
        handle.cancel()


class FailureDetector:
    """The clock, and what it says of the peers."""

    def __init__(
        self,
        timeouts: Timeouts,
        me: str,
        subscribers: Sequence[Subscriber] = (),
        chain: Chain | None = None,
        elapsed_ns: int = 0,
    ) -> None:
        self.me = me
        self.begun_ns = 0
        """When the training began, by this clock: how long somebody was awaited before says nothing
        of it."""
        self._subscribers = subscribers
        self.finish_ns = timeouts.ns("finish")
        self.judges = True
        """Whether it is this party's to say who keeps all from going on: the active party's, which
        awaits the others. A passive party sees only that the active one does not answer."""
        self.refusals: dict[str, int] = {}
        """How often each party was refused."""
        self._timeouts = timeouts
        self._chain = chain
        self._one_at_a_time = Lock()
        """A checkpoint is noted in the compute thread, while a peer may say that it leaves."""
        self._zero_ns = time.monotonic_ns() - elapsed_ns
        self._heard: dict[str, int] = {}
        self._connected: dict[str, int] = {}
        """Since when there has been a connection; nothing may have been heard over it yet."""
        self._gone: dict[str, str] = {}
        """Who is not connected, and why."""
        self._budget = Budget()
        self._wait: tuple[int, Callable[[], str], bool] | None = None
        self._awaited: dict[str, int] = {}
        """Since when each has been waited for, whatever came from others meanwhile."""
        self._spoke = False
        self._looked_ns = self.now()

    def now(self) -> int:
        """Nanoseconds since the job began."""
        return time.monotonic_ns() - self._zero_ns

    def message(self, way: Direction, peer: str, kind: str, round: int, size: int) -> None:
        """A message was received, or is about to be sent."""
        if way == "received":
            self.arrived(peer)
        if self._chain is not None:
            with self._one_at_a_time:
                self._chain.message(wall_ns(), way, peer, kind, round, size)

    def tell(self, event: Event) -> None:
        """Write into the ledger what belongs there, then tell whoever has subscribed."""
        sentence = event.sentence()
        if event.recorded and self._chain is not None and sentence is not None:
            kept = event.round if isinstance(event, Saved) else None
            with self._one_at_a_time:
                self._chain.note(wall_ns(), sentence, kept=kept, again=_back_to(event))
        for subscriber in self._subscribers:
            subscriber(event)

    def time_ns(self) -> int:
        """Nanoseconds since the training began, for an event."""
        return self.now() - self.begun_ns

    def notice(self, text: str) -> None:
        """Tell something in words."""
        self.tell(Notice(self.me, self.time_ns(), text))

    def note(self, text: str) -> None:
        """Tell something in words that belongs into the ledger too."""
        self.tell(Recorded(self.me, self.time_ns(), text))

    def refused(self, peer: str, reason: str) -> None:
        """A party was refused: counted always, told as long as it is news."""
        times = self.refusals[peer] = self.refusals.get(peer, 0) + 1
        if times <= TOLD_TIMES or str(times).strip("0") == "1":
            self.tell(Refused(self.me, self.time_ns(), peer, reason, times))

    def _tell_of(self, peer: str, kind: Callable[..., Event], *said: str) -> None:
        """Tell what a peer does, as long as that is not too often."""
        more = self._budget.spend(peer, self.now())
        if more is not None:
            self.tell(kind(self.me, self.time_ns(), peer, *said, more=more))

    def arrived(self, peer: str) -> None:
        """What was awaited of a peer has come, or a part of it."""
        self._awaited.pop(peer, None)

    def heard(self, peer: str) -> None:
        """Something came from a peer."""
        self._heard[peer] = self.now()

    def heard_of(self, peer: str) -> int:
        """When something last came from a peer; -1 for never."""
        return self._heard.get(peer, -1)

    def connected(self, peer: str) -> None:
        """A connection to a peer was made."""
        self._gone.pop(peer, None)
        self._connected[peer] = self.now()
        self._tell_of(peer, Connected)

    def lost(self, peer: str) -> None:
        """The connection to a peer is gone; of one who has left nothing else was expected."""
        if peer not in self._gone:
            self._gone[peer] = "the connection is lost"
            self._tell_of(peer, Disconnected)

    def broke(self, peer: str, cause: str) -> None:
        """The connection to a peer cannot be written to any more."""
        self._tell_of(peer, Disconnected, cause)

    def left(self, peer: str, reason: str) -> None:
        """A peer stopped as planned."""
        self._gone[peer] = f"it left: {reason}"
        self._tell_of(peer, PeerLeft, reason)

    def failed(self, peer: str, reason: str) -> None:
        """A peer failed before anything depended on it."""
        self._tell_of(peer, PeerFailed, reason)

    def silent(self, peer: str) -> bool:
        """Whether nothing was heard of a peer for so long that its connection is given up."""
        last_ns = max(self._heard.get(peer, 0), self._connected.get(peer, 0))
        return self.now() - last_ns > self._timeouts.ns("silence")

    @contextmanager
    def waiting(self, what: Callable[[], str], joining: bool = False) -> Iterator[None]:
        """Inside, the party waits; `what` begins with the peers it waits for, and a colon."""
        self._wait = (self.now(), what, joining)
        try:
            yield
        finally:
            self._wait = None
            if self._spoke:
                self._spoke = False
                self.tell(Waiting(self.me, self.time_ns(), None))

    def check(self, peers: Sequence[str]) -> AbsentError | None:
        """Called every now and then: say what is waited for, and give up when it is time."""
        now_ns = self.now()
        gap_ns, self._looked_ns = now_ns - self._looked_ns, now_ns
        if gap_ns > LATE_NS:
            self._heard = {peer: at_ns + gap_ns for peer, at_ns in self._heard.items()}
            self._awaited = {peer: at_ns + gap_ns for peer, at_ns in self._awaited.items()}
        if self._wait is None:
            return None
        since_ns, what, joining = self._wait
        if gap_ns > LATE_NS:
            since_ns += gap_ns
            self._wait = (since_ns, what, joining)
        if joining and not self._heard:
            return self._judge(what(), now_ns - since_ns, "join", peers[0])
        named = [name for name in what().partition(":")[0].split(", ") if name in peers]
        quietest = min(named or peers, key=lambda peer: self._heard.get(peer, since_ns))
        silent_ns = now_ns - self._heard.get(quietest, since_ns)
        if quietest in self._gone or self.silent(quietest):
            never = quietest not in self._heard
            return self._judge(what(), silent_ns, "join" if never else "absence", quietest)
        if joining:
            return self._judge(what(), now_ns - since_ns, "join", quietest)
        self._awaited = {peer: self._awaited.get(peer, since_ns) for peer in named or peers}
        slowest = min(self._awaited, key=lambda peer: self._awaited[peer])
        return self._judge(what(), now_ns - self._awaited[slowest], "stall", slowest)

    def stall_ns(self) -> int:
        """How long a peer that lives is waited for.

        Whoever keeps the active party waiting keeps the passive parties waiting too, who cannot
        see it. They give the active party the time that it may need to find out and say so.
        """
        own = self._timeouts.ns("stall")
        others = max(own, self._timeouts.ns("absence"), self._timeouts.ns("join"))
        return own if self.judges else own + others

    def _judge(self, what: str, waited_ns: int, timeout: str, peer: str) -> AbsentError | None:
        limit_ns = self.stall_ns() if timeout == "stall" else self._timeouts.ns(timeout)
        left_ns = limit_ns - waited_ns
        if left_ns <= 0:
            after = show_seconds(limit_ns / NS_PER["s"])
            why = f" ({self._gone[peer]})" if peer in self._gone else ""
            return AbsentError(
                f"{peer} was awaited for {after} and did not come{why}; waited for {what} "
                f"(timeouts.{timeout}): see to {peer}, then start the same command again"
            )
        if waited_ns > SPEAKS_AFTER_NS:
            self._spoke = True
            heard_ns = self._heard.get(peer)
            heard = (
                "not heard yet"
                if heard_ns is None
                else f"last heard {_seconds(self.now() - heard_ns)} s ago"
            )
            why = f" ({self._gone[peer]})" if peer in self._gone else ""
            left = f"gives up in {_seconds(left_ns)} s"
            said = f"waiting for {what}{why}, {heard}, {left}"
            self.tell(Waiting(self.me, self.time_ns(), said))
        return None


def _back_to(event: Event) -> int | None:
    """The checkpoint from which the ledger counts on, where a party goes back to one."""
    if isinstance(event, Started) and event.again:
        return 0
    return event.round or None if isinstance(event, Resumed) else None


def _seconds(ns: int) -> int:
    return ns // NS_PER["s"]


def stamp() -> str:
    """The time of day for a log, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S")
