"""Axis *window*: may a party send the next batch before the reply, and before it uses one?"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.errors import RequestError
from colonnade.policies.view import View

MOST_MAX = 1_000
"""The most exchanges in flight: for each a passive party keeps a copy of its weights."""


class WindowPolicy:
    """Decides when a passive party sends, and which signal the active party gives; by itself it
    lets one exchange be in flight, and gives none."""

    most: int
    """The most exchanges that may ever be in flight; the active party refuses more."""

    def refill(self, view: View) -> int:
        """How many batches to send before the reply at hand is used."""
        return 0

    def may_send(self, view: View) -> bool:
        """Whether the next batch may be sent now."""
        return view.in_flight == 0

    def on_signal(self, view: View, signal: int) -> None:
        """Take in the active party's signal, as the inbox is drained."""

    def on_first_idle(self, view: View) -> None:
        """At the active party, when a round first has nothing to do: note who is late."""

    def at_aggregate(self, view: View) -> None:
        """At the active party, when it aggregates: settle the signals of this round."""


@dataclass(frozen=True)
class Lockstep(WindowPolicy):
    """One exchange at a time."""

    most = 1


@dataclass(frozen=True)
class Pipelined(WindowPolicy):
    """Up to `most` exchanges in flight, as many as the active party's signals ask for.

    A party that idles has as many exchanges in flight as its window says. The window moves by at
    most one for each reply. When it grows, or when the party was still busy as the reply came,
    the next batch is sent before the reply is used, so that the link never idles.
    """

    most: int

    def refill(self, view: View) -> int:
        """Batches to send before the reply is used; settles the window."""
        window = view.window
        if window.size < window.previous:
            window.size = window.previous - 1
            if not view.sent_since_fresh:
                window.previous = window.size
            return 0
        ahead = 0 if view.sent_since_fresh else 1
        if window.size > window.previous:
            window.size = window.previous + 1
            ahead += 1
        window.previous = window.size
        return ahead

    def may_send(self, view: View) -> bool:
        """One batch after each reply, unless the window shrinks or the refill has sent it."""
        return not view.sent_since_fresh and view.window.size >= view.window.previous

    def on_signal(self, view: View, signal: int) -> None:
        """More only if the party had time for local updates; never less than one."""
        window = view.window
        if signal > 0 and view.locals_since_fresh:
            window.size = min(window.size + 1, self.most)
        elif signal < 0:
            window.size = max(window.size - 1, 1)

    def on_first_idle(self, view: View) -> None:
        """Whoever has sent nothing for this round is asked for more, who is ahead for less."""
        if view.round > 0:
            view.signals = {peer: _signal(newest, view) for peer, newest in view.arrived.items()}
            view.signalled = view.round

    def at_aggregate(self, view: View) -> None:
        """A round without an idle moment is judged now."""
        if view.signalled < view.round:
            view.signals = {peer: _signal(newest, view) for peer, newest in view.arrived.items()}


def _signal(newest: int, view: View) -> int:
    ahead = newest - view.round
    return (ahead < 0) - (ahead > 0)


def lockstep() -> Lockstep:
    """The neutral element: send, wait for the reply, use it, send again."""
    return Lockstep()


def pipelined(most: int) -> Lockstep | Pipelined:
    """PASTA's window: up to `most` exchanges in flight, steered by the active party.

    >>> pipelined(3)
    Pipelined(most=3)
    >>> pipelined(1) == lockstep()
    True
    """
    if most < 1:
        raise RequestError(f"a window of {most} lets nothing be sent: give 1 or more")
    if most > MOST_MAX:
        raise RequestError(f"a window of {most:,} is too large: give {MOST_MAX:,} or less")
    return Pipelined(most) if most > 1 else Lockstep()
