"""Axis *local*: is there one more local update to do, and on which exchange?

Counts always mean all updates on one exchange, the fresh one included. *Holding* updates come
before the next send (at the active party: before the next aggregation); *filling* updates run
only when there is nothing else to do. A holding policy that *yields* lets a reply that has come
go first.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Protocol

from colonnade.errors import RequestError
from colonnade.policies.view import Exchange, Role, View
from colonnade.units import duration_ns


class LocalPolicy(Protocol):
    """Chooses the next local update."""

    @property
    def keep(self) -> int:
        """How many of the latest exchanges a party remembers for local updates."""
        ...

    @property
    def finishes(self) -> bool:
        """Whether updates that only fill idle time are still done when the last round is."""
        ...

    def holds(self, role: Role) -> bool:
        """Whether these updates come before the next send, or only fill idle time."""
        ...

    def yields(self, role: Role) -> bool:
        """Whether a reply that has come goes before these updates."""
        ...

    def next(self, view: View) -> Exchange | None:
        """The exchange for one more local update, or None when there is none to do."""
        ...


class Held:
    """Updates that are done to the last before anything else, at every party."""

    finishes = True

    def holds(self, role: Role) -> bool:
        """The next batch waits until they are done."""
        return True

    def yields(self, role: Role) -> bool:
        """They are done to the last, whatever arrives."""
        return False


@dataclass(frozen=True)
class Repeat(Held):
    """`updates` updates on every exchange, all but the first of them local."""

    updates: int

    @property
    def keep(self) -> int:
        """Only the newest exchange is used again, and none if there are no local updates."""
        return 1 if self.updates > 1 else 0

    def next(self, view: View) -> Exchange | None:
        """The newest exchange, until it has had all its updates."""
        if not view.kept:
            return None
        newest = view.kept[-1]
        return newest if newest.updates < self.updates else None


@dataclass(frozen=True)
class WhileWaiting:
    """Local updates on the newest exchange while the next is on its way.

    In epoch e (finished epochs) a party may do s_e = ⌊budget/√(e+1)⌋ of them, without `decay`
    always `budget`; a passive party with B exchanges in flight s_e/B.
    """

    budget: int
    decay: bool = True
    keep = 1
    finishes = True

    def holds(self, role: Role) -> bool:
        """A passive party spends its budget before it sends; the active one only fills time."""
        return role is Role.PASSIVE

    def yields(self, role: Role) -> bool:
        """A reply that has come goes first."""
        return True

    def next(self, view: View) -> Exchange | None:
        """The newest exchange, while the budget lasts."""
        if not view.kept or view.sent_since_fresh:
            return None
        allowed = int(self.budget / sqrt(view.epoch + 1)) if self.decay else self.budget
        share = view.window.size if view.role is Role.PASSIVE else 1
        return view.kept[-1] if view.locals_since_fresh * share < allowed else None


@dataclass(frozen=True)
class Until(Held):
    """As many updates on an exchange as fit before the timeout, the fresh one always.

    The time runs from when a passive party has its reply, and from when the active party has sent
    it. An update begins if it will end in time, going by how long the party's last one took.
    """

    timeout_ns: int
    keep = 1

    def next(self, view: View) -> Exchange | None:
        """The newest exchange, while one more update fits."""
        if not view.kept:
            return None
        newest = view.kept[-1]
        fits = view.now_ns + view.update_ns <= newest.replied_ns + self.timeout_ns
        return newest if fits and view.update_ns > 0 else None


def until(timeout: str) -> Repeat | Until:
    """Flex-VFL's local updates.

    >>> until("100ms")
    Until(timeout_ns=100000000)
    >>> until("0s") == once()
    True
    """
    timeout_ns = duration_ns(timeout)
    return Until(timeout_ns) if timeout_ns else once()


@dataclass(frozen=True)
class Workset:
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
    def keep(self) -> int:
        """All of the workset."""
        return self.size

    def holds(self, role: Role) -> bool:
        """They hold the next send only where they do not overlap with it."""
        return not self.overlap

    def yields(self, role: Role) -> bool:
        """Whatever has come goes first where they overlap."""
        return self.overlap

    def next(self, view: View) -> Exchange | None:
        """The exchange that was not used for the longest, if it has rested long enough."""
        resting = [kept for kept in view.kept if kept.updates < self.updates]
        if not resting:
            return None
        longest = min(resting, key=lambda kept: -1 if kept.sampled is None else kept.sampled)
        if longest.sampled is not None and view.local - longest.sampled < self.size:
            return None
        return longest


def workset(size: int, updates: int, overlap: bool = True) -> Repeat | Workset:
    """CELU's workset.

    >>> workset(5, 1) == once()
    True
    >>> workset(1, 3, overlap=False) == repeat(3)
    True
    """
    if size < 1:
        raise RequestError(f"a workset of {size} holds nothing: give 1 or more")
    if updates == 1 or (size == 1 and not overlap):
        return repeat(updates)
    if updates < 1:
        raise RequestError(f"updates is {updates}: every exchange has at least 1, the fresh one")
    return Workset(size, updates, overlap)


def while_waiting(budget: int, decay: bool = True) -> WhileWaiting:
    """PASTA's local updates: at most `budget` on an exchange, fewer in later epochs."""
    if budget < 0:
        raise RequestError(f"a budget of {budget} local updates: give 0 or more")
    return WhileWaiting(budget, decay)


def repeat(updates: int) -> Repeat:
    """Do `updates` updates on each exchange before the next one.

    >>> repeat(1) == once()
    True
    """
    if updates < 1:
        raise RequestError(f"updates is {updates}: every exchange has at least 1, the fresh one")
    return Repeat(updates)


def once() -> Repeat:
    """The neutral element: the fresh update and no other."""
    return Repeat(1)
