"""Paillier's cryptosystem (1999) with short exponents (Damgård, Jurik and Nielsen 2010):

    n = p·q,   h = (−x²)ⁿ mod n²,   E(m) = (1 + n·m) · hʳ mod n²

A product of ciphertexts is one of the sum, a power one of the multiple. Damgård et al. prove that r
of half the length of n is as good as any; here it has 256 bits, which rests on the assumption that
discrete logarithms of 256 bits modulo n² are hard: the best attack known takes 2¹²⁸ steps, more
than to factor an n of 2048 bits. p and q are 3 modulo 4, and neither p − 1 nor q − 1 has another
small factor than 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from colonnade.cipher.big import gmpy2
from colonnade.cipher.powers import Powers
from colonnade.errors import JobError

KEY_BITS = (2048, 3072, 4096)
"""What keys may have. Shorter ones can be broken, longer ones take too long."""
EXPONENT_BYTES = 32
FRESH_BYTES = 48
"""Of an exponent that hides sums and multiples of those of 32 bytes: up to 2⁶⁴ times as large, all
but 2⁻⁶⁴ of it."""
_ROUNDS = 50
_SMALL, _SMALLER = 2**16, 2**8

Randomness = Callable[[int], bytes]
"""So many bytes that nobody else knows, such as `os.urandom`."""


class InvalidCipher(ValueError):  # noqa: N818 - the noun says it
    """Bytes that are no key, or no ciphertexts under one; the text is a clause that says why."""


class PublicKey:
    """What it takes to encrypt, and to compute with ciphertexts."""

    def __init__(self, n: int, h: int) -> None:
        self.n: int = gmpy2.mpz(n)
        self.h: int = gmpy2.mpz(h)
        self.square: int = self.n * self.n
        self.bits: int = self.n.bit_length()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and (self.n, self.h) == (other.n, other.h)

    def __hash__(self) -> int:
        return hash((self.n, self.h))

    @property
    def ciphertext_bytes(self) -> int:
        """Of one ciphertext, on the wire."""
        return self.bits // 4

    @cached_property
    def _powers(self) -> Powers:
        return Powers(self.h, self.square, FRESH_BYTES)

    def encrypt(self, plaintexts: Iterable[int], random: Randomness) -> list[int]:
        """A ciphertext of each number; of negative ones too, as long as all results stay within
        n/2 on either side."""
        return [
            (1 + self.n * (m % self.n)) * self._powers(random(EXPONENT_BYTES)) % self.square
            for m in plaintexts
        ]

    def refresh(self, ciphertexts: Iterable[int], random: Randomness) -> list[int]:
        """The same numbers, in ciphertexts that do not tell the key's owner how they came about."""
        return [c * self._powers(random(FRESH_BYTES)) % self.square for c in ciphertexts]

    def add(self, a: int, b: int) -> int:
        """A ciphertext of the sum."""
        return a * b % self.square

    def add_plain(self, ciphertext: int, number: int) -> int:
        """A ciphertext of the sum with a number that this party knows."""
        return ciphertext * (1 + self.n * (number % self.n)) % self.square

    def times(self, ciphertext: int, factor: int) -> int:
        """A ciphertext of the multiple; the factor may be negative."""
        power: int = gmpy2.powmod(ciphertext, factor, self.square)
        return power

    def to_bytes(self) -> bytes:
        """n, then h; the inverse of `public_key`."""
        width = self.bits // 8
        return _bytes(self.n, width) + _bytes(self.h, 2 * width)

    def check(self, ciphertexts: Sequence[int]) -> None:
        """Raise InvalidCipher unless all can be ciphertexts under this key."""
        product = gmpy2.mpz(1)
        for c in ciphertexts:
            if not 0 < c < self.square:
                raise InvalidCipher("a ciphertext is 0 or not below n²")
            product = product * c % self.n
        if gmpy2.gcd(product, self.n) != 1:
            raise InvalidCipher("a ciphertext has a factor in common with n")


class PrivateKey:
    """What it takes to decrypt. Whoever has it can read everything under the public one."""

    def __init__(self, p: int, q: int, h: int) -> None:
        self.p: int = gmpy2.mpz(p)
        self.q: int = gmpy2.mpz(q)
        self.public = PublicKey(self.p * self.q, h)
        self._to_p = gmpy2.invert(-self.q % self.p, self.p)
        self._to_q = gmpy2.invert(-self.p % self.q, self.q)
        self._p_inverse = gmpy2.invert(self.p, self.q)

    def decrypt(self, ciphertexts: Iterable[int]) -> list[int]:
        """The numbers, between −n/2 and n/2."""
        half = self.public.n // 2
        found = []
        for c in ciphertexts:
            m = self._decrypt(c)
            found.append(int(m - self.public.n if m > half else m))
        return found

    def _decrypt(self, c: int) -> int:
        """Modulo p and q, each with an exponent and a modulus half as long (Paillier 1999, section
        7): c^(p−1) = 1 + m·n·(p−1) modulo p², so that m is minus its quotient by p·q."""
        p, q = self.p, self.q
        of_p = (gmpy2.powmod(c, p - 1, p * p) - 1) // p * self._to_p % p
        of_q = (gmpy2.powmod(c, q - 1, q * q) - 1) // q * self._to_q % q
        m: int = of_p + p * ((of_q - of_p) * self._p_inverse % q)
        return m


def generate(bits: int, random: Randomness) -> PrivateKey:
    """A new key.

    >>> import os
    >>> key = generate(2048, os.urandom)
    >>> two, three = key.public.encrypt([2, -3], os.urandom)
    >>> key.decrypt([key.public.add(two, three), key.public.times(three, 5)])
    [-1, -15]
    """
    check_bits(bits)
    while True:
        p, q = _prime(bits // 2, random), _prime(bits // 2, random)
        if p != q and gmpy2.gcd(p - 1, q - 1) == 2:
            break
    n = p * q
    x = whole(random(bits // 8 + 16)) % n
    return PrivateKey(p, q, gmpy2.powmod(-x * x % n, n, n * n))


def check_bits(bits: int) -> None:
    """Refuse a key that can be broken, or takes too long."""
    if bits not in KEY_BITS:
        known = ", ".join(map(str, KEY_BITS[:-1]))
        raise JobError(f"a key of {bits} bits: Paillier's takes {known} or {KEY_BITS[-1]}")


def public_key(content: bytes, bits: int) -> PublicKey:
    """The key that a partner has sent, if it can be one of so many bits: n has that length and no
    small factor, and is neither a prime nor a power; h is a unit."""
    width = bits // 8
    if bits not in KEY_BITS or len(content) != 3 * width:
        raise InvalidCipher(f"{len(content)} bytes are no key of {bits} bits")
    n, h = whole(content[:width]), whole(content[width:])
    if n.bit_length() != bits:
        raise InvalidCipher(f"n has {n.bit_length()} bits, and not {bits}")
    if gmpy2.gcd(n, gmpy2.primorial(_SMALL)) != 1 or gmpy2.is_power(n) or gmpy2.is_prime(n):
        raise InvalidCipher("n is no product of two large primes")
    if not 1 < h < n * n or gmpy2.gcd(h, n) != 1:
        raise InvalidCipher("h is no unit modulo n²")
    return PublicKey(n, h)


def _prime(bits: int, random: Randomness) -> int:
    """A prime of so many bits, the two highest and the two lowest set, with no small factor of
    p − 1 but one 2."""
    top = 3 << bits - 2
    sieves = [gmpy2.primorial(_SMALLER), gmpy2.primorial(_SMALL)]
    while True:
        p = whole(random(bits // 8)) | top | 3
        both = p * (p >> 1)
        if all(gmpy2.gcd(both, sieve) == 1 for sieve in sieves) and gmpy2.is_prime(p, _ROUNDS):
            return p


def whole(content: bytes) -> int:
    """A number from its bytes, the highest first.

    >>> int(whole(bytes([1, 0])))
    256
    """
    number: int = gmpy2.mpz(int.from_bytes(content, "big"))
    return number


def _bytes(number: int, width: int) -> bytes:
    return int(number).to_bytes(width, "big")
