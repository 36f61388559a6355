"""Axis *step*: how does an update move the weights?

A step policy changes the gradients that a party's optimizer is about to apply. The optimizer
itself (any class of `torch.optim`) is the party's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import torch

from colonnade.errors import RequestError

Memory = Sequence[torch.Tensor]


class StepPolicy:
    """Adjusts gradients in place, just before the optimizer's step; by itself it leaves them."""

    def begin(self, parameters: Sequence[torch.Tensor]) -> Memory:
        """What to remember from the start of a round, a tensor for each parameter or nothing."""
        return ()

    def adjust(self, parameters: Sequence[torch.Tensor], memory: Memory) -> None:
        """Change the `.grad` of the parameters."""

    def largest_weight(self, updates: int) -> float:
        """The largest weight of a single gradient in the sum of so many updates (w̄ of Flex-VFL)."""
        return 1.0


@dataclass(frozen=True)
class PlainStep(StepPolicy):
    """The gradient as it is."""


@dataclass(frozen=True)
class Proximal(StepPolicy):
    """Adds μ(θ − θ_anchor), the gradient of (μ/2)‖θ − θ_anchor‖²; the anchor is θ at the
    round's start, so the fresh update is unchanged by it."""

    mu: float

    def begin(self, parameters: Sequence[torch.Tensor]) -> Memory:
        return [parameter.detach().clone() for parameter in parameters]

    def adjust(self, parameters: Sequence[torch.Tensor], memory: Memory) -> None:
        for parameter, start in zip(parameters, memory, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(parameter.detach() - start, alpha=self.mu)


@dataclass(frozen=True)
class LocalMomentum(StepPolicy):
    """u ← ρu + g instead of g, with u reset to 0 at the start of every round."""

    rho: float

    def begin(self, parameters: Sequence[torch.Tensor]) -> Memory:
        return [torch.zeros_like(parameter) for parameter in parameters]

    def adjust(self, parameters: Sequence[torch.Tensor], memory: Memory) -> None:
        for parameter, momentum in zip(parameters, memory, strict=True):
            if parameter.grad is not None:
                momentum.mul_(self.rho).add_(parameter.grad)
                parameter.grad.copy_(momentum)

    def largest_weight(self, updates: int) -> float:
        """The first gradient counts in all updates: 1 + ρ + … + ρ^(τ−1)."""
        return (1 - self.rho**updates) / (1 - self.rho)


def local_momentum(rho: float) -> PlainStep | LocalMomentum:
    """SGD with momentum that is reset at the start of each round (Flex-VFL).

    >>> local_momentum(0) == plain_step()
    True
    """
    if not 0 <= rho < 1:
        raise RequestError(f"rho is {rho}: local momentum needs 0 to below 1")
    return LocalMomentum(rho) if rho else PlainStep()


def plain_step() -> PlainStep:
    """The neutral element: the optimizer applies the gradient as it is."""
    return PlainStep()


def proximal(mu: float) -> PlainStep | Proximal:
    """Keep local updates near the weights the round started from.

    >>> proximal(0) == plain_step()
    True
    """
    if not 0 <= mu < inf:
        raise RequestError(f"mu is {mu}: a proximal term needs a number of 0 or more")
    return Proximal(mu) if mu > 0 else PlainStep()
