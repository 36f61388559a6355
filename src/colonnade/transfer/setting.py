"""What both parties agree on, and the fixed point in which numbers cross."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from colonnade.cipher.slots import Slots

Decay = Literal["always", "local", "never"]
KEY_BITS = 2048
EMBEDDING, COMPONENT, MEAN, SQUARE, FACTOR = 14, 16, 12, 10, 14
"""Bits behind the point: of embeddings; of what the guest sends; of Φ, uᵀu and α/N at the guest."""
MASK_BITS = 40
"""A mask is so many bits longer than what it hides: nobody tells it from another but with a chance
of 2⁻⁴⁰."""


@dataclass(frozen=True)
class Setting:
    """One training.

    z = Φ·u_B,   Φ = 1/N Σ y·u_A          for each row that both have:
    loss = α (ln 2 − ½yz + ⅛z²) − κ u_A·u_B,   κ = 1/width
    """

    updates: int
    """Q: updates for each exchange."""
    rounds: int
    """The most exchanges."""
    target: float | None = None
    """The AUC at which to end."""
    seed: int = 0
    width: int = 64
    """Of embeddings: a power of 2, so that κ is exact."""
    alpha: float = 100.0
    rate: float = 0.011
    decay: Decay = "always"
    """Whether the rate is divided by √(round + 1): as the paper says, as its published code does
    (only where there are local updates), or never."""
    overlap: float = 0.05
    """Which part of all rows both have."""
    guest_share: float = 0.7
    """Which part of the others the guest has; the host has the rest, on which AUC is measured."""

    def __post_init__(self) -> None:
        assert self.width & (self.width - 1) == 0

    @property
    def slots(self) -> Slots:
        """How numbers lie in a plaintext, under either key."""
        return Slots(KEY_BITS, slot_bytes=11)

    @property
    def padded(self) -> int:
        """A row's numbers with zeros behind them, so that a ciphertext belongs to one row."""
        return self.slots.plaintexts(self.width) * self.slots.count

    @property
    def kappa_bits(self) -> int:
        """κ = 2 to minus this power."""
        return int(math.log2(self.width))

    def rate_of(self, round: int) -> float:
        """The learning rate of a round."""
        decays = self.decay == "always" or (self.decay == "local" and self.updates > 1)
        return self.rate / math.sqrt(round + 1) if decays else self.rate


class Counts(Protocol):
    """How many rows there are."""

    @property
    def overlap(self) -> int:
        """That both have."""

    @property
    def guest_rows(self) -> int:
        """That the guest has."""


@dataclass(frozen=True)
class Bounds:
    """What no number can exceed, whatever the rows are: of each component and of each gradient.

    Embeddings are between −1 and 1, and so is Φ.
    """

    setting: Setting
    rows: Counts

    @property
    def guest(self) -> tuple[int, int, int]:
        """Of the guest's components."""
        alpha, one = self.setting.alpha, 1 << COMPONENT
        largest = (alpha / 4, alpha / 2, 1 / self.setting.width)
        first, second, third = (math.ceil(number * one) for number in largest)
        return first, second, third

    @property
    def host(self) -> tuple[int, int, int]:
        """Of the host's components."""
        return (self.rows.overlap << SQUARE) + 1, 1 << EMBEDDING, 1 << EMBEDDING

    @property
    def factor(self) -> int:
        """α/N, with `FACTOR` bits behind the point."""
        return max(1, round(self.setting.alpha / self.rows.guest_rows * (1 << FACTOR)))

    @property
    def constant(self) -> int:
        """Of what is the same for all of the guest's rows."""
        products = self.setting.width * (1 << MEAN) * self.host[0]
        sums = self.rows.overlap * self.host[1] << SUM_SHIFT
        return products + sums

    @property
    def guest_gradient(self) -> int:
        """Of the guest's gradient of a row that both have."""
        return self.constant * self.factor + (self.host[2] << self.mapping_shift)

    @property
    def host_gradient(self) -> int:
        """Of the host's gradient of a row."""
        first, second, third = self.guest
        return self.setting.width * (1 << EMBEDDING) * first + (second + third << EMBEDDING)

    @property
    def mapping_shift(self) -> int:
        """From −κ·u_B in the host's fixed point to the guest's gradients."""
        return CONSTANT_BITS + FACTOR - (EMBEDDING + self.setting.kappa_bits)


CONSTANT_BITS = MEAN + SQUARE + 2
"""Behind the point, of ¼Φ·Σuᵀu − ½Σyu."""
SUM_SHIFT = CONSTANT_BITS - (EMBEDDING + 1)
"""From ½Σyu to that."""
HOST_BITS = EMBEDDING + COMPONENT
"""Behind the point, of the host's gradients."""
