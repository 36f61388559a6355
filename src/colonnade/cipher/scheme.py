"""What a cryptosystem has to do so that somebody without its private key can add up tensors.

Whole numbers of `bits` bits go in: each below 2^(bits−1) on either side, and so is every sum of
them. What comes out may have one bit more, since a known number is added to the sum. Ciphertexts
cross as bytes, one row for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.cipher.big import gmpy2
from colonnade.cipher.paillier import (
    InvalidCipher,
    PrivateKey,
    Randomness,
    generate,
    public_key,
    whole,
)
from colonnade.cipher.slots import Slots, Whole
from colonnade.cipher.tensor import Encrypted, decrypt, encrypt, received
from colonnade.errors import FailedError

Cells = NDArray[np.uint8]
"""[ciphertexts, bytes of each]."""
Shape = tuple[int, ...]


class Adder(Protocol):
    """Who adds up what others have encrypted, and cannot read it."""

    def received(self, cells: Cells, shape: Shape) -> Any:
        """A partner's tensor of this shape; raises InvalidCipher for what cannot be one."""

    def total(self, parts: Sequence[Any], known: Whole) -> Cells:
        """The sum of all parts and of numbers that are known here."""


class Holder(Protocol):
    """Who has the private key, and so can read whatever is under it."""

    @property
    def public(self) -> bytes:
        """What an adder needs to know."""

    @property
    def secret(self) -> bytes:
        """What another holder needs to know."""

    def encrypt(self, values: Whole) -> Cells:
        """A tensor under encryption."""

    def decrypt(self, cells: Cells, shape: Shape) -> Whole:
        """The numbers of a tensor of this shape; raises InvalidCipher for what cannot be one."""


class Scheme(Protocol):
    """A cryptosystem, for numbers of so many bits."""

    def cells(self, numbers: int) -> tuple[int, int]:
        """How many ciphertexts so many numbers take, and how many bytes each has."""

    def generate(self, random: Randomness) -> Holder:
        """A new key."""

    def holder(self, secret: bytes, random: Randomness) -> Holder:
        """Who has been told the private key; raises InvalidCipher for what is none."""

    def adder(self, public: bytes) -> Adder:
        """Who has been told the public key only; raises InvalidCipher for what is none."""


@dataclass(frozen=True)
class PaillierScheme:
    """Paillier's cryptosystem with keys of `key_bits` bits, for numbers of `bits` bits.

    >>> import os
    >>> scheme = PaillierScheme(2048, bits=32)
    >>> holder = scheme.generate(os.urandom)
    >>> adder, one = scheme.adder(holder.public), np.array([[5, -7]])
    >>> parts = [adder.received(holder.encrypt(one), (1, 2)) for _ in range(2)]
    >>> holder.decrypt(adder.total(parts, np.array([[100, 0]])), (1, 2))
    array([[110, -14]])
    """

    key_bits: int
    bits: int

    @property
    def slots(self) -> Slots:
        """One byte more than the numbers have: for the sum with a known number, and the sign."""
        return Slots(self.key_bits, self.bits // 8 + 1)

    @property
    def bound(self) -> int:
        """Of the numbers that go in, and of their sums."""
        return (1 << self.bits - 1) - 1

    def cells(self, numbers: int) -> tuple[int, int]:
        return self.slots.plaintexts(numbers), self.key_bits // 4

    def generate(self, random: Randomness) -> PaillierHolder:
        return PaillierHolder(self, generate(self.key_bits, random), random)

    def holder(self, secret: bytes, random: Randomness) -> PaillierHolder:
        half = self.key_bits // 16
        if len(secret) != 6 * half:
            raise InvalidCipher(f"{len(secret)} bytes are no key of {self.key_bits} bits")
        p, q, h = (whole(secret[a:b]) for a, b in ((0, half), (half, 2 * half), (2 * half, None)))
        if p == q or not (gmpy2.is_prime(p) and gmpy2.is_prime(q)):
            raise InvalidCipher("its primes are none")
        made = PrivateKey(p, q, h)
        public_key(made.public.to_bytes(), self.key_bits)
        return PaillierHolder(self, made, random)

    def adder(self, public: bytes) -> PaillierAdder:
        key = public_key(public, self.key_bits)
        return PaillierAdder(self, key)


class _Reader:
    """Reads ciphertexts from the wire."""

    def __init__(self, scheme: PaillierScheme, key: Any) -> None:
        self._scheme, self._key = scheme, key

    def received(self, cells: Cells, shape: Shape, bound: int | None = None) -> Encrypted:
        content = np.ascontiguousarray(cells).tobytes()
        bound = self._scheme.bound if bound is None else bound
        return received(content, shape, self._key, self._scheme.slots, bound)


class PaillierAdder(_Reader):
    """Adds up; the randomness of the sum is that of its parts, which nobody but their encrypters
    knows, so a holder of the key learns no more from it than the sum."""

    def total(self, parts: Sequence[Encrypted], known: Whole) -> Cells:
        # Whoever sends parts has made sure that their sum has room, so its bound is that of one.
        limited = [Encrypted(e.key, e.slots, e.shape, e.ciphertexts, 0) for e in parts[1:]]
        return _cells(reduce(add, limited, parts[0]).plus(known))


class PaillierHolder(_Reader):
    """Encrypts and decrypts."""

    def __init__(self, scheme: PaillierScheme, key: PrivateKey, random: Randomness) -> None:
        super().__init__(scheme, key.public)
        self._private, self._random = key, random

    @property
    def public(self) -> bytes:
        content: bytes = self._key.to_bytes()
        return content

    @property
    def secret(self) -> bytes:
        half, key = self._scheme.key_bits // 16, self._private
        primes = (int(prime).to_bytes(half, "big") for prime in (key.p, key.q))
        return b"".join(primes) + int(key.public.h).to_bytes(4 * half, "big")

    def encrypt(self, values: Whole) -> Cells:
        scheme = self._scheme
        return _cells(encrypt(values, self._key, scheme.slots, scheme.bound, self._random))

    def decrypt(self, cells: Cells, shape: Shape) -> Whole:
        tensor = self.received(cells, shape, 2 * self._scheme.bound + 1)
        try:
            return decrypt(tensor, self._private)
        except FailedError as error:
            raise InvalidCipher(str(error)) from None


def _cells(tensor: Encrypted) -> Cells:
    width = tensor.key.ciphertext_bytes
    return np.frombuffer(tensor.to_bytes(), np.uint8).reshape(-1, width)
