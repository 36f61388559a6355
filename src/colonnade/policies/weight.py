"""Axis *weight*: how much is each instance of a stale batch worth?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from colonnade.errors import RequestError

SHARES = (0.1, 0.5, 0.9)


def quantiles(weights: torch.Tensor) -> tuple[float, float, float] | None:
    """What 10, 50 and 90 % of the rows do not exceed; None of no rows.

    >>> quantiles(torch.arange(11.0))
    (1.0, 5.0, 9.0)
    """
    if not len(weights):
        return None
    ordered = weights.detach().to("cpu").sort().values
    low, middle, high = (ordered[round(share * (len(ordered) - 1))].item() for share in SHARES)
    return low, middle, high


class WeightPolicy:
    """Weighs the rows of a local update; by itself all alike."""

    weighs = False
    """Whether `rows` must be asked at all."""
    weighs_fresh = False
    """Whether a passive party asks it of fresh updates too, where others came between."""

    def rows(self, stale: torch.Tensor, current: torch.Tensor) -> torch.Tensor:
        """A weight for each row, from what was exchanged and what it would be now.

        At a passive party these are its embeddings, at the active party the derivatives by the
        passives' embeddings, side by side.
        """
        return stale.new_ones(len(stale))


@dataclass(frozen=True)
class Uniform(WeightPolicy):
    """Every row counts the same."""


@dataclass(frozen=True)
class Cosine(WeightPolicy):
    """The cosine between what was exchanged and what it would be now; 0 below the threshold."""

    threshold: float
    weighs = True

    def rows(self, stale: torch.Tensor, current: torch.Tensor) -> torch.Tensor:
        """No gradient flows through the weights."""
        similarity = F.cosine_similarity(stale, current, dim=1, eps=1e-12).detach()
        return torch.where(similarity >= self.threshold, similarity, 0.0)


@dataclass(frozen=True)
class CosineFresh(Cosine):
    """The same, and a passive party weighs fresh updates by it too where others came between the
    embedding and its use: that takes one more forward pass."""

    weighs_fresh = True


def cosine_fresh(threshold: float = 0.0) -> CosineFresh:
    """Instance weights for all updates that are stale, fresh ones included.

    >>> cosine_fresh().weighs_fresh
    True
    """
    return CosineFresh(cosine(threshold).threshold)


def cosine(threshold: float) -> Cosine:
    """CELU's instance weights.

    >>> cosine(0.5).rows(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])).tolist()
    [0.0]
    """
    if not 0 <= threshold < 1:
        raise RequestError(f"the threshold is {threshold}: give a cosine from 0 to below 1")
    return Cosine(threshold)


def uniform() -> Uniform:
    """The neutral element: stale rows count like fresh ones."""
    return Uniform()
