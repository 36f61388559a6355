"""Whole numbers side by side in one plaintext, and fixed point.

A plaintext is Σ vᵢ·2^(w·i) with signed vᵢ: sums and multiples of plaintexts are those of each slot,
as long as none leaves −2^(w−1) … 2^(w−1). So slots are wider than the numbers that go in, by the
bits that the largest result needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import FailedError

WORD_BYTES = 8
SLOT_BYTES_MAX = 32

Whole = NDArray[Any]
"""Whole numbers: int64 where all fit, else Python's own."""


@dataclass(frozen=True)
class Slots:
    """How numbers lie in the plaintexts of keys of so many bits.

    >>> slots = Slots(key_bits=2048, slot_bytes=7)
    >>> slots.count, slots.limit == 2**55
    (36, True)
    >>> slots.unpack(slots.pack(np.array([5, -6, 7])), 3)
    array([ 5, -6,  7])
    """

    key_bits: int
    slot_bytes: int

    def __post_init__(self) -> None:
        assert 1 <= self.slot_bytes <= SLOT_BYTES_MAX

    @property
    def count(self) -> int:
        """Of slots in a plaintext; it stays below a quarter of n on either side."""
        return (self.key_bits - 2) // (8 * self.slot_bytes)

    @property
    def limit(self) -> int:
        """Every slot's number stays below this on either side."""
        return 1 << 8 * self.slot_bytes - 1

    @cached_property
    def _offset(self) -> int:
        """Half of each slot's range: with it added, no slot is negative."""
        whole = bytes(self.slot_bytes - 1) + b"\x80"
        return int.from_bytes(whole * self.count, "little")

    def plaintexts(self, numbers: int) -> int:
        """How many plaintexts so many numbers take."""
        return -(-numbers // self.count)

    def pack(self, values: Whole) -> list[int]:
        """The plaintexts; the slots that are left over hold 0."""
        flat = values.reshape(-1)
        if largest(flat) >= self.limit:
            raise OverflowError(f"a number does not fit into a slot of {self.slot_bytes} bytes")
        padded = np.zeros(self.plaintexts(len(flat)) * self.count, dtype=flat.dtype)
        padded[: len(flat)] = flat
        size, width = self.count * self.slot_bytes, self.slot_bytes
        if self.slot_bytes <= WORD_BYTES:
            shifted = padded.astype(np.int64).view(np.uint64) + np.uint64(self.limit)
            octets = shifted.view(np.uint8).reshape(-1, WORD_BYTES)[:, :width].tobytes()
        else:
            octets = b"".join((int(v) + self.limit).to_bytes(width, "little") for v in padded)
        return [
            int.from_bytes(octets[start : start + size], "little") - self._offset
            for start in range(0, len(octets), size)
        ]

    def unpack(self, plaintexts: Sequence[int], numbers: int) -> Whole:
        """So many numbers; the inverse of `pack`. A plaintext that is out of range was not made by
        the sums and multiples that these slots are for."""
        size, width = self.count * self.slot_bytes, self.slot_bytes
        shifted = [m + self._offset for m in plaintexts]
        if any(not 0 <= m < 1 << 8 * size for m in shifted):
            raise FailedError("a ciphertext holds a number beyond the range of its slots")
        octets = b"".join(int(m).to_bytes(size, "little") for m in shifted)[: numbers * width]
        if width <= WORD_BYTES:
            words = np.zeros((numbers, WORD_BYTES), np.uint8)
            words[:, :width] = np.frombuffer(octets, np.uint8).reshape(numbers, width)
            return (words.reshape(-1).view(np.uint64) - np.uint64(self.limit)).view(np.int64)
        whole = np.empty(numbers, dtype=object)
        for i in range(numbers):
            part = octets[i * width : (i + 1) * width]
            whole[i] = int.from_bytes(part, "little") - self.limit
        return whole


def largest(values: Whole) -> int:
    """The largest number, on either side.

    >>> largest(np.array([3, -4]))
    4
    """
    return max(int(values.max()), -int(values.min())) if values.size else 0


def to_fixed(values: NDArray[Any], fraction: int, bound: int) -> NDArray[np.int64]:
    """Round to multiples of 2⁻ᶠ, halves to even; each at most `bound` of them on either side.

    >>> to_fixed(np.array([0.5, -1.25]), fraction=2, bound=2**20)
    array([ 2, -5])
    """
    scaled = np.rint(np.asarray(values, np.float64) * float(1 << fraction))
    if not (np.abs(scaled) <= bound).all():
        raise FailedError(
            f"a number is not finite or beyond ±{bound / (1 << fraction):g}, the range of the "
            "fixed point that is encrypted: lower the learning rate, or give it fewer bits behind "
            "the point"
        )
    return scaled.astype(np.int64)


def from_fixed(values: Whole, fraction: int) -> NDArray[np.float64]:
    """The nearest numbers in floating point; the inverse of `to_fixed` up to 2⁵³.

    >>> from_fixed(np.array([2, -5]), fraction=2).tolist()
    [0.5, -1.25]
    """
    return np.asarray(values, np.float64) * 2.0**-fraction
