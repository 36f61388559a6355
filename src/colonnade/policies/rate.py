"""Axis *rate*: by which factor is a party's learning rate multiplied in a round?

The rate itself, and torch's schedules of it, belong to the party's optimizer; a method only
multiplies.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

from colonnade.errors import RequestError


class RatePolicy:
    """Gives the factor; by itself it leaves the rate as it is."""

    @property
    def rehearses(self) -> bool:
        """Whether a party must find out how fast it is before the first round."""
        return False

    def factor(
        self, round: int, parties: int, effort: float | None = None, staleness: int = 0
    ) -> float:
        """The factor in a round (counted from 0) of a job with so many parties.

        `effort` is the party's updates of the round before times the largest weight that one of
        its gradients had (τ·w̄ of Flex-VFL); None in the first round of a party that has not
        rehearsed. `staleness` is how many updates of its own lie between the weights that made
        the gradient and those it is applied to.
        """
        return 1.0


@dataclass(frozen=True)
class Constant(RatePolicy):
    """The party's own rate."""


@dataclass(frozen=True)
class InverseSqrt(RatePolicy):
    """1/√(r+1), or 1/√((r+1)K) with `by_parties`; the same for all updates of a round."""

    by_parties: bool = False

    def factor(
        self, round: int, parties: int, effort: float | None = None, staleness: int = 0
    ) -> float:
        return 1.0 / sqrt((round + 1) * (parties if self.by_parties else 1))


@dataclass(frozen=True)
class SpeedAdaptive(RatePolicy):
    """1/(τ·w̄) of the party's round before; `first` stands for it in the first round, and if that
    is 0 a rehearsal."""

    first: float

    @property
    def rehearses(self) -> bool:
        return self.first == 0

    def factor(
        self, round: int, parties: int, effort: float | None = None, staleness: int = 0
    ) -> float:
        return 1.0 / (self.first if effort is None else effort)


@dataclass(frozen=True)
class Stale(RatePolicy):
    """1/(1 + s/τ) for a gradient that s updates of the party's own lie behind; with `share` divided
    by how many updates the party did on the exchange before."""

    tau: float
    share: bool = False

    def factor(
        self, round: int, parties: int, effort: float | None = None, staleness: int = 0
    ) -> float:
        updates = effort if self.share and effort is not None else 1.0
        return self.tau / (self.tau + staleness) / updates


@dataclass(frozen=True)
class Inverse(RatePolicy):
    """1/(r+1)."""

    def factor(
        self, round: int, parties: int, effort: float | None = None, staleness: int = 0
    ) -> float:
        return 1.0 / (round + 1)


def inverse() -> Inverse:
    """η₀/(r+1) with r the round."""
    return Inverse()


def speed_adaptive(first: float = 0.0) -> SpeedAdaptive:
    """Adaptive Flex-VFL: a party's rate is A/(τ·w̄), with A the rate of its optimizer.

    `first` is τ·w̄ of the first round, from prior knowledge; 0 measures it with one update that
    changes nothing.

    >>> speed_adaptive(4).factor(round=0, parties=2, effort=None)
    0.25
    """
    if not 0 <= first < inf:
        raise RequestError(f"first is {first}: give the updates of a round, or 0 to measure them")
    return SpeedAdaptive(first)


def stale(tau: float = 12.0, share: bool = False) -> Stale:
    """A party's rate falls with the staleness that its gradients really have: at τ updates behind
    it is half of what it is without any. With `share`, updates on one exchange share it: with as
    many as there is time for, each would otherwise want a lower rate.

    >>> stale(share=True).factor(round=3, parties=2, effort=4.0)
    0.25
    >>> stale(12).factor(round=0, parties=2, staleness=12), stale(12).factor(round=0, parties=2)
    (0.5, 1.0)
    """
    if not 0 < tau < inf:
        raise RequestError(f"tau is {tau}: give the staleness at which the rate is halved, above 0")
    return Stale(tau, share)


def constant() -> Constant:
    """The neutral element: the rate stays as the party's optimizer has it."""
    return Constant()


def inverse_sqrt(by_parties: bool = False) -> InverseSqrt:
    """η₀/√(r+1) with r the round, or η₀/√((r+1)K) for K parties.

    >>> inverse_sqrt().factor(round=3, parties=2)
    0.5
    """
    return InverseSqrt(by_parties)
