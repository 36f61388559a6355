"""Axis *version*: with which weights does a reply go backward, when updates came between?"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.errors import RequestError
from colonnade.policies.view import View

ROOM = 1.125
"""How many forward passes must fit into the time in which a party idles, for it to make one."""
LEFT = 0.125
"""And how many must fit into what is left of it then."""
WINDOWS, ROUNDS = 4, 16
"""How long that is measured: so many windows, and at least so many rounds."""
PATIENCE = 2
"""So many times as long before it begins: windows that are tried for a while let a party idle."""


class VersionPolicy:
    """Decides whether a forward pass is made again before its backward pass."""

    spares = False
    """Whether it leaves that out when the party has no time for it."""

    def recomputes(self) -> bool:
        """Whether it may go forward again with the current weights."""
        return False

    def again(self, view: View) -> bool:
        """Whether to do so for the stale reply at hand."""
        return self.recomputes()


@dataclass(frozen=True)
class Stash(VersionPolicy):
    """The weights that made the embedding."""


@dataclass(frozen=True)
class Recompute(VersionPolicy):
    """The current weights, at the price of one more forward pass where they are others."""

    def recomputes(self) -> bool:
        return True


@dataclass(frozen=True)
class RecomputeIdle(Recompute):
    """The current weights, as long as the party has time to go forward again; else those that made
    the embedding, so that others do not wait for it.

    It begins when the party has idled long enough in a round for a forward pass, and ends when with
    it the party does not idle any more.
    """

    spares = True

    def again(self, view: View) -> bool:
        spare = view.spare
        if view.fresh >= spare.until:
            # The first time, one wait is that for all that is in flight.
            rounds = max(view.fresh - spare.since, 1 if spare.until else view.in_flight)
            idle_ns, spare.idle_ns = view.idle_ns - spare.idle_ns, view.idle_ns
            spare.again = idle_ns >= (LEFT if spare.again else ROOM) * rounds * view.forward_ns
            spare.since = view.fresh
            measured = max(ROUNDS, WINDOWS * view.in_flight)
            spare.until = view.fresh + (measured if spare.again else PATIENCE * measured)
        return spare.again


def stash() -> Stash:
    """The neutral element: forward and backward of a batch see the same weights."""
    return Stash()


def recompute(when: str = "always") -> Recompute:
    """Go forward again with the current weights before a reply goes backward: `always`, or only
    when `idle`, that is as long as the party has time for it.

    >>> recompute(), recompute("idle")
    (Recompute(), RecomputeIdle())
    """
    if when not in ("always", "idle"):
        raise RequestError(f"recompute {when!r} is not known: give always or idle")
    return RecomputeIdle() if when == "idle" else Recompute()
