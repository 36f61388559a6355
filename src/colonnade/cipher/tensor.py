"""A tensor under encryption, of which the range is known: what would overflow is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from colonnade.cipher.paillier import InvalidCipher, PrivateKey, PublicKey, Randomness, whole
from colonnade.cipher.slots import Slots, Whole, largest
from colonnade.errors import FailedError


@dataclass(frozen=True)
class Encrypted:
    """Whole numbers, each at most `bound` on either side, many to a ciphertext. Sums and multiples
    know their own bound; one that may leave its slots is an OverflowError.

    >>> import os, numpy as np
    >>> from colonnade.cipher.paillier import generate
    >>> key = generate(2048, os.urandom)
    >>> layout = Slots(2048, slot_bytes=7)
    >>> one = encrypt(np.array([[1, -2]]), key.public, layout, bound=10, random=os.urandom)
    >>> decrypt((one + one).times(-3).plus(np.array([[0, 100]])), key)
    array([[ -6, 112]])
    """

    key: PublicKey
    slots: Slots
    shape: tuple[int, ...]
    ciphertexts: tuple[int, ...]
    bound: int

    def __post_init__(self) -> None:
        if self.bound >= self.slots.limit:
            raise OverflowError(
                f"numbers up to {self.bound} do not fit into slots of {self.slots.slot_bytes} bytes"
            )
        assert len(self.ciphertexts) == self.slots.plaintexts(math.prod(self.shape))

    def __add__(self, other: Encrypted) -> Encrypted:
        """The sum of two tensors under one key."""
        assert (self.key, self.slots, self.shape) == (other.key, other.slots, other.shape)
        pairs = zip(self.ciphertexts, other.ciphertexts, strict=True)
        return self._with((self.key.add(a, b) for a, b in pairs), self.bound + other.bound)

    def plus(self, values: Whole) -> Encrypted:
        """The sum with numbers that this party knows."""
        assert values.shape == self.shape
        pairs = zip(self.ciphertexts, self.slots.pack(values), strict=True)
        bound = self.bound + largest(values)
        return self._with((self.key.add_plain(c, m) for c, m in pairs), bound)

    def times(self, factor: int) -> Encrypted:
        """A multiple of it; the factor may be negative."""
        products = (self.key.times(c, factor) for c in self.ciphertexts)
        return self._with(products, self.bound * abs(factor))

    def refreshed(self, random: Randomness) -> Encrypted:
        """The same numbers, in ciphertexts that do not tell the key's owner how they came about."""
        return self._with(self.key.refresh(self.ciphertexts, random), self.bound)

    def _with(self, ciphertexts: Iterable[int], bound: int) -> Encrypted:
        return replace(self, ciphertexts=tuple(ciphertexts), bound=bound)

    def to_bytes(self) -> bytes:
        """All ciphertexts, each of the same length."""
        width = self.key.ciphertext_bytes
        return b"".join(int(c).to_bytes(width, "big") for c in self.ciphertexts)


def encrypt(
    values: Whole, key: PublicKey, slots: Slots, bound: int, random: Randomness
) -> Encrypted:
    """The tensor under encryption; each number is at most `bound` on either side."""
    if largest(values) > bound:
        raise OverflowError(f"a number is beyond {bound}, the bound that was given for it")
    ciphertexts = key.encrypt(slots.pack(values), random)
    return Encrypted(key, slots, values.shape, tuple(ciphertexts), bound)


def decrypt(tensor: Encrypted, key: PrivateKey) -> Whole:
    """The numbers: int64 where slots are of 8 bytes at most, else Python's own."""
    assert key.public == tensor.key
    plaintexts = key.decrypt(tensor.ciphertexts)
    return tensor.slots.unpack(plaintexts, math.prod(tensor.shape)).reshape(tensor.shape)


def opened(tensor: Encrypted, key: PrivateKey) -> bytes:
    """All plaintexts, for a partner that has put a mask on them; the inverse is `read_opened`."""
    assert key.public == tensor.key
    width, n = key.public.bits // 8, key.public.n
    plaintexts = key.decrypt(tensor.ciphertexts)
    return b"".join(int(m % n).to_bytes(width, "big") for m in plaintexts)


def read_opened(content: memoryview | bytes, asked: Encrypted) -> Whole:
    """The numbers that a partner has decrypted for us; its bytes are counted before."""
    key, slots = asked.key, asked.slots
    width = key.bits // 8
    if len(content) != width * len(asked.ciphertexts):
        due = width * len(asked.ciphertexts)
        raise InvalidCipher(f"{len(content)} bytes of plaintexts where {due} are due")
    octets, half = bytes(content), key.n // 2
    numbers = [whole(octets[start : start + width]) for start in range(0, len(octets), width)]
    if any(m >= key.n for m in numbers):
        raise InvalidCipher("a plaintext is not below n")
    plaintexts = [m - key.n if m > half else m for m in numbers]
    try:
        return slots.unpack(plaintexts, math.prod(asked.shape)).reshape(asked.shape)
    except FailedError as error:
        raise InvalidCipher(str(error)) from None


def size_of(shape: tuple[int, ...], key: PublicKey, slots: Slots) -> int:
    """The bytes of a tensor of this shape under this key."""
    return slots.plaintexts(math.prod(shape)) * key.ciphertext_bytes


def received(
    content: memoryview | bytes, shape: tuple[int, ...], key: PublicKey, slots: Slots, bound: int
) -> Encrypted:
    """A tensor from a partner, of the shape that was agreed on. Its length is compared before
    anything is allocated, and each ciphertext is checked; that its numbers are within `bound` is
    the partner's word, and `decrypt` finds out where they leave their slots."""
    size = size_of(shape, key, slots)
    if len(content) != size:
        raise InvalidCipher(f"{len(content)} bytes of ciphertexts where {size} are due")
    width = key.ciphertext_bytes
    octets = bytes(content)
    numbers = tuple(whole(octets[start : start + width]) for start in range(0, size, width))
    key.check(numbers)
    return Encrypted(key, slots, shape, numbers, bound)
