"""Axis *local*: is there one more local update to do, and on which exchange?

Counts always mean all updates on one exchange, the fresh one included. *Holding* updates come
before the next send (at the active party: before the next aggregation); *filling* updates run
only when there is nothing else to do. A holding policy that *yields* lets a reply that has come
go first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from colonnade.errors import JobError, RequestError
from colonnade.policies.view import Exchange, Role, View
from colonnade.units import NS_PER, duration_ns

KEPT_MAX = 10_000
"""The most exchanges that a party keeps in memory for local updates."""
UPDATES_MAX = 100_000
"""The most updates on an exchange that a party does, or offers to do: between two messages it can
neither stop nor save its state."""
TIMEOUT_NS_MAX = 24 * NS_PER["h"]
"""The longest that a party trains on an exchange."""
UPDATE_NS_MIN = 100_000
"""The shortest time that an update of a model is taken to need."""


@dataclass(frozen=True)
class Timing:
    """How long a party's update takes and how far away it is, where that is known beforehand."""

    update_ns: int
    latency_ns: int
    """One-way; 0 for the active party."""


class LocalPolicy:
    """Chooses the next local update.

    What is answered here holds where no party asks another how much to do, and where all updates
    are done before anything else; a variant answers otherwise where it differs.
    """

    reports = False
    """Whether the parties tell the active one how much they could do, and hear what to do."""
    finishes = True
    """Whether updates that only fill idle time are still done when the last round is."""

    @property
    def updates_max(self) -> int:
        """The most updates on an exchange that a party may report, or all may agree on."""
        return UPDATES_MAX

    @property
    def keep(self) -> int:
        """How many of the latest exchanges a party remembers for local updates."""
        return 1

    @property
    def by_clock(self) -> bool:
        """Whether the number of updates depends on how long things take; a new variant may always
        say so."""
        return True

    def holds(self, role: Role) -> bool:
        """Whether these updates come before the next send, or only fill idle time."""
        return True

    def yields(self, role: Role) -> bool:
        """Whether a reply that has come goes before these updates."""
        return False

    def next(self, view: View) -> Exchange | None:
        """The exchange for one more local update, or None when there is none to do: the newest
        one, until it has had the number of updates that is agreed on."""
        newest = view.kept[-1] if view.kept else None
        return newest if newest is not None and newest.updates < newest.agreed else None

    def expected(self, view: View) -> int:
        """How many updates the party could do on an exchange, going by its last one."""
        return 1

    def agree(self, view: View) -> int:
        """At the active party: how many all are to do, by what everybody has reported."""
        return view.agreed

    def at_start(self, me: str, timings: Mapping[str, Timing] | None) -> int:
        """How many are agreed on before the first round; `timings` is None where not known."""
        return 1


@dataclass(frozen=True)
class Repeat(LocalPolicy):
    """`updates` updates on every exchange, all but the first of them local."""

    updates: int
    by_clock = False

    @property
    def keep(self) -> int:
        """Only the newest exchange is used again, and none if there are no local updates."""
        return 1 if self.updates > 1 else 0

    def next(self, view: View) -> Exchange | None:
        if not view.kept or view.kept[-1].updates >= self.updates:
            return None
        return view.kept[-1]

    def expected(self, view: View) -> int:
        return self.updates


@dataclass(frozen=True)
class Workset(LocalPolicy):
    """Local updates on the `size` newest exchanges in turn, `updates` on each in all.

    An exchange leaves when it is older than the `size` newest or has had its updates. None is
    used again before `size` − 1 other local updates were done. With `overlap` they fill the time
    in which the party would wait; without, the next batch waits for them.
    """

    size: int
    updates: int
    overlap: bool = True
    finishes = False

    @property
    def by_clock(self) -> bool:
        return self.overlap

    @property
    def keep(self) -> int:
        return self.size

    def holds(self, role: Role) -> bool:
        return not self.overlap

    def yields(self, role: Role) -> bool:
        return self.overlap

    def next(self, view: View) -> Exchange | None:
        """The least recently used exchange, unless it was used within the last `size` updates."""
        resting = [kept for kept in view.kept if kept.updates < self.updates]
        if not resting:
            return None
        longest = min(resting, key=lambda kept: -1 if kept.sampled is None else kept.sampled)
        if longest.sampled is not None and view.local - longest.sampled < self.size:
            return None
        return longest

    def expected(self, view: View) -> int:
        return self.updates


@dataclass(frozen=True)
class WhileWaiting(LocalPolicy):
    """Local updates on the newest exchange while the next is on its way.

    In epoch e (finished epochs) a party may do s_e = ⌊budget/√(e+1)⌋ of them, without `decay`
    always `budget`; a passive party with B exchanges in flight s_e/B.
    """

    budget: int
    decay: bool = True

    def holds(self, role: Role) -> bool:
        """A passive party spends its budget before it sends; the active one only fills time."""
        return role is Role.PASSIVE

    def yields(self, role: Role) -> bool:
        return True

    def next(self, view: View) -> Exchange | None:
        if not view.kept or view.sent_since_fresh:
            return None
        share = view.window.size if view.role is Role.PASSIVE else 1
        done = view.locals_since_fresh * share
        return view.kept[-1] if done < self._allowed(view) else None

    def expected(self, view: View) -> int:
        return 1 + self._allowed(view)

    def _allowed(self, view: View) -> int:
        return int(self.budget / sqrt(view.epoch + 1)) if self.decay else self.budget


@dataclass(frozen=True)
class Until(LocalPolicy):
    """As many updates on an exchange as fit before the timeout, the fresh one always, and never
    more than `UPDATES_MAX`.

    The time runs from when a passive party has its reply, and from when the active party has sent
    it. An update begins if it will end in time, going by how long the party's last one took; if
    no update has taken any time yet, one is tried.
    """

    timeout_ns: int

    def next(self, view: View) -> Exchange | None:
        if not view.kept:
            return None
        newest = view.kept[-1]
        if (view.update_ns == 0 and view.local) or newest.updates >= UPDATES_MAX:
            return None
        fits = view.now_ns + view.update_ns <= newest.replied_ns + self.timeout_ns
        return newest if fits else None

    def expected(self, view: View) -> int:
        return _fitting(self.timeout_ns, view)


@dataclass(frozen=True)
class Agreed(LocalPolicy):
    """The same number of updates at every party: as many as the slowest, or the fastest, could do
    before the timeout. Each reports what it could do with every embedding."""

    timeout_ns: int
    choice: Literal["min", "max"]
    reports = True

    @property
    def updates_max(self) -> int:
        """As many of the quickest updates as fit into the timeout: a party that reports more would
        only keep all others at work."""
        return max(1, min(self.timeout_ns // UPDATE_NS_MIN, UPDATES_MAX))

    def expected(self, view: View) -> int:
        return min(_fitting(self.timeout_ns, view), self.updates_max)

    def agree(self, view: View) -> int:
        """The minimum or maximum over the parties with columns; the active party follows them."""
        return {"min": min, "max": max}[self.choice](view.reported.values())


@dataclass(frozen=True)
class Deadline(LocalPolicy):
    """As many updates as end, with the way there and back, before the deadline

        max( max_k (u_k + 2 L_k), min_k ((1 + most) u_k + 2 L_k) )

    for updates that take u_k and latencies L_k, which must be known beforehand; at most `most` of
    them local."""

    most: int

    def expected(self, view: View) -> int:
        return view.agreed

    def at_start(self, me: str, timings: Mapping[str, Timing] | None) -> int:
        if timings is None:
            raise JobError(
                "local=deadline needs every party's costs and latencies beforehand, so it can only "
                "be simulated, with costs in milliseconds: choose local=until instead"
            )
        whole = 1 + self.most
        once_around = [one.update_ns + 2 * one.latency_ns for one in timings.values()]
        all_around = [whole * one.update_ns + 2 * one.latency_ns for one in timings.values()]
        deadline = max(*once_around, min(all_around), 0)
        own = timings.get(me)
        if own is None or own.update_ns == 0:
            return whole
        return max(1, min(whole, (deadline - 2 * own.latency_ns) // own.update_ns))


def once() -> Repeat:
    """The neutral element: the fresh update and no other."""
    return Repeat(1)


def repeat(updates: int) -> Repeat:
    """Do `updates` updates on each exchange before the next one.

    >>> repeat(1) == once()
    True
    """
    return Repeat(_checked_updates("updates", updates, least=1))


def workset(size: int, updates: int, overlap: bool = True) -> Repeat | Workset:
    """CELU's workset.

    >>> workset(5, 1) == once()
    True
    >>> workset(1, 3, overlap=False) == repeat(3)
    True
    """
    if size < 1:
        raise RequestError(f"a workset of {size} holds nothing: give 1 or more")
    if size > KEPT_MAX:
        raise RequestError(f"a workset of {size:,} does not fit: give {KEPT_MAX:,} or less")
    _checked_updates("updates", updates, least=1)
    if updates == 1 or (size == 1 and not overlap):
        return repeat(updates)
    return Workset(size, updates, overlap)


def while_waiting(budget: int, decay: bool = True) -> Repeat | WhileWaiting:
    """PASTA's local updates: at most `budget` on an exchange, fewer in later epochs.

    >>> while_waiting(0) == once()
    True
    """
    _checked_updates("budget", budget)
    return WhileWaiting(budget, decay) if budget else once()


def until(timeout: str) -> Repeat | Until:
    """Flex-VFL's local updates.

    >>> until("100ms")
    Until(timeout_ns=100000000)
    >>> until("0s") == once()
    True
    """
    timeout_ns = _checked_timeout(timeout)
    return Until(timeout_ns) if timeout_ns else once()


def agreed(timeout: str, choice: Literal["min", "max"]) -> Repeat | Agreed:
    """The same number everywhere, what the slowest (`min`) or the fastest (`max`) party could do.

    >>> agreed("0s", "min") == once()
    True
    """
    if choice not in ("min", "max"):
        raise RequestError(f"choice is '{choice}': the parties agree on the min or the max")
    timeout_ns = _checked_timeout(timeout)
    return Agreed(timeout_ns, choice) if timeout_ns else once()


def deadline(most: int = 4) -> Repeat | Deadline:
    """Flex-VFL as PASTA's authors have it: a deadline from known latencies, at most `most` local.

    >>> deadline(0) == once()
    True
    """
    _checked_updates("most", most)
    return Deadline(most) if most else once()


def _checked_updates(option: str, updates: int, least: int = 0) -> int:
    if type(updates) is not int or updates < least:
        start = "every exchange has at least 1, the fresh one" if least else "give 0 or more"
        raise RequestError(f"{option} is {updates!r}: {start}")
    if updates > UPDATES_MAX:
        raise RequestError(
            f"{option} is {updates:,}: a party does at most {UPDATES_MAX:,} updates on an "
            "exchange, because it cannot stop between two messages"
        )
    return updates


def _checked_timeout(timeout: str) -> int:
    timeout_ns = duration_ns(timeout)
    if timeout_ns > TIMEOUT_NS_MAX:
        raise RequestError(
            f"timeout is '{timeout}': a party trains at most 24h on an exchange, because it cannot "
            "stop between two messages"
        )
    return timeout_ns


def _fitting(timeout_ns: int, view: View) -> int:
    return min(max(1, timeout_ns // view.update_ns), UPDATES_MAX) if view.update_ns else 1
