"""Protections of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import JobError
from colonnade.protect.secret import Draws

EPSILON_MAX = 30.0


@dataclass(frozen=True)
class Flip:
    """Randomised response (Warner 1965) with K classes: a label is kept with probability

        P(kept) = e^ε / (e^ε + K − 1)

    and is otherwise one of the other classes, all alike. *Guarantee*: ε-differential privacy of
    each row's label, towards everybody and for any number of rounds, jobs and evaluations, because
    all that is computed from labels is computed from the column that was drawn, once for all:
    gradients, validation, the best round, stopping, class weights, calibration. *No guarantee*: of
    the active party's own columns; of a label that its columns, or the model, tell anyway.
    """

    epsilon: float

    @property
    def text(self) -> str:
        return f"flip:{self.epsilon:g}"

    def kept(self, classes: int) -> float:
        """The probability that a label stays.

        >>> round(flip(2).kept(2), 4)
        0.8808
        """
        return 1 / (1 + (classes - 1) * math.exp(-self.epsilon))

    def column(self, labels: NDArray[Any], classes: int, draws: Draws) -> NDArray[Any]:
        change = draws[:, 0] >= self.kept(classes)
        by = 1 + np.floor(draws[:, 1] * (classes - 1)).astype(np.int64)
        drawn = np.where(change, (labels.astype(np.int64) + by) % classes, labels)
        return drawn.astype(labels.dtype)


def flip(epsilon: float) -> Flip:
    """Randomised response with ε = `epsilon`.

    >>> flip(2.0).text
    'flip:2'
    """
    if not 0 < epsilon <= EPSILON_MAX:
        raise JobError(
            f"flip:{epsilon:g} is no randomised response: give an ε over 0 and up to "
            f"{EPSILON_MAX:g}, as in flip:2"
        )
    return Flip(float(epsilon))
