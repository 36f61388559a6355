"""Axis *average*: which weights are evaluated and handed over: the last ones, or an average?

Every party averages its own models, after each of its optimizer's steps, fresh and local alike: any
step moves the weights, and how far back an average reaches is a number of steps, as in training in
one place. Training itself (forward, backward, replies, snapshots) goes by the weights as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.errors import RequestError


class AveragePolicy:
    """Says how an average follows the weights; by itself there is none."""

    averages = False
    """Whether `share` must be asked at all."""

    def share(self, update: int) -> float:
        """How much of the present weights is in the average after an update of the party's, counted
        from 1."""
        return 1.0


@dataclass(frozen=True)
class NoAverage(AveragePolicy):
    """The weights as they are."""


@dataclass(frozen=True)
class Ema(AveragePolicy):
    """θ̄_t = d_t·θ̄_{t−1} + (1 − d_t)·θ_t with d_t = min(d, (1 + t)/(10 + t)), and θ̄_0 = θ_0.

    The decay grows to d, so that the initial weights are soon forgotten: as long as it grows, the
    average reaches back over about a tenth of all updates.
    """

    decay: float
    averages = True

    def share(self, update: int) -> float:
        return 1 - min(self.decay, (1 + update) / (10 + update))


def ema(decay: float) -> NoAverage | Ema:
    """The exponential moving average of a party's weights and floating-point buffers.

    It reaches back over about 1/(1 − decay) updates.

    >>> ema(0.999).share(1), ema(0.5).share(100)
    (0.8181818181818181, 0.5)
    >>> ema(0) == none()
    True
    """
    if not 0 <= decay < 1:
        raise RequestError(f"the decay is {decay}: an average needs 0 to below 1, such as 0.999")
    return Ema(decay) if decay else NoAverage()


def none() -> NoAverage:
    """The neutral element: the weights count as they are."""
    return NoAverage()
