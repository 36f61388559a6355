"""The guest and the host: their models, what they send, and how they learn from what comes back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.cipher.slots import from_fixed, to_fixed
from colonnade.transfer.bottom import Bottom, Floats
from colonnade.transfer.rows import Rows
from colonnade.transfer.setting import (
    COMPONENT,
    CONSTANT_BITS,
    EMBEDDING,
    FACTOR,
    HOST_BITS,
    MEAN,
    SQUARE,
    Bounds,
    Setting,
)

Wholes = NDArray[np.int64]


class Guest:
    """It has the labels: Φ, the mean of y·u over its rows, is what scores the host's rows."""

    def __init__(self, setting: Setting, rows: Rows) -> None:
        self.setting, self.rows = setting, rows
        self.bounds = Bounds(setting, rows)
        self.bottom = Bottom(rows.guest.shape[1], setting.width, 2 * setting.seed + 1)
        self.signs = rows.labels[: rows.overlap].astype(np.int64)
        self.look()

    def look(self) -> None:
        """The embeddings and Φ, as the weights are now."""
        self.embeddings = self.bottom(self.rows.guest)
        self.phi = self.rows.labels @ self.embeddings / len(self.rows.labels)

    @property
    def factors(self) -> Wholes:
        """Φ in fixed point, to multiply with."""
        return to_fixed(self.phi, MEAN, 1 << MEAN)

    def components(self) -> tuple[Wholes, Wholes, Wholes]:
        """¼αΦᵀΦ, −½αyΦ, −κu: what the host's gradients are made of. The paper has a y²ΦᵀΦ for each
        row; y² is 1, so that one is enough."""
        alpha, phi = self.setting.alpha, self.phi
        own = self.embeddings[: self.rows.overlap]
        parts = (
            alpha / 4 * np.outer(phi, phi),
            -alpha / 2 * np.outer(self.signs, phi),
            -own / self.setting.width,
        )
        limits = self.bounds.guest
        first, second, third = (
            to_fixed(part, COMPONENT, limit) for part, limit in zip(parts, limits, strict=True)
        )
        return first, second, third

    def learn(self, gradients: Sequence[Wholes], round: int) -> None:
        """One update: what all rows' gradients are made of, and the gradients of those that both
        have."""
        constant, own = gradients
        scale = self.setting.alpha / len(self.rows.labels)
        common = from_fixed(constant, CONSTANT_BITS) * scale
        slopes = np.outer(self.rows.labels, common)
        slopes[: self.rows.overlap] = from_fixed(own, CONSTANT_BITS + FACTOR)
        rate = self.setting.rate_of(round)
        self.bottom.learn(self.rows.guest, self.embeddings, slopes, rate)
        self.look()

    def scores(self, embeddings: Floats) -> Floats:
        """Of rows that the host has."""
        return embeddings @ self.phi


class Host:
    """It has columns only."""

    def __init__(self, setting: Setting, rows: Rows) -> None:
        self.setting, self.rows = setting, rows
        self.bottom = Bottom(rows.host.shape[1], setting.width, 2 * setting.seed + 2)
        self.look()

    def look(self) -> None:
        """The embeddings, as the weights are now."""
        self.embeddings = self.bottom(self.rows.host)

    @property
    def factors(self) -> Wholes:
        """The embeddings in fixed point, to multiply with."""
        return to_fixed(self.embeddings, EMBEDDING, 1 << EMBEDDING)

    def components(self) -> tuple[Wholes, Wholes, Wholes]:
        """Σuᵀu, u, −κu: what the guest's gradients are made of. The paper has a uᵀu for each row,
        which the guest multiplies by y² and adds up; y² is 1, so that the sum is enough."""
        own = self.factors
        shift = 2 * EMBEDDING - SQUARE
        squares = own.T @ own + (1 << shift - 1) >> shift
        return squares, own, -own

    def learn(self, gradients: Sequence[Wholes], round: int) -> None:
        """One update, with the gradients of all its rows."""
        (own,) = gradients
        slopes = from_fixed(own, HOST_BITS)
        rate = self.setting.rate_of(round)
        self.bottom.learn(self.rows.host, self.embeddings, slopes, rate)
        self.look()

    def tested(self) -> Floats:
        """The embeddings of the rows that only the host has."""
        return self.bottom(self.rows.host_only)
