"""Powers of one number, from a table (Brickell et al. 1992): no squaring, one product a byte."""

from __future__ import annotations

from colonnade.cipher.big import gmpy2

_VALUES = 256


class Powers:
    """What a number gives to any power of so many bytes, modulo another. The table has 256 entries
    for each byte of the exponent: 4 MiB for 32 bytes and a modulus of 4096 bits.

    >>> Powers(3, 1000, exponent_bytes=2)((257).to_bytes(2, "little")) == pow(3, 257, 1000)
    True
    """

    def __init__(self, base: int, modulus: int, exponent_bytes: int) -> None:
        self._modulus: int = gmpy2.mpz(modulus)
        self._rows: list[list[int]] = []
        step = gmpy2.mpz(base) % self._modulus
        for _ in range(exponent_bytes):
            row = [gmpy2.mpz(1)]
            for _ in range(_VALUES - 1):
                row.append(row[-1] * step % self._modulus)
            self._rows.append(row)
            step = row[-1] * step % self._modulus

    def __call__(self, exponent: bytes) -> int:
        """The power; the exponent's lowest byte comes first."""
        assert len(exponent) <= len(self._rows)
        result: int = gmpy2.mpz(1)
        modulus = self._modulus
        for row, digit in zip(self._rows, exponent, strict=False):
            result = result * row[digit] % modulus
        return result
