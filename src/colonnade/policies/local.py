"""Axis *local*: is there one more local update to do, and on which exchange?

Counts always mean all updates on one exchange, the fresh one included. *Holding* updates come
before the next send (at the active party: before the next aggregation); *filling* updates run
only when there is nothing else to do. A holding policy that *yields* lets a reply that has come
go first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from colonnade.errors import RequestError
from colonnade.policies.view import Exchange, Role, View


class LocalPolicy(Protocol):
    """Chooses the next local update."""

    @property
    def keep(self) -> int:
        """How many of the latest exchanges a party remembers for local updates."""
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


@dataclass(frozen=True)
class Repeat:
    """`updates` updates on every exchange, all but the first of them local."""

    updates: int

    @property
    def keep(self) -> int:
        """Only the newest exchange is used again, and none if there are no local updates."""
        return 1 if self.updates > 1 else 0

    def holds(self, role: Role) -> bool:
        """The next batch waits until they are done."""
        return True

    def yields(self, role: Role) -> bool:
        """They are done to the last, whatever arrives."""
        return False

    def next(self, view: View) -> Exchange | None:
        """The newest exchange, until it has had all its updates."""
        if not view.kept:
            return None
        newest = view.kept[-1]
        return newest if newest.updates < self.updates else None


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
