"""Which way a row's gradient points, beside that of one row of each class whose label is known (Li
et al. 2022): rows of one class are pushed the same way."""

from __future__ import annotations

import numpy as np

from colonnade.privacy.recorded import Array, Rows, Stream

NEEDS = "one known row of each class"


def direction(gradients: Stream, examples: Rows) -> Array:
    """How much each row is like the example of each class, [rows, classes]: the cosine to its
    gradient of the same pass over the rows, on average over the passes.

    >>> pushed = np.array([[1.0, 0.1], [-1.0, 0.0], [2.0, 0.0], [-3.0, 0.3]])
    >>> crossed = Stream.of([(0, np.arange(4), pushed)])
    >>> direction(crossed, np.array([0, 1])).argmax(axis=1)
    array([0, 1, 0, 1])
    """
    lengths = np.linalg.norm(gradients.values, axis=1, keepdims=True)
    unit = gradients.values / np.maximum(lengths, 1e-30)
    likeness = []
    for row in examples:
        own = unit[gradients.rows == row]
        beside = own[np.minimum(gradients.release, len(own) - 1)]
        likeness.append(gradients.pooled((unit * beside).sum(axis=1)))
    return np.stack(likeness, axis=1)
