"""Axis *rate*: by which factor is a party's learning rate multiplied in a round?

The rate itself, and torch's schedules of it, belong to the party's optimizer; a method only
multiplies.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Protocol


class RatePolicy(Protocol):
    """Gives the factor."""

    def factor(self, round: int, parties: int) -> float:
        """The factor in a round (counted from 0) of a job with so many parties."""
        ...


@dataclass(frozen=True)
class Constant:
    """The party's own rate."""

    def factor(self, round: int, parties: int) -> float:
        """Always 1."""
        return 1.0


@dataclass(frozen=True)
class InverseSqrt:
    """1/√(r+1), or 1/√((r+1)K) with `by_parties`; the same for all updates of a round."""

    by_parties: bool = False

    def factor(self, round: int, parties: int) -> float:
        """Falls with the round."""
        return 1.0 / sqrt((round + 1) * (parties if self.by_parties else 1))


def constant() -> Constant:
    """The neutral element: the rate stays as the party's optimizer has it."""
    return Constant()


def inverse_sqrt(by_parties: bool = False) -> InverseSqrt:
    """η₀/√(r+1) with r the round, or η₀/√((r+1)K) for K parties.

    >>> inverse_sqrt().factor(round=3, parties=2)
    0.5
    """
    return InverseSqrt(by_parties)
