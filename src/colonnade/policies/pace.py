"""Local updates by the clock: how many fit into a time, and how many the parties agree on.

The policies of the axis *local* that look at how long updates take; their constructors are in
`local.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from colonnade.errors import JobError, RequestError
from colonnade.policies.view import Exchange, Role, View
from colonnade.units import NS_PER, duration_ns

UPDATES_MAX = 100_000
"""The most updates on an exchange that a party does, or offers to do: between two messages it can
neither stop nor save what it has."""
TIMEOUT_NS_MAX = 24 * NS_PER["h"]
"""The longest that a party trains on an exchange."""
UPDATE_NS_MIN = 100_000
"""No update of a model is believed to take less."""


@dataclass(frozen=True)
class Timing:
    """How long a party's update takes and how far away it is, where that is known beforehand."""

    update_ns: int
    latency_ns: int
    """One-way; 0 for the active party."""


class OwnPace:
    """A party that asks nobody how much to do."""

    reports = False
    updates_max = UPDATES_MAX

    @property
    def by_clock(self) -> bool:
        """Safe to say of any policy."""
        return True

    def expected(self, view: View) -> int:
        """The fresh one, if nothing more is known."""
        return 1

    def agree(self, view: View) -> int:
        """What was agreed on at the start stays."""
        return view.agreed

    def at_start(self, me: str, timings: Mapping[str, Timing] | None) -> int:
        """Nothing is agreed on."""
        return 1


class Held(OwnPace):
    """Updates that are done to the last before anything else, at every party."""

    finishes = True

    def holds(self, role: Role) -> bool:
        """The next batch waits until they are done."""
        return True

    def yields(self, role: Role) -> bool:
        """They are done to the last, whatever arrives."""
        return False


@dataclass(frozen=True)
class Until(Held):
    """As many updates on an exchange as fit before the timeout, the fresh one always, and never
    more than `UPDATES_MAX`.

    The time runs from when a passive party has its reply, and from when the active party has sent
    it. An update begins if it will end in time, going by how long the party's last one took; if
    no update has taken any time yet, one is tried.
    """

    timeout_ns: int
    keep = 1

    def next(self, view: View) -> Exchange | None:
        """The newest exchange, while one more update fits."""
        if not view.kept:
            return None
        newest = view.kept[-1]
        if (view.update_ns == 0 and view.local) or newest.updates >= UPDATES_MAX:
            return None
        fits = view.now_ns + view.update_ns <= newest.replied_ns + self.timeout_ns
        return newest if fits else None

    def expected(self, view: View) -> int:
        """What fits, but at least one."""
        return _fitting(self.timeout_ns, view)


@dataclass(frozen=True)
class Agreed(Held):
    """The same number of updates at every party: as many as the slowest, or the fastest, could do
    before the timeout. Each reports what it could do with every embedding."""

    timeout_ns: int
    choice: Literal["min", "max"]
    reports = True
    keep = 1

    @property
    def updates_max(self) -> int:  # type: ignore[override]
        """As many as the quickest update lets fit into the timeout: what a party says beyond it
        would only make all others work on and on."""
        return max(1, min(self.timeout_ns // UPDATE_NS_MIN, UPDATES_MAX))

    def next(self, view: View) -> Exchange | None:
        """The newest exchange, until it has had the number agreed on."""
        return _newest(view)

    def expected(self, view: View) -> int:
        """What fits, but at least one."""
        return min(_fitting(self.timeout_ns, view), self.updates_max)

    def agree(self, view: View) -> int:
        """The least or the most of the parties with columns; the server follows them."""
        return {"min": min, "max": max}[self.choice](view.reported.values())


@dataclass(frozen=True)
class Deadline(Held):
    """As many updates as end, with the way there and back, before the deadline

        max( max_k (u_k + 2 L_k), min_k ((1 + most) u_k + 2 L_k) )

    for updates that take u_k and latencies L_k, which must be known beforehand; at most `most` of
    them local."""

    most: int
    keep = 1

    def next(self, view: View) -> Exchange | None:
        """The newest exchange, until it has had its number."""
        return _newest(view)

    def expected(self, view: View) -> int:
        """What was worked out beforehand."""
        return view.agreed

    def at_start(self, me: str, timings: Mapping[str, Timing] | None) -> int:
        """What ends in time."""
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


def checked_updates(option: str, updates: int, least: int = 0) -> int:
    """A number of updates on an exchange, once a party could do as many.

    >>> checked_updates("updates", 5), checked_updates("budget", 0)
    (5, 0)
    """
    if type(updates) is not int or updates < least:
        start = "every exchange has at least 1, the fresh one" if least else "give 0 or more"
        raise RequestError(f"{option} is {updates!r}: {start}")
    if updates > UPDATES_MAX:
        raise RequestError(
            f"{option} is {updates:,}: a party does at most {UPDATES_MAX:,} updates on an "
            "exchange, because it cannot stop between two messages"
        )
    return updates


def checked_timeout(timeout: str) -> int:
    """The nanoseconds of a timeout, once a party could train for as long on an exchange.

    >>> checked_timeout("100ms")
    100000000
    """
    timeout_ns = duration_ns(timeout)
    if timeout_ns > TIMEOUT_NS_MAX:
        raise RequestError(
            f"timeout is '{timeout}': a party trains at most 24h on an exchange, because it cannot "
            "stop between two messages"
        )
    return timeout_ns


def _newest(view: View) -> Exchange | None:
    """The newest exchange, until it has had the number of updates that is agreed on."""
    if not view.kept or view.kept[-1].updates >= view.kept[-1].agreed:
        return None
    return view.kept[-1]


def _fitting(timeout_ns: int, view: View) -> int:
    return min(max(1, timeout_ns // view.update_ns), UPDATES_MAX) if view.update_ns else 1
