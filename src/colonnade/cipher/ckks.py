"""CKKS (Cheon, Kim, Kim and Song 2017) for sums of whole numbers.

    (c₀, c₁) = (−a·s + e + ⌊Δ·σ⁻¹(v)⌉, a) mod q,   v ≈ σ(c₀ + c₁·s) / Δ

s is the private key, a is uniform, e is small noise, σ⁻¹ interpolates: it makes the polynomial that
takes the numbers v at roots of unity, half as many as it has coefficients. Sums of ciphertexts are
ciphertexts of sums.

**Exact.** All numbers are whole and Δ is large, so rounding takes the error off. In units of one,
for degree 2048, Δ = 2²⁰ and 64 parts it is the sum of

    rounding by σ⁻¹   0.064 at most: ½·2048·65 ÷ Δ
    noise             standard deviation below 2⁻¹⁰: 3.3·√1024·8 ÷ Δ; beyond ⅛ only with
                      probability e⁻¹⁰⁰⁰⁰
    flooding          ¼ at most

which stays below a half; degree 4096 has Δ = 2²² and half of the first two at most. At both ends of
the range 2⁻⁸ was measured without flooding, with what floating point adds to it. A sum that is
further than 0.45 from a whole number is refused.

**Flooding.** Who decrypts a sum sees its error too, and the rounding in it depends on what each
part was: the adder hides that under uniform noise which is 2¹³ times as wide. Li and Micciancio
(2021) recover the key of whoever shows CKKS's results as they come out: here nobody but holders of
the key sees them, and they round them first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.cipher.paillier import InvalidCipher, Randomness
from colonnade.cipher.scheme import Cells, Shape
from colonnade.cipher.seal import Residues, Ring, ring_of
from colonnade.cipher.slots import Whole, largest
from colonnade.errors import JobError

MODULUS_BITS = {2048: 54, 4096: 56}
"""Of the prime, by degree: what SEAL's table has for keys as good as 128 bits, and for 256."""
BITS_MAX = 32
PARTS_MAX = 64
"""Of one sum: that many errors stay small enough."""
_RESIDUE_BYTES, _WORD_BYTES = 7, 8
_FLOOD = 0.25
_OFF_MAX = 0.45


@dataclass(frozen=True)
class CkksScheme:
    """CKKS with polynomials of a degree, for numbers of `bits` bits, 32 at most. Keys are private
    only: who encrypts is who decrypts, and an adder needs no key.

    For wide tensors on fast lines: to encrypt, add and decrypt 256×64 numbers takes a thirtieth of
    Paillier's time, and 7 times the bytes of float32 where Paillier takes 2.5. A ciphertext holds
    1024 or 2048 numbers, and a tensor of fewer takes a whole one.

    >>> import os
    >>> scheme = CkksScheme(2048, bits=32)
    >>> holder = scheme.generate(os.urandom)
    >>> adder, one = scheme.adder(holder.public), np.array([[5, -7]])
    >>> parts = [adder.received(holder.encrypt(one), (1, 2)) for _ in range(2)]
    >>> holder.decrypt(adder.total(parts, np.array([[100, 0]])), (1, 2))
    array([[110, -14]])
    """

    degree: int
    bits: int

    def __post_init__(self) -> None:
        if self.degree not in MODULUS_BITS:
            known = " or ".join(map(str, MODULUS_BITS))
            raise JobError(f"polynomials of degree {self.degree}: ckks takes {known}")
        if not 1 < self.bits <= BITS_MAX:
            raise JobError(
                f"numbers of {self.bits} bits: ckks takes {BITS_MAX} at most; give fewer bits, or "
                "take paillier"
            )

    @property
    def bound(self) -> int:
        """Of the numbers that go in, and of their sums."""
        return (1 << self.bits - 1) - 1

    @property
    def slots(self) -> int:
        """How many numbers a ciphertext holds."""
        return self.degree // 2

    @property
    def scale(self) -> float:
        """Δ: sums with a known number, below 2³² on either side, take a quarter of the modulus."""
        return 2.0 ** (MODULUS_BITS[self.degree] - BITS_MAX - 2)

    @property
    def ring(self) -> Ring:
        """Where it is computed."""
        return ring_of(self.degree, MODULUS_BITS[self.degree])

    def cells(self, numbers: int) -> tuple[int, int]:
        return -(-numbers // self.slots), 2 * self.degree * _RESIDUE_BYTES

    def generate(self, random: Randomness) -> CkksHolder:
        """A new key; SEAL takes its randomness from the operating system."""
        return CkksHolder(self, self.ring.generate())

    def holder(self, secret: bytes, random: Randomness) -> CkksHolder:
        """Who has been told the private key; its randomness is the operating system's."""
        due = self.degree * _RESIDUE_BYTES
        if len(secret) != due:
            raise InvalidCipher(f"{len(secret)} bytes are no key of degree {self.degree}")
        residues = _unpacked(secret, self.ring.modulus)
        if not residues.any():
            raise InvalidCipher("the key is 0")
        return CkksHolder(self, residues)

    def adder(self, public: bytes) -> CkksAdder:
        if public != self.public:
            raise InvalidCipher(f"the sums are not those of ckks of degree {self.degree}")
        return CkksAdder(self)

    @property
    def public(self) -> bytes:
        """What an adder needs to know: that both mean the same parameters."""
        return f"ckks {self.degree} {self.bits}".encode()

    def received(self, cells: Cells, shape: Shape) -> Residues:
        """The polynomials of ciphertexts from the wire: [ciphertexts, 2, degree]."""
        count, width = self.cells(math.prod(shape))
        if cells.nbytes != count * width:
            raise InvalidCipher(
                f"{cells.nbytes} bytes of ciphertexts where {count * width} are due"
            )
        residues = _unpacked(np.ascontiguousarray(cells).tobytes(), self.ring.modulus)
        pairs = residues.reshape(count, 2, self.degree)
        if not pairs[:, 1].any(axis=1).all():
            raise InvalidCipher("a ciphertext can be read without a key")
        return pairs

    def sent(self, pairs: Residues) -> Cells:
        """Their bytes; the inverse of `received`."""
        return np.frombuffer(_packed(pairs), np.uint8).reshape(self.cells(len(pairs) * self.slots))

    def rows(self, values: Whole) -> NDArray[np.float64]:
        """The numbers, by ciphertext; the slots that are left over hold 0."""
        count, _ = self.cells(values.size)
        padded = np.zeros(count * self.slots)
        padded[: values.size] = values.reshape(-1)
        return padded.reshape(count, self.slots)


class CkksAdder:
    """Adds up, with noise that hides the errors of the parts, so that a holder of the key learns
    next to nothing from a sum but the sum."""

    def __init__(self, scheme: CkksScheme) -> None:
        self._scheme = scheme

    def received(self, cells: Cells, shape: Shape) -> Residues:
        return self._scheme.received(cells, shape)

    def total(self, parts: Sequence[Residues], known: Whole) -> Cells:
        scheme, modulus = self._scheme, np.uint64(self._scheme.ring.modulus)
        if len(parts) > PARTS_MAX:
            raise OverflowError(f"a sum of {len(parts)} ciphertexts: {PARTS_MAX} at most are exact")
        if largest(known) > scheme.bound + 1:
            raise OverflowError(f"a number is beyond {scheme.bound + 1}, the bound of known ones")
        # 64 residues of 56 bits stay below 2⁶⁴.
        summed: Residues = np.add.reduce(parts, axis=0, dtype=np.uint64)
        for pair, row in zip(summed, scheme.rows(known) + self._flood(known), strict=True):
            pair[0] += scheme.ring.encode(row.tolist(), scheme.scale)
        return scheme.sent(summed % modulus)

    def _flood(self, known: Whole) -> NDArray[np.complex128]:
        """Uniform in the real and in the imaginary part of every slot, since the error has both."""
        rows, slots = self._scheme.cells(known.size)[0], self._scheme.slots
        drawn = np.frombuffer(os.urandom(rows * slots * 8), np.int32) * (_FLOOD / 2**31)
        return drawn.view(np.complex128).reshape(rows, slots)


class CkksHolder:
    """Encrypts and decrypts."""

    def __init__(self, scheme: CkksScheme, residues: Residues) -> None:
        self._scheme, self._residues = scheme, residues
        self._key: Any = scheme.ring.key(residues)

    @property
    def public(self) -> bytes:
        return self._scheme.public

    @property
    def secret(self) -> bytes:
        return _packed(self._residues)

    def encrypt(self, values: Whole) -> Cells:
        scheme = self._scheme
        if largest(values) > scheme.bound:
            raise OverflowError(f"a number is beyond {scheme.bound}, the bound that was given")
        rows = scheme.rows(values)
        pairs = [scheme.ring.encrypt(self._key, row, scheme.scale) for row in rows]
        return scheme.sent(np.array(pairs, np.uint64).reshape(-1, 2, scheme.degree))

    def decrypt(self, cells: Cells, shape: Shape) -> Whole:
        scheme, numbers = self._scheme, math.prod(shape)
        pairs = scheme.received(cells, shape)
        rows = [scheme.ring.decrypt(self._key, pair, scheme.scale) for pair in pairs]
        slots = np.array(rows, np.float64).reshape(-1)
        whole = np.rint(slots)
        if not (np.abs(slots - whole) <= _OFF_MAX).all() or whole[numbers:].any():
            raise InvalidCipher("a ciphertext was not made with this key")
        if not (np.abs(whole) <= 2 * scheme.bound + 1).all():
            raise InvalidCipher("a ciphertext holds a number beyond the range of its slots")
        return whole[:numbers].astype(np.int64).reshape(shape)


def _packed(residues: Residues) -> bytes:
    octets = residues.astype("<u8").reshape(-1, 1).view(np.uint8)
    return octets[:, :_RESIDUE_BYTES].tobytes()


def _unpacked(content: bytes, modulus: int) -> Residues:
    """The inverse of `_packed`; each is below the modulus."""
    octets = np.frombuffer(content, np.uint8).reshape(-1, _RESIDUE_BYTES)
    words = np.zeros((len(octets), _WORD_BYTES), np.uint8)
    words[:, :_RESIDUE_BYTES] = octets
    residues = words.view("<u8").reshape(-1).astype(np.uint64)
    if int(residues.max(initial=0)) >= modulus:
        raise InvalidCipher("a residue is not below the modulus")
    return residues
