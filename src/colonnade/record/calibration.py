"""Probabilities that mean what they say: fitted on held-out rows after a round was chosen.

A network that ranks rows well may still be too sure of itself. Two classes get Platt's sigmoid,
p = σ(a·z + b), with his targets for finitely many rows (Platt, 1999); more classes get one
temperature, p = softmax(a·z) (Guo et al., 2017). Neither changes the order of the scores: a > 0.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_STEPS = 50
_SCALE_MIN, _SCALE_MAX = 1e-3, 1e3


class Calibration(msgspec.Struct, frozen=True):
    """From the scores of a top model to probabilities.

    >>> Calibration().probabilities(np.array([[0.0]])).tolist()
    [[0.5, 0.5]]
    """

    scale: float = 1.0
    shift: float = 0.0
    rows: int = 0
    """On how many rows it was fitted; 0 where it was not."""
    split: str = ""
    """Which rows those were."""

    def probabilities(self, scores: NDArray[Any]) -> Floats:
        """The probability of each class; of two, the positive one is last."""
        scaled = self.scale * np.asarray(scores, dtype=np.float64) + self.shift
        if scaled.shape[1] == 1:
            positive = _sigmoid(scaled)
            return np.hstack([1 - positive, positive])
        return np.asarray(np.exp(_log_softmax(scaled)))


def fit(scores: NDArray[Any], labels: NDArray[Any], split: str) -> Calibration:
    """The calibration that suits held-out rows best.

    >>> scores = np.array([[4.0], [4.0], [4.0], [-4.0], [-4.0], [-4.0]])
    >>> fitted = fit(scores, np.array([1, 1, 0, 0, 0, 1]), "validation")
    >>> 0 < fitted.scale < 1
    True
    """
    scores = np.asarray(scores, dtype=np.float64)
    if not len(scores) or len(np.unique(labels)) < 2 or not np.isfinite(scores).all():
        return Calibration()
    found = _sigmoid_fit(scores[:, 0], labels) if scores.shape[1] == 1 else _heat(scores, labels)
    # Scores that say nothing, or the contrary, cannot be mended without changing their order.
    if found is None or not _SCALE_MIN <= found[0] <= _SCALE_MAX:
        return Calibration()
    return Calibration(*found, len(scores), split)


def _sigmoid_fit(scores: Floats, labels: NDArray[Any]) -> tuple[float, float] | None:
    """Newton's method on the two parameters, with steps halved until they help."""
    positive = labels.astype(np.bool_)
    high = (positive.sum() + 1) / (positive.sum() + 2)
    low = 1 / ((~positive).sum() + 2)
    wanted = np.where(positive, high, low)
    columns = np.stack([scores, np.ones_like(scores)])

    def loss(at: Floats) -> float:
        z = at @ columns
        return float((np.logaddexp(0, z) - wanted * z).sum())

    at = np.array([1.0, 0.0])
    best = loss(at)
    for _ in range(_STEPS):
        p = _sigmoid(at @ columns)
        gradient = columns @ (p - wanted)
        curvature = (columns * (p * (1 - p))) @ columns.T + 1e-12 * np.eye(2)
        try:
            step = np.linalg.solve(curvature, gradient)
        except np.linalg.LinAlgError:
            return None  # All scores are the same, as of a run that a high rate has saturated.
        size = 1.0
        while size > 1e-9 and not loss(at - size * step) < best:
            size /= 2
        if size <= 1e-9:
            break
        at = at - size * step
        before, best = best, loss(at)
        if before - best < 1e-10 * max(1.0, abs(before)):
            break
    return None if not np.isfinite(at).all() else (float(at[0]), float(at[1]))


def _heat(scores: Floats, labels: NDArray[Any]) -> tuple[float, float] | None:
    """The scale by golden-section search over its logarithm: the loss is convex in the scale, so
    it has one valley."""
    rows, codes = np.arange(len(scores)), labels.astype(np.int64)

    def loss(log_scale: float) -> float:
        return -float(_log_softmax(np.exp(log_scale) * scores)[rows, codes].mean())

    low, high = np.log(_SCALE_MIN), np.log(_SCALE_MAX)
    golden = (5**0.5 - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = loss(right)
    return float(np.exp((low + high) / 2)), 0.0


def _sigmoid(z: Floats) -> Floats:
    return np.asarray(np.exp(-np.logaddexp(0, -z)))


def _log_softmax(scores: Floats) -> Floats:
    return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
