"""Axis *window*: may a party send the next batch before the reply, and before it uses one?"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.errors import RequestError
from colonnade.policies.path import observe
from colonnade.policies.view import MOST_MAX, View

SHARE = 0.1
"""Of an epoch: what may be in flight unless the job says otherwise."""


class WindowPolicy:
    """Decides when a passive party sends, and which signal the active party gives; by itself it
    lets one exchange be in flight, and gives none."""

    most: int
    """The most exchanges that may ever be in flight; the active party refuses more."""
    needs_local = False
    """Whether it grows only while a party has time for local updates."""
    times_arrivals = False
    """Whether the active party must note when embeddings come."""
    takes_choice = False
    """Whether it goes on from a size that was worked out from what was measured of the lines."""

    def allowed(self, view: View) -> int:
        """How many exchanges the party may have in flight now, for whoever watches."""
        return view.window.size

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
    needs_local = True

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


@dataclass(frozen=True)
class Fixed(WindowPolicy):
    """Up to `most` exchanges in flight, always. A reply that is here is used before the next batch
    is sent, so that what is sent is as fresh as it can be."""

    most: int

    def allowed(self, view: View) -> int:
        return min(self.most, view.room)

    def may_send(self, view: View) -> bool:
        return view.in_flight < self.allowed(view)


@dataclass(frozen=True)
class BandwidthDelay(WindowPolicy):
    """As many exchanges in flight as fill the pipe, and no more: they would only be staler.

    The active party sees how fast rounds follow each other and sets everybody's window by that
    (`policies/path.py`), as TCP BBR goes by the rate at which data is delivered. It says it with
    each reply. A party whose embeddings come too early, because it is nearer than others, gets a
    smaller one. No more than `share` of an epoch is ever in flight, nor more than fits into a
    party's memory.
    """

    most: int
    share: float
    times_arrivals = True
    takes_choice = True

    def may_send(self, view: View) -> bool:
        """A reply that is here is used first, so that what is sent is as fresh as it can be."""
        return view.in_flight < view.window.size

    def bound(self, view: View) -> int:
        """The largest window that a party may have."""
        return max(1, min(self.most, view.room, int(self.share * view.per_epoch)))

    def on_signal(self, view: View, signal: int) -> None:
        """The signal is the window."""
        view.window.size = max(1, min(signal, self.bound(view)))

    def at_aggregate(self, view: View) -> None:
        """Note who was early, and judge the window when it has been full for long enough."""
        observe(view, self.bound(view))
        view.signals = dict(view.path.windows)


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
    return Pipelined(most) if _checked(most) > 1 else Lockstep()


def fixed(most: int) -> Lockstep | Fixed:
    """Always `most` exchanges in flight.

    >>> fixed(1) == lockstep()
    True
    """
    return Fixed(most) if _checked(most) > 1 else Lockstep()


def bandwidth_delay(most: int = 16, share: float = SHARE) -> Lockstep | BandwidthDelay:
    """A window that fills the pipe, whatever the path: at most `most` exchanges, and at most
    `share` of an epoch.

    >>> bandwidth_delay(16)
    BandwidthDelay(most=16, share=0.1)
    >>> bandwidth_delay(1) == lockstep()
    True
    """
    if not 0 < share <= 1:
        raise RequestError(f"share is {share}: give how much of an epoch may be in flight, up to 1")
    return BandwidthDelay(most, share) if _checked(most) > 1 else Lockstep()


def _checked(most: int) -> int:
    if most < 1:
        raise RequestError(f"a window of {most} lets nothing be sent: give 1 or more")
    if most > MOST_MAX:
        raise RequestError(f"a window of {most:,} is too large: give {MOST_MAX:,} or less")
    return most
