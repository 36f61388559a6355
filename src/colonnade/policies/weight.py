"""Axis *weight*: how much is each instance of a stale batch worth?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch


class WeightPolicy(Protocol):
    """Weighs the rows of a local update."""

    @property
    def weighs(self) -> bool:
        """Whether `rows` must be asked at all."""
        ...

    def rows(self, stale: torch.Tensor, current: torch.Tensor) -> torch.Tensor:
        """A weight for each row, from what was exchanged and what it would be now.

        At a passive party these are its embeddings, at the active party the derivatives by the
        passives' embeddings, side by side.
        """
        ...


@dataclass(frozen=True)
class Uniform:
    """Every row counts the same."""

    weighs = False

    def rows(self, stale: torch.Tensor, current: torch.Tensor) -> torch.Tensor:
        """All ones."""
        return stale.new_ones(len(stale))


def uniform() -> Uniform:
    """The neutral element: stale rows count like fresh ones."""
    return Uniform()
