"""Axis *momentum*: how much of its optimizer's momentum does a party use on a stale gradient?

Staleness acts as momentum does: a gradient that is applied late goes on pushing the weights where
they were going. The two add up, so that a party whose gradients are stale needs less of its own.
"""

from __future__ import annotations

from dataclasses import dataclass


class MomentumPolicy:
    """Says what is left of a momentum; by itself all of it."""

    def left(self, momentum: float, staleness: int) -> float:
        """The momentum (Adam's first decay rate) of an update whose gradient so many updates of the
        party's own lie behind."""
        return momentum


@dataclass(frozen=True)
class Kept(MomentumPolicy):
    """The optimizer's own."""


@dataclass(frozen=True)
class Shared(MomentumPolicy):
    """A momentum β remembers 1/(1−β) gradients; those that staleness remembers are taken off:

    1/(1−β′) = max(1, 1/(1−β) − s)
    """

    def left(self, momentum: float, staleness: int) -> float:
        if not staleness:
            return momentum
        remembered = 1 / (1 - momentum) - staleness
        return 1 - 1 / remembered if remembered > 1 else 0.0


def kept() -> Kept:
    """The neutral element: the optimizer's momentum, however stale the gradient."""
    return Kept()


def shared() -> Shared:
    """Momentum that allows for the implicit momentum of staleness.

    >>> [round(shared().left(0.9, staleness), 3) for staleness in (0, 5, 9)]
    [0.9, 0.8, 0.0]
    """
    return Shared()
