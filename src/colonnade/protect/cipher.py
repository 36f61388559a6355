"""Protections of training embeddings and gradients by encryption."""

from __future__ import annotations

from dataclasses import dataclass

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

    @property
    def text(self) -> str:
        return f"paillier:{self.bits}"

    def scheme(self, bits: int) -> Scheme:
        return PaillierScheme(self.bits, bits)


def paillier(bits: int = 2048) -> Paillier:
    """Keys of so many bits: 2048, 3072 or 4096.

    >>> paillier().text
    'paillier:2048'
    """
    check_bits(bits)
    return Paillier(bits)
