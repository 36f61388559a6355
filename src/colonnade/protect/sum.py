"""Protections of embeddings of which only the sum is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.errors import FailedError, JobError

WORDS: dict[int, tuple[Any, torch.dtype]] = {
    32: (np.dtype("<u4"), torch.int32),
    64: (np.dtype("<u8"), torch.int64),
}
"""By bits, the words that masks are made of, and how they cross."""
Words = NDArray[Any]


@dataclass(frozen=True)
class Pairwise:
    """Fixed point under masks that cancel (Bonawitz et al. 2017, section 4): of n passive parties,
    p sends

        y_p = round(2^f · h_p) + Σ_{q>p} m_pq − Σ_{q<p} m_qp   mod 2^b

    where m_pq is a stream of bits that only p and q know (`masks`). The active party adds them all:
    2^-f · Σ y_p = Σ round(2^f · h_p) / 2^f. *Guarantee*: whatever the active party and all but two
    of the passive ones tell each other, they learn of the other two's embeddings no more than their
    sum, as far as X25519, HKDF and AES hold. *No guarantee*: for a party with whom all other
    passive parties collude with the active one; of what the sum itself tells; of whether a party
    sends what it should, since nobody sees what it was.
    """

    bits: int
    fraction: int

    @property
    def text(self) -> str:
        return f"pairwise:{self.bits}:{self.fraction}"

    @property
    def dtype(self) -> torch.dtype:
        """Of what crosses."""
        return WORDS[self.bits][1]

    def limit(self, parties: int) -> float:
        """Components stay below this, so that the sum of so many parties' does not wrap.

        >>> pairwise(32).limit(4)
        512.0
        """
        return float(2.0 ** (self.bits - 1 - self.fraction) / parties)

    def to_fixed(self, tensor: torch.Tensor, parties: int) -> Words:
        """The components as words; refuses those that the sum has no room for."""
        given = tensor.detach().cpu().numpy()
        # In the tensor's own type: a power of two changes no digit of a number that has room.
        with np.errstate(over="ignore"):
            scaled = given * given.dtype.type(2.0**self.fraction)
        np.rint(scaled, out=scaled)
        limit = self.limit(parties)
        largest = float(np.abs(scaled).max(initial=0.0)) / 2.0**self.fraction
        # Not a comparison the other way round: NaN is to be refused too.
        if not largest < limit:
            # Its peers are not told how large: that would tell of a row.
            raise FailedError(
                f"an embedding has a component of {largest:.3g}, and {self.text} has room for "
                f"less than {limit:g} with {parties} passive parties: give fewer fractional bits "
                "or more bits in method.protect.sum, as in pairwise:64:20, or lower the learning "
                "rate if the training diverges"
            )
        words, signed = WORDS[self.bits][0], np.int32 if self.bits == 32 else np.int64
        fixed: Words = scaled.astype(signed).view(words)
        return fixed

    def to_float(self, total: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """The sum as numbers.

        >>> fixed = pairwise(32).to_fixed(torch.tensor([0.5, -3.0]), 2)
        >>> pairwise(32).to_float(torch.from_numpy(fixed.view("i4")), torch.float32).tolist()
        [0.5, -3.0]
        """
        return (total.double() * 2.0**-self.fraction).to(dtype)


def pairwise(bits: int, fraction: int = 20) -> Pairwise:
    """Sums modulo 2^bits, 32 or 64, with so many bits after the point.

    >>> pairwise(32).text
    'pairwise:32:20'
    """
    if bits not in WORDS:
        raise JobError(
            f"pairwise:{bits} is no width of words: give 32 or 64 bits, as in pairwise:32"
        )
    if not 1 <= fraction <= bits - 8:
        raise JobError(
            f"pairwise:{bits}:{fraction} leaves no room before or after the point: give 1 to "
            f"{bits - 8} fractional bits, as in pairwise:{bits}:20"
        )
    return Pairwise(bits, fraction)
