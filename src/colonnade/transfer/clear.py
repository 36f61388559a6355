"""The gradients in whole numbers: what encryption must come to, bit for bit."""

from __future__ import annotations

import numpy as np

from colonnade.transfer.setting import EMBEDDING, SUM_SHIFT, Bounds
from colonnade.transfer.sides import Wholes

Components = tuple[Wholes, Wholes, Wholes]


def guest_gradients(
    factors: Wholes, signs: Wholes, theirs: Components, bounds: Bounds
) -> tuple[Wholes, Wholes]:
    """¼Φ·Σuᵀu − ½Σyu, and for each row that both have α/N·y times that, − κu_B."""
    squares, embeddings, mapping = theirs
    constant = factors @ squares - (signs @ embeddings << SUM_SHIFT)
    gradients = np.outer(signs * bounds.factor, constant) + (mapping << bounds.mapping_shift)
    return constant, gradients


def host_gradients(factors: Wholes, theirs: Components) -> Wholes:
    """For each row α(¼u·ΦᵀΦ − ½yΦ) − κu_A."""
    products, labels, mapping = theirs
    gradients: Wholes = factors @ products + (labels + mapping << EMBEDDING)
    return gradients
