"""The failure detector: which peer a party waits for, since when, and until when.

No clock is compared with another host's: a party knows by its own when it last heard from a peer,
and gives up by the timeouts of the job. What happens is told to the subscribers, and what crosses
is written into the chain of the party's ledger.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock

from colonnade.errors import AbsentError, FailedError
from colonnade.job.records import Timeouts
from colonnade.net.budget import Budget
from colonnade.net.roster import FIRST_MAX
from colonnade.record.chain import Chain
from colonnade.record.events import (
    Connected,
    Disconnected,
    Event,
    Notice,
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
"""A shorter wait is not reported."""
TOLD_TIMES = 3
"""How many refusals of one party are reported one by one; then the 10th, the 100th, and so on."""
_EVER_NS = 2**62
LATE_NS = 3 * NS_PER["s"]
"""A check that comes later than this after the last one: this process was suspended, not the
peers."""


def wall_ns() -> int:
    """The wall clock: for people and for a party's own records, never compared with others'."""
    return time.time_ns()


def monotonic_ns() -> int:
    """A clock that nobody sets."""
    return time.monotonic_ns()


def new_incarnation() -> int:
    """A random number that identifies this start of a party's process."""
    return int.from_bytes(os.urandom(7), "little")


def new_generation() -> int:
    """A random first generation for this start of an active party's process."""
    return 1 + int.from_bytes(os.urandom(7), "little") % FIRST_MAX


@contextmanager
def alarm(event: asyncio.Event, in_ns: int | None) -> Iterator[None]:
    """Inside, set the event after this time; None: do not."""
    if in_ns is None:
        yield
        return
    handle = asyncio.get_running_loop().call_later(max(0, in_ns) / 1e9, event.set)
    try:
        yield
    finally:
        # A wait that ended early must leave no timer behind: it would hold the event until it is
        # due, and wake a later wait for nothing.
        handle.cancel()


class FailureDetector:
    """A party's clock, and which peers are connected, silent or awaited by it."""

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
        """When the training began, by this clock; the wait for all parties before it is no part of
        it."""
        self._subscribers = subscribers
        self.finish_ns = timeouts.ns("finish")
        self.judges = True
        """Whether this party can tell who stalls the job. The active party can, since it awaits the
        others; a passive party sees only that the active one does not answer."""
        self.patient = False
        """Whether this party serves others until it is stopped: it waits for ever for whoever is
        away, and what does not come is its program's business."""
        self.refusals: dict[str, int] = {}
        """How often each party was refused."""
        self._timeouts = timeouts
        self._chain = chain
        self._one_at_a_time = Lock()
        """For the chain: a checkpoint is recorded in the compute thread, while the event loop may
        record something else."""
        self._zero_ns = time.monotonic_ns() - elapsed_ns
        self._heard: dict[str, int] = {}
        """When something last came from each peer."""
        self._connected: dict[str, int] = {}
        """When each peer's newest connection was made; nothing may have come over it yet."""
        self._gone: dict[str, str] = {}
        """Why each peer that is not connected is not."""
        self._budget = Budget()
        self._wait: tuple[int, Callable[[], str], bool] | None = None
        """Since when the program has waited, for what, and whether for parties to join."""
        self._awaited: dict[str, int] = {}
        """Since when each peer has been awaited, whatever came from others meanwhile."""
        self._spoke = False
        """The present wait was reported, so its end is reported too."""
        self._looked_ns = self.now()

    def now(self) -> int:
        """Nanoseconds since the job began."""
        return time.monotonic_ns() - self._zero_ns

    def message(self, way: Direction, peer: str, kind: str, round: int, size: int) -> None:
        """Record a message that was received, or is about to be sent."""
        if way == "received":
            self.arrived(peer)
        if self._chain is not None:
            with self._one_at_a_time:
                self._chain.message(wall_ns(), way, peer, kind, round, size)

    def tell(self, event: Event) -> None:
        """Record an event in the ledger where it belongs there, then tell the subscribers."""
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
        """Tell the subscribers something in words."""
        self.tell(Notice(self.me, self.time_ns(), text))

    def note(self, text: str) -> None:
        """Tell the subscribers something in words, and record it in the ledger."""
        self.tell(Recorded(self.me, self.time_ns(), text))

    def record(self, text: str) -> None:
        """Record in the ledger what the subscribers hear of otherwise: how this party ended."""
        # A ledger that cannot be written has ended the party itself, and is what is told.
        if self._chain is not None:
            with self._one_at_a_time, suppress(FailedError):
                self._chain.note(wall_ns(), text)

    def refused(self, peer: str, reason: str) -> None:
        """Count a refusal, and report it unless many of the same party were."""
        times = self.refusals[peer] = self.refusals.get(peer, 0) + 1
        if times <= TOLD_TIMES or str(times).strip("0") == "1":
            self.tell(Refused(self.me, self.time_ns(), peer, reason, times))

    def tell_of(self, peer: str, kind: Callable[..., Event], *said: str) -> None:
        """Tell an event that a peer causes, within that peer's budget."""
        more = self._budget.spend(peer, self.now())
        if more is not None:
            self.tell(kind(self.me, self.time_ns(), peer, *said, more=more))

    def arrived(self, peer: str) -> None:
        """Note that what was awaited from a peer has come, or a part of it."""
        self._awaited.pop(peer, None)

    def heard(self, peer: str) -> None:
        """Note that a segment came from a peer."""
        self._heard[peer] = self.now()

    def heard_of(self, peer: str) -> int:
        """When a segment last came from a peer; -1 for never."""
        return self._heard.get(peer, -1)

    def connected_ns(self, peer: str) -> int | None:
        """When a peer's connection was made; None while there is none."""
        return None if peer in self._gone else self._connected.get(peer)

    def connected(self, peer: str) -> None:
        """Note a new connection to a peer."""
        self._gone.pop(peer, None)
        self._connected[peer] = self.now()
        self.tell_of(peer, Connected)

    def lost(self, peer: str) -> None:
        """Note a lost connection, unless the peer is known to be gone already."""
        if peer not in self._gone:
            self._gone[peer] = "the connection is lost"
            self.tell_of(peer, Disconnected)

    def left(self, peer: str, reason: str) -> None:
        """Note that a peer stopped as planned."""
        self._gone[peer] = f"it left: {reason}"
        self.tell_of(peer, PeerLeft, reason)

    def silent(self, peer: str) -> bool:
        """Whether a peer has been silent for so long that its connection is given up."""
        last_ns = max(self._heard.get(peer, 0), self._connected.get(peer, 0))
        return self.now() - last_ns > self._timeouts.ns("silence")

    @contextmanager
    def waiting(self, what: Callable[[], str], joining: bool = False) -> Iterator[None]:
        """Inside, the party waits for `what`, which begins with the awaited peers and a colon."""
        self._wait = (self.now(), what, joining)
        try:
            yield
        finally:
            self._wait = None
            if self._spoke:
                self._spoke = False
                self.tell(Waiting(self.me, self.time_ns(), None))

    def check(self, peers: Sequence[str]) -> AbsentError | None:
        """Report what is waited for, and return an error when it is time to give up.

        Called with every heartbeat.
        """
        now_ns = self.now()
        gap_ns, self._looked_ns = now_ns - self._looked_ns, now_ns
        # While this process was suspended nobody could be heard: that time counts against nobody.
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
        # A peer that is gone or silent is judged first: others may be late because of it.
        named = [name for name in what().partition(":")[0].split(", ") if name in peers]
        quietest = min(named or peers, key=lambda peer: self._heard.get(peer, since_ns))
        silent_ns = now_ns - self._heard.get(quietest, since_ns)
        if quietest in self._gone or self.silent(quietest):
            never = quietest not in self._heard
            awaited = f"{quietest}: to come back" if self.patient and not joining else what()
            return self._judge(awaited, silent_ns, "join" if never else "absence", quietest)
        if joining:
            return self._judge(what(), now_ns - since_ns, "join", quietest)
        if self.patient:
            return None
        # Every message that comes ends a wait, so `since_ns` alone would never show a peer that
        # sends nothing while others go on sending.
        self._awaited = {peer: self._awaited.get(peer, since_ns) for peer in named or peers}
        slowest = min(self._awaited, key=lambda peer: self._awaited[peer])
        return self._judge(what(), now_ns - self._awaited[slowest], "stall", slowest)

    def stall_ns(self) -> int:
        """How long a peer that is alive is waited for.

        A peer that stalls the active party stalls the passive parties too, which cannot see it.
        They wait longer, so that the active party has time to find out and name it.
        """
        if self.patient:
            return _EVER_NS
        own = self._timeouts.ns("stall")
        others = max(own, self._timeouts.ns("absence"), self._timeouts.ns("join"))
        return own if self.judges else own + others

    def _judge(self, what: str, waited_ns: int, timeout: str, peer: str) -> AbsentError | None:
        limit_ns = self.stall_ns() if timeout == "stall" else self._timeouts.ns(timeout)
        left_ns = _EVER_NS if self.patient else limit_ns - waited_ns
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
            left = "" if self.patient else f", gives up in {_seconds(left_ns)} s"
            said = f"waiting for {what}{why}, {heard}{left}"
            self.tell(Waiting(self.me, self.time_ns(), said, peer, waited_ns))
        return None


def _back_to(event: Event) -> int | None:
    """The round of the checkpoint that a party goes back to, from which the ledger counts on."""
    if isinstance(event, Started) and event.again:
        return 0
    return event.round or None if isinstance(event, Resumed) else None


def _seconds(ns: int) -> int:
    return ns // NS_PER["s"]


def stamp() -> str:
    """The local time for a log, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def utc_stamp() -> str:
    """The time for programs, to the millisecond.

    >>> len(utc_stamp())
    24
    """
    second, part = divmod(time.time_ns(), NS_PER["s"])
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(second))}.{part // NS_PER['ms']:03}Z"
