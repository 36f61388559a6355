"""The line along which the gradients of many rows lie: with two classes each is ±, so that their
largest singular vector parts them (Sun et al. 2022)."""

from __future__ import annotations

import numpy as np

from colonnade.privacy.norm import above_share
from colonnade.privacy.recorded import Array, Stream

NEEDS = "the share of positives"
NEEDS_EVEN = "the share of positives, one known row of each class"
BLOCK = 16
"""Tensors that are looked at together: the top model hardly moves between them, and the more rows
there are, the less noise turns the line."""
EARLY = 4
"""The first so many tensors are of a model that has hardly learnt anything."""
PLAIN = 5.0
"""A mean that is so many standard errors from 0 is no accident."""
EVEN = 0.05
"""Classes whose shares differ by less from a half are not told apart by how many there are."""


def spectral(gradients: Stream, share: float, examples: Array | None = None) -> Array:
    """A score for each row, over 0 where it is taken for positive. `examples` are a negative and a
    positive row, which are needed where both classes have as many.

    >>> rows = np.arange(5)
    >>> pushed = np.outer([-1, -1, 3, -1, -1], [0.6, 0.8])
    >>> spectral(Stream.of([(0, rows, pushed)]), share=0.2) > 0
    array([False, False,  True, False, False])
    """
    along = _projections(gradients)
    scores = gradients.pooled(along)
    if not is_even(share):
        scores = -scores if _rare_is_first(gradients, along) == (share < 0.5) else scores
    elif examples is not None:
        negative, positive = (scores[np.searchsorted(gradients.ids, row)] for row in examples)
        scores = -scores if negative > positive else scores
    return above_share(scores, share)


def is_even(share: float) -> bool:
    """Whether both classes have about as many rows.

    >>> is_even(0.48), is_even(0.22)
    (True, False)
    """
    return abs(share - 0.5) <= EVEN


def _rare_is_first(gradients: Stream, along: Array) -> bool:
    """Whether the rarer class is at the lower end. Before a model has learnt how rare it is, most
    rows push it to the other side, and no noise hides that; later, whoever is rare is far from the
    middle, which noise that is the same for all does not hide."""
    begun = along[gradients.batch < gradients.batch[0] + EARLY]
    off = float(begun.mean()) * np.sqrt(len(begun)) / max(float(begun.std()), 1e-30)
    if abs(off) > PLAIN:
        return bool(off > 0)
    return bool(np.mean((along - along.mean()) ** 3) < 0)


def _projections(gradients: Stream) -> Array:
    """Of each line, how far it lies along the line of its block; all blocks point the same way."""
    scaled = np.empty_like(gradients.values, dtype=np.float64)
    edges = []
    for number, (lines, values) in enumerate(gradients.batches()):
        scaled[lines] = values / max(float(np.sqrt(np.mean(values**2))), 1e-30)
        if not number % BLOCK:
            edges.append(lines.start)
    along, before = np.empty(len(scaled)), None
    for start, end in zip(edges, [*edges[1:], len(scaled)], strict=True):
        block = scaled[start:end]
        vector = np.linalg.svd(block, full_matrices=False)[2][0]
        if before is not None and vector @ before < 0:
            vector = -vector
        along[start:end] = block @ vector
        before = vector
    return along
