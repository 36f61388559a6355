"""Many sums of multiples of the same ciphertexts: a matrix that this party knows, times one that it
does not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.cipher.powers import Powers
from colonnade.cipher.tensor import Encrypted


class Linear:
    """Sums of multiples of some tensors under encryption, with factors of so many bits.

        outᵢ = Σₖ factorsᵢₖ · rowₖ

    Each ciphertext gets a table of its powers, so that a factor takes one product a byte; factors
    are made positive by an offset, whose share is taken off at the end.

    >>> import os
    >>> from colonnade.cipher.paillier import generate
    >>> from colonnade.cipher.slots import Slots
    >>> from colonnade.cipher.tensor import decrypt, encrypt
    >>> key, slots = generate(2048, os.urandom), Slots(2048, slot_bytes=10)
    >>> rows = [encrypt(np.array(v), key.public, slots, 9, os.urandom) for v in ([1, 2], [3, 4])]
    >>> (found,) = Linear(rows, factor_bytes=1).times(np.array([[5, -1]]))
    >>> [int(v) for v in decrypt(found, key)]
    [2, 6]
    """

    def __init__(self, rows: Sequence[Encrypted], factor_bytes: int) -> None:
        self._rows, self._width = rows, factor_bytes
        square = rows[0].key.square
        self._powers = [[Powers(c, square, factor_bytes) for c in r.ciphertexts] for r in rows]
        self._offset = 1 << 8 * factor_bytes - 1
        total = rows[0]
        for row in rows[1:]:
            total += row
        self._excess = total.times(-self._offset)

    def times(self, factors: NDArray[np.int64]) -> list[Encrypted]:
        """One sum for each row of factors."""
        if np.abs(factors).max(initial=0) >= self._offset:
            raise OverflowError(f"a factor does not fit into {self._width} bytes")
        return [self._sum(row) for row in factors]

    def _sum(self, factors: NDArray[np.int64]) -> Encrypted:
        key = self._excess.key
        shifted = [int(f + self._offset).to_bytes(self._width, "little") for f in factors]
        sums = list(self._excess.ciphertexts)
        for exponent, powers in zip(shifted, self._powers, strict=True):
            for place, power in enumerate(powers):
                sums[place] = key.add(sums[place], power(exponent))
        bound = sum(abs(int(f)) * r.bound for f, r in zip(factors, self._rows, strict=True))
        first = self._rows[0]
        return Encrypted(key, first.slots, first.shape, tuple(sums), bound)
