"""Axis *window*: may a party send the next batch before the reply, and before it uses one?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from colonnade.policies.view import View


class WindowPolicy(Protocol):
    """Decides when a passive party sends, and which signal the active party gives."""

    @property
    def most(self) -> int:
        """The most exchanges that may ever be in flight; the active party refuses more."""
        ...

    def refill(self, view: View) -> int:
        """How many batches to send before the reply at hand is used."""
        ...

    def may_send(self, view: View) -> bool:
        """Whether the next batch may be sent now."""
        ...

    def on_signal(self, view: View, signal: int) -> None:
        """Take in the active party's signal, as the inbox is drained."""
        ...

    def on_first_idle(self, view: View) -> None:
        """At the active party, when a round first has nothing to do: note who is late."""
        ...

    def at_aggregate(self, view: View) -> None:
        """At the active party, when it aggregates: settle the signals of this round."""
        ...


@dataclass(frozen=True)
class Lockstep:
    """One exchange at a time."""

    most = 1

    def refill(self, view: View) -> int:
        """Nothing is sent before the reply is used."""
        return 0

    def may_send(self, view: View) -> bool:
        """Only when nothing is in flight."""
        return view.in_flight == 0

    def on_signal(self, view: View, signal: int) -> None:
        """There is no window to change."""

    def on_first_idle(self, view: View) -> None:
        """Nobody is asked to hurry."""

    def at_aggregate(self, view: View) -> None:
        """No signal goes out."""


def lockstep() -> Lockstep:
    """The neutral element: send, wait for the reply, use it, send again."""
    return Lockstep()
