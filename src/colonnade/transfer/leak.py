"""What each side finds out about the other from its own gradients, which it must get decrypted.

The guest's gradient of a row that both have is α/N·y·c − κu_B, where c is what it is told for all
its other rows. So −κu_B is a difference of two numbers that it knows: it gets the host's embeddings
of every common row, in every round, to the last bit.

The host's gradients are α(¼u·Φ − ½y)Φ − κu_A. They lie along one direction, and on which side of 0
a row lies is its label, as long as ¼|z| < ½: it gets every label, but for which of the two classes
is which. From two updates on one exchange it has ΦᵀΦ as well, and with it u_A.
"""

from __future__ import annotations

import numpy as np

from colonnade.transfer.setting import EMBEDDING, Bounds
from colonnade.transfer.sides import Wholes


def embeddings_of_host(
    constant: Wholes, gradients: Wholes, signs: Wholes, bounds: Bounds
) -> Wholes:
    """At the guest: the host's embeddings of the common rows, in its own fixed point."""
    mapping = gradients - np.outer(signs * bounds.factor, constant)
    return -(mapping >> bounds.mapping_shift)


def labels_of_guest(gradients: Wholes) -> Wholes:
    """At the host: 1 and −1 for the two classes of the common rows, one way or the other."""
    slopes = gradients.astype(np.float64)
    direction = np.linalg.svd(slopes, full_matrices=False)[2][0]
    return np.where(slopes @ direction > 0, 1, -1)


def components_of_guest(
    before: tuple[Wholes, Wholes], after: tuple[Wholes, Wholes]
) -> tuple[Wholes, Wholes]:
    """At the host, from its embeddings and gradients in two updates on one exchange: ¼αΦᵀΦ, and the
    rest of every gradient, −½αyΦ − κu_A, both as the guest has encrypted them. It needs as many
    rows as embeddings are wide."""
    moved, changed = after[0] - before[0], after[1] - before[1]
    solved = np.linalg.lstsq(moved.astype(np.float64), changed.astype(np.float64), rcond=None)[0]
    products = np.rint(solved).astype(np.int64)
    return products, before[1] - before[0] @ products >> EMBEDDING
