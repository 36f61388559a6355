"""Protections of embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from colonnade.errors import JobError
from colonnade.protect.secret import Stream

_TINY = 1e-12


@dataclass(frozen=True)
class Gauss:
    """The Gaussian mechanism on each row of an embedding (Dwork and Roth 2014, appendix A):

        h ← h · min(1, C / ‖h‖),        what leaves is h + N(0, σ² I)

    *Guarantee*: local differential privacy of a row's own release, with the weights taken as given:
    two rows' embeddings are at most 2C apart, so a row that leaves T times has what one release
    with 2C√T/σ has (`accountant`). *No guarantee*: for the data set as a whole, since a row also
    moves the weights that others are embedded with; no amplification by sampling, because the order
    of the batches is public; noise is drawn in floating point, not from a discrete distribution.
    """

    clip: float
    sigma: float

    @property
    def text(self) -> str:
        return f"gauss:{self.clip:g}:{self.sigma:g}"

    def shape(self, embedding: torch.Tensor) -> torch.Tensor:
        norms: torch.Tensor = torch.linalg.vector_norm(embedding, dim=1, keepdim=True)
        return embedding * (self.clip / norms.clamp(min=_TINY)).clamp(max=1.0)

    def leaving(self, embedding: torch.Tensor, random: Stream) -> torch.Tensor:
        noise = torch.from_numpy(random.normal(*embedding.shape)).to(embedding)
        return self.shape(embedding.detach()) + self.sigma * noise

    def penalty(self, embedding: torch.Tensor, columns: torch.Tensor) -> torch.Tensor | None:
        return None


@dataclass(frozen=True)
class DistanceCorrelation:
    """Less like the columns it was made from (Vepakomma et al. 2020, NoPeek): the party minimises

        ℓ + λ · dCor(x, h)

    over each batch, where dCor is the distance correlation of Székely et al. (2007), 0 for
    independent rows and 1 for a rotation. *No guarantee* of any kind: it makes the simplest
    inversions harder on average, and says nothing of the worst row.
    """

    weight: float

    @property
    def text(self) -> str:
        return f"dcor:{self.weight:g}"

    def shape(self, embedding: torch.Tensor) -> torch.Tensor:
        return embedding

    def leaving(self, embedding: torch.Tensor, random: Stream) -> torch.Tensor:
        return embedding

    def penalty(self, embedding: torch.Tensor, columns: torch.Tensor) -> torch.Tensor | None:
        return self.weight * _distance_correlation(columns, embedding)


def _distance_correlation(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Between 0 and 1; of rows that are all alike it is 0."""
    a, b = _centred(one.flatten(1)), _centred(other.flatten(1))
    variances = (a * a).mean() * (b * b).mean()
    return (a * b).mean().clamp(min=0) / variances.clamp(min=_TINY).sqrt()


def _centred(rows: torch.Tensor) -> torch.Tensor:
    """The distances between rows, less the means of both rows, and the mean of all."""
    squares = (rows * rows).sum(dim=1)
    gaps = squares[:, None] + squares[None, :] - 2 * rows @ rows.T
    # Off zero, where the root has no derivative.
    gaps = gaps.clamp(min=_TINY).sqrt()
    return gaps - gaps.mean(dim=0, keepdim=True) - gaps.mean(dim=1, keepdim=True) + gaps.mean()


def gauss(clip: float, sigma: float) -> Gauss:
    """Rows clipped to length `clip`, with noise of standard deviation `sigma`.

    >>> gauss(1, 0.5).text
    'gauss:1:0.5'
    """
    if not (0 < clip < math.inf and 0 < sigma < math.inf):
        raise JobError(
            f"gauss:{clip:g}:{sigma:g} is no noise: give a length and a standard deviation over 0, "
            "as in gauss:1:0.5"
        )
    return Gauss(float(clip), float(sigma))


def dcor(weight: float) -> DistanceCorrelation:
    """Distance correlation with the columns as a part of the loss.

    >>> dcor(0.1).text
    'dcor:0.1'
    """
    if not 0 < weight < math.inf:
        raise JobError(f"dcor:{weight:g} is no weight: give one over 0, as in dcor:0.1")
    return DistanceCorrelation(float(weight))
