"""Protections of training embeddings and gradients by encryption."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from colonnade.cipher.ckks import BITS_MAX, PARTS_MAX, CkksScheme
from colonnade.cipher.paillier import check_bits
from colonnade.cipher.scheme import PaillierScheme, Scheme


@dataclass(frozen=True)
class Paillier:
    """Paillier's cryptosystem under a key that all passive parties have, and the active one not.
    Of n passive parties p sends E(round(2^f · h_p)); the active party multiplies the ciphertexts,
    and with them what it knows of the labels, c(y):

        Π_p E(round(2^f · h_p)) · E(2^f · c(y)) = E(2^f · (Σ_p h_p + c(y)))

    For a loss that is quadratic in the sum of the embeddings, that is its derivative but for a
    factor that everybody knows: ¼ (z − 2y) for `train.loss = "taylor"` with y = ±1, and 2 (z − y)
    for `mse`. The passive parties decrypt it. *Guarantee*: the active party learns nothing of the
    embeddings of training rows, not even their sum, as long as it has labels only and no passive
    party tells it the key. *No guarantee*: towards the passive parties, to whom the derivative
    tells of labels, and of the sum of the others' embeddings, what it tells without encryption;
    of evaluations, whose sums the active party has to see (they cross under masks).
    """

    bits: int
    parties_max: ClassVar[float] = inf

    @property
    def text(self) -> str:
        return f"paillier:{self.bits}"

    def scheme(self, bits: int) -> Scheme:
        return PaillierScheme(self.bits, bits)


@dataclass(frozen=True)
class Ckks:
    """The same under CKKS (Cheon et al. 2017) with polynomials of a degree, for wide tensors on
    fast lines: a fraction of Paillier's time, and several times its bytes. *Guarantee*: the same,
    as far as ring learning with errors is hard, towards an active party that keeps to the protocol.
    *No guarantee*: towards one that makes ciphertexts up and learns which of them the passive
    parties refuse, which is known to recover keys of such schemes; Paillier has no such weakness
    that we know of.
    """

    degree: int
    parties_max: ClassVar[float] = PARTS_MAX

    @property
    def text(self) -> str:
        return f"ckks:{self.degree}"

    def scheme(self, bits: int) -> Scheme:
        return CkksScheme(self.degree, bits)


def ckks(degree: int = 4096) -> Ckks:
    """Polynomials of this degree: 2048 or 4096.

    >>> ckks(2048).text
    'ckks:2048'
    """
    CkksScheme(degree, BITS_MAX)
    return Ckks(degree)


def paillier(bits: int = 2048) -> Paillier:
    """Keys of so many bits: 2048, 3072 or 4096.

    >>> paillier().text
    'paillier:2048'
    """
    check_bits(bits)
    return Paillier(bits)
