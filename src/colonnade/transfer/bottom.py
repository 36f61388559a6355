"""A party's own model: one layer of tanh units, trained by Adam."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-7


class Bottom:
    """u = tanh(x·W + b), with Glorot's initial weights.

    >>> Bottom(columns=3, width=2, seed=0)(np.zeros((1, 3))).tolist()
    [[0.0, 0.0]]
    """

    def __init__(self, columns: int, width: int, seed: int) -> None:
        scale = math.sqrt(2 / (columns + width))
        weights = np.random.default_rng(seed).normal(0, scale, (columns, width))
        self.values = [weights, np.zeros(width)]
        self._first = [np.zeros_like(v) for v in self.values]
        self._second = [np.zeros_like(v) for v in self.values]
        self._steps = 0

    def __call__(self, rows: Floats) -> Floats:
        weights, bias = self.values
        embedding: Floats = np.tanh(rows @ weights + bias)
        return embedding

    def learn(self, rows: Floats, embedding: Floats, gradient: Floats, rate: float) -> None:
        """One step of Adam, with the loss's derivatives by the embeddings of these rows."""
        inner = gradient * (1 - embedding * embedding)
        self._steps += 1
        second = math.sqrt(1 - _SECOND**self._steps)
        step = rate * second / (1 - _FIRST**self._steps)
        for place, slope in enumerate((rows.T @ inner, inner.sum(axis=0))):
            m, v = self._first[place], self._second[place]
            m += (1 - _FIRST) * (slope - m)
            v += (1 - _SECOND) * (slope * slope - v)
            self.values[place] -= step * m / (np.sqrt(v) + _TINY)

    def digest(self) -> str:
        """Of all weights, to the last bit."""
        return hashlib.sha256(b"".join(v.tobytes() for v in self.values)).hexdigest()
