"""Axis *step*: how does an update move the weights?

A step policy changes the gradients that a party's optimizer is about to apply. The optimizer
itself (any class of `torch.optim`) is the party's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from colonnade.errors import RequestError


class StepPolicy(Protocol):
    """Adjusts gradients in place, just before the optimizer's step."""

    @property
    def anchored(self) -> bool:
        """Whether `adjust` needs the weights that the round started from."""
        ...

    def adjust(
        self, parameters: Sequence[torch.Tensor], anchor: Sequence[torch.Tensor] | None
    ) -> None:
        """Change the `.grad` of the parameters."""
        ...


@dataclass(frozen=True)
class PlainStep:
    """The gradient as it is."""

    anchored = False

    def adjust(
        self, parameters: Sequence[torch.Tensor], anchor: Sequence[torch.Tensor] | None
    ) -> None:
        """Nothing to change."""


@dataclass(frozen=True)
class Proximal:
    """Adds μ(θ − θ_anchor), the gradient of (μ/2)‖θ − θ_anchor‖²; the anchor is θ at the
    round's start, so the fresh update is unchanged by it."""

    mu: float
    anchored = True

    def adjust(
        self, parameters: Sequence[torch.Tensor], anchor: Sequence[torch.Tensor] | None
    ) -> None:
        """Pull towards the round's start."""
        assert anchor is not None
        for parameter, start in zip(parameters, anchor, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(parameter.detach() - start, alpha=self.mu)


def plain_step() -> PlainStep:
    """The neutral element: the optimizer applies the gradient as it is."""
    return PlainStep()


def proximal(mu: float) -> PlainStep | Proximal:
    """Keep local updates near the weights the round started from.

    >>> proximal(0) == plain_step()
    True
    """
    if mu < 0:
        raise RequestError(f"mu is {mu}: a proximal term needs 0 or more")
    return Proximal(mu) if mu > 0 else PlainStep()
