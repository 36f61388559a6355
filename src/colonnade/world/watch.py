"""A party's own clock: whom it waits for, since when, and until when.

Nobody's clock is compared with another's: a party knows when it last heard of a peer, by its own
clock, and gives up by the timeouts of the job. What happens is told to a `Report`, and what
crosses is written into the chain of the party's ledger.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Protocol

from colonnade.errors import AbsentError
from colonnade.job.records import Timeouts
from colonnade.track.chain import Chain
from colonnade.units import NS_PER, show_seconds
from colonnade.wire.ledger import Direction
from colonnade.world.roster import FIRST_MAX

SPEAKS_AFTER_NS = 2 * NS_PER["s"]
"""A wait shorter than this is nobody's business."""
TOLD_TIMES = 3
"""So many refusals of one party are told one by one; then the tenth, the hundredth, and so on."""
LATE_NS = 3 * NS_PER["s"]
"""A look that comes later than this after the last one: this process was stopped, not the peers."""


class Report(Protocol):
    """Whoever is told what happens to a party."""

    def event(self, text: str) -> None:
        """Something happened."""
        ...

    def wait(self, text: str | None) -> None:
        """The party waits for something; None when it has come."""
        ...

    def follows(self, seat: Any) -> None:
        """This is the party's place; its program tells how far it is."""
        ...

    def tick(self) -> None:
        """A second has passed."""
        ...


def wall_ns() -> int:
    """The time of day: for people and for a party's own records, never compared with others'."""
    return time.time_ns()


def new_incarnation() -> int:
    """A number for this start of a party's process, unlike any other."""
    return int.from_bytes(os.urandom(7), "little")


def new_generation() -> int:
    """The first generation of an active party's process, unlike that of any other."""
    return 1 + int.from_bytes(os.urandom(7), "little") % FIRST_MAX


class Watch:
    """The clock, and what it says of the peers."""

    def __init__(
        self, timeouts: Timeouts, report: Report, chain: Chain | None = None, elapsed_ns: int = 0
    ) -> None:
        self.report = report
        self.finish_ns = timeouts.ns("finish")
        self.stall_ns = timeouts.ns("stall")
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
        self._wait: tuple[int, Callable[[], str], bool] | None = None
        self._spoke = False
        self._looked_ns = self.now()

    def now(self) -> int:
        """Nanoseconds since the job began."""
        return time.monotonic_ns() - self._zero_ns

    def message(self, way: Direction, peer: str, kind: str, round: int, size: int) -> None:
        """A message was sent or received."""
        if self._chain is not None:
            with self._one_at_a_time:
                self._chain.message(wall_ns(), way, peer, kind, round, size)

    def note(self, text: str, *, kept: int | None = None, again: int | None = None) -> None:
        """Something that belongs into the ledger and the log."""
        if self._chain is not None:
            with self._one_at_a_time:
                self._chain.note(wall_ns(), text, kept=kept, again=again)
        self.report.event(text)

    def refused(self, peer: str, reason: str) -> None:
        """A party was refused: counted always, told as long as it is news."""
        times = self.refusals[peer] = self.refusals.get(peer, 0) + 1
        if times <= TOLD_TIMES or str(times).strip("0") == "1":
            often = f" ({times} times by now)" if times > 1 else ""
            self.note(f"refused {peer}{often}: {reason}")

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
        self.report.event(f"connected with {peer}")

    def lost(self, peer: str) -> None:
        """The connection to a peer is gone."""
        self._gone.setdefault(peer, "the connection is lost")
        self.report.event(f"the connection with {peer} is lost")

    def left(self, peer: str, reason: str) -> None:
        """A peer stopped as planned."""
        self._gone[peer] = f"it left: {reason}"
        self.note(f"{peer} left: {reason}")

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
                self.report.wait(None)

    def look(self, peers: Sequence[str]) -> AbsentError | None:
        """Called every now and then: say what is waited for, and give up when it is time."""
        now_ns = self.now()
        gap_ns, self._looked_ns = now_ns - self._looked_ns, now_ns
        if gap_ns > LATE_NS:
            self._heard = {peer: at_ns + gap_ns for peer, at_ns in self._heard.items()}
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
        return self._judge(what(), now_ns - since_ns, "stall", quietest)

    def _judge(self, what: str, waited_ns: int, timeout: str, peer: str) -> AbsentError | None:
        left_ns = self._timeouts.ns(timeout) - waited_ns
        if left_ns <= 0:
            after = show_seconds(self._timeouts.ns(timeout) / NS_PER["s"])
            why = f" ({self._gone[peer]})" if peer in self._gone else ""
            return AbsentError(
                f"{peer} was awaited for {after} and did not come{why}; waited for {what} "
                f"(timeouts.{timeout})"
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
            self.report.wait(f"waiting for {what}{why}, {heard}, gives up in {_seconds(left_ns)} s")
        return None


def _seconds(ns: int) -> int:
    return ns // NS_PER["s"]


def stamp() -> str:
    """The time of day for a log, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S")
