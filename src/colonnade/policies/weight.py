"""Axis *weight*: how much is each instance of a stale batch worth?"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch.nn import functional as F

from colonnade.errors import RequestError


class WeightPolicy:
    """Weighs the rows of a local update; by itself all alike."""

    weighs = False
    """Whether a passive party asks `rows` at all."""
    weighs_fresh = False
    """Whether a passive party asks it of fresh updates too, where others came between."""
    weighs_active = False
    """Whether the active party asks it of its own local updates."""

    def rows(
        self, stale: torch.Tensor, current: torch.Tensor, slope: torch.Tensor | None = None
    ) -> torch.Tensor:
        """A weight for each row, from what was exchanged and what it would be now.

        At a passive party these are its embeddings, and `slope` is the derivative of each row's
        own loss by its embedding, times the number of parties that hold a part of the model. At
        the active party they are the derivatives by the passives' embeddings, side by side, and
        there is no slope.
        """
        return stale.new_ones(len(stale))


@dataclass(frozen=True)
class Uniform(WeightPolicy):
    """Every row counts the same."""


@dataclass(frozen=True)
class Cosine(WeightPolicy):
    """The cosine between what was exchanged and what it would be now; 0 below the threshold."""

    threshold: float
    weighs = weighs_active = True

    def rows(
        self, stale: torch.Tensor, current: torch.Tensor, slope: torch.Tensor | None = None
    ) -> torch.Tensor:
        """No gradient flows through the weights."""
        similarity = F.cosine_similarity(stale, current, dim=1, eps=1e-12).detach()
        return torch.where(similarity >= self.threshold, similarity, 0.0)


@dataclass(frozen=True)
class CosineFresh(Cosine):
    """The same, and a passive party weighs fresh updates by it too where others came between the
    embedding and its use: that takes one more forward pass."""

    weighs_fresh = True


@dataclass(frozen=True)
class Compensate(WeightPolicy):
    """One plus what the party's own moves have changed of the row's loss, within 0 and 2."""

    strength: float
    weighs = weighs_fresh = True

    def rows(
        self, stale: torch.Tensor, current: torch.Tensor, slope: torch.Tensor | None = None
    ) -> torch.Tensor:
        """No gradient flows through the weights. What is not a number counts as it came."""
        assert slope is not None, "only a passive party compensates"
        change = ((current.detach() - stale) * slope).sum(dim=1)
        return torch.nan_to_num(1 + self.strength * change, nan=1.0).clamp(0.0, 2.0)


def compensate(strength: float = 1.0) -> Compensate:
    """Delay compensation at the embedding: a row whose loss has fallen since its gradient was
    computed has a smaller gradient by now.

    A gradient gᵢ of the mean loss of B rows, by the embedding hᵢ of then, is one of hᵢ + Δᵢ now.
    With Fisher's information of the row in place of its Hessian, K parties that all move to lower
    the same loss, and the party's own move Δᵢ, which it knows,

        gᵢ(now) ≈ gᵢ + K · B gᵢ gᵢᵀ Δᵢ = (1 + K ⟨B gᵢ, Δᵢ⟩) gᵢ

    so a weight for each row is all it takes; it is held within 0 and 2. ⟨B gᵢ, Δᵢ⟩ is what the
    party's own moves have changed of the row's loss, to first order. `strength` multiplies it. At
    the active party nothing is weighed, for its gradients are of now.

    >>> stale, now = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 3.0]])
    >>> compensate().rows(stale, now, slope=torch.tensor([[0.4, 0.0]])).tolist()
    [0.800000011920929]
    """
    if not 0 < strength < inf:
        raise RequestError(f"the strength is {strength}: give a factor above 0, as a rule 1")
    return Compensate(strength)


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
