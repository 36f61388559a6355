"""How long a row's gradient is (Li et al. 2022): of the rarer class the model is
surprised more, so its gradients are longer."""

from __future__ import annotations

import numpy as np

from colonnade.privacy.recorded import Array, Stream

NEEDS = "the share of positives"


def norm(gradients: Stream, share: float) -> Array:
    """A score for each row, over 0 where it is taken for positive.

    >>> lengths = np.array([[1.0], [9.0], [2.0], [1.0]])
    >>> norm(Stream.of([(0, np.arange(4), lengths)]), share=0.25) > 0
    array([False,  True, False, False])
    """
    lengths = np.linalg.norm(gradients.values, axis=1)
    relative = np.zeros_like(lengths)
    for lines, _ in gradients.batches():
        # Gradients become shorter as the model learns.
        relative[lines] = lengths[lines] / max(lengths[lines].mean(), 1e-30)
    scores = gradients.pooled(relative if share <= 0.5 else -relative)
    return above_share(scores, share)


def above_share(scores: Array, share: float) -> Array:
    """The same scores less their quantile, so that as many are over 0 as there are positives.

    >>> above_share(np.array([1.0, 2.0, 3.0, 4.0]), 0.25) > 0
    array([False, False, False,  True])
    """
    return np.asarray(scores - np.quantile(scores, 1 - share))
