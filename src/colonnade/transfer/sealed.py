"""The same gradients under encryption, and under the masks with which they are decrypted."""

from __future__ import annotations

from functools import reduce
from itertools import chain
from operator import add

import numpy as np

from colonnade.cipher.linear import Linear
from colonnade.cipher.paillier import PrivateKey, Randomness
from colonnade.cipher.slots import Whole
from colonnade.cipher.tensor import Encrypted, encrypt
from colonnade.transfer.setting import EMBEDDING, MASK_BITS, SUM_SHIFT, Bounds, Setting
from colonnade.transfer.sides import Wholes

_FACTOR_BYTES = 2


def padded(values: Whole, setting: Setting) -> Whole:
    """With zeros behind each row, so that every ciphertext belongs to one row."""
    wide = np.zeros((*values.shape[:-1], setting.padded), dtype=values.dtype)
    wide[..., : setting.width] = values
    return wide


def seal(
    values: Wholes, bound: int, setting: Setting, key: PrivateKey, random: Randomness
) -> Encrypted:
    """A component, under this party's own key."""
    return encrypt(padded(values, setting), key.public, setting.slots, bound, random)


def rows_of(tensor: Encrypted) -> list[Encrypted]:
    """Its rows, each by itself."""
    count, width = tensor.shape
    size = tensor.slots.plaintexts(width)
    return [
        Encrypted(
            tensor.key,
            tensor.slots,
            (width,),
            tensor.ciphertexts[row * size : (row + 1) * size],
            tensor.bound,
        )
        for row in range(count)
    ]


def stacked(rows: list[Encrypted]) -> Encrypted:
    """The inverse of `rows_of`."""
    first = rows[0]
    ciphertexts = tuple(chain.from_iterable(row.ciphertexts for row in rows))
    bound = max(row.bound for row in rows)
    return Encrypted(first.key, first.slots, (len(rows), *first.shape), ciphertexts, bound)


class GuestArithmetic:
    """On the components of one exchange, under the host's key."""

    def __init__(self, theirs: tuple[Encrypted, ...], signs: Wholes, bounds: Bounds) -> None:
        squares, embeddings, mapping = theirs
        self._bounds, self._signs = bounds, signs
        self._squares = rows_of(squares)
        self._mapping = rows_of(mapping.times(1 << bounds.mapping_shift))
        own = rows_of(embeddings)
        self._sum = self._signed(own).times(-1 << SUM_SHIFT)

    def _signed(self, rows: list[Encrypted]) -> Encrypted:
        """Σ y·u, with one inverse for all rows of the class −1."""
        classes = {
            sign: [row for row, own in zip(rows, self._signs, strict=True) if own == sign]
            for sign in (1, -1)
        }
        sums = [reduce(add, own).times(sign) for sign, own in classes.items() if own]
        return reduce(add, sums)

    def gradients(self, factors: Wholes) -> tuple[Encrypted, Encrypted]:
        """As `clear.guest_gradients`."""
        products = [row.times(int(f)) for row, f in zip(self._squares, factors, strict=True)]
        constant = reduce(add, products) + self._sum
        own = {sign: constant.times(sign * self._bounds.factor) for sign in (1, -1)}
        rows = [row + own[int(sign)] for row, sign in zip(self._mapping, self._signs, strict=True)]
        return constant, stacked(rows)


class HostArithmetic:
    """On the components of one exchange, under the guest's key."""

    def __init__(self, theirs: tuple[Encrypted, ...]) -> None:
        products, labels, mapping = theirs
        self._linear = Linear(rows_of(products), _FACTOR_BYTES)
        self._rest = rows_of((labels + mapping).times(1 << EMBEDDING))

    def gradients(self, factors: Wholes) -> Encrypted:
        """As `clear.host_gradients`."""
        products = self._linear.times(factors)
        return stacked([a + b for a, b in zip(products, self._rest, strict=True)])


def masked(tensor: Encrypted, bound: int, random: Randomness) -> tuple[Encrypted, Whole]:
    """What may be given to the key's owner to decrypt, and the mask to take off again. The mask is
    as long as it must be for any numbers up to `bound`, which both know, so that its length tells
    nothing; new randomness hides the way in which the numbers came about."""
    assert tensor.bound <= bound
    bits = bound.bit_length() + MASK_BITS
    count, size = int(np.prod(tensor.shape)), -(-bits // 8)
    drawn = random(count * size)
    mask = np.empty(count, dtype=object)
    for i in range(count):
        number = int.from_bytes(drawn[i * size : (i + 1) * size], "little")
        mask[i] = (number & (1 << bits) - 1) - (1 << bits - 1)
    mask = mask.reshape(tensor.shape)
    return tensor.plus(mask).refreshed(random), mask


def unmasked(opened: Whole, mask: Whole, setting: Setting) -> Wholes:
    """The numbers, without the zeros behind each row."""
    return (opened - mask)[..., : setting.width].astype(np.int64)
