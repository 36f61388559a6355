"""A key that all passive parties have and the active one has not, drawn anew each time that they
begin.

The first passive party draws it and sends the others the private half, through the active party,
under what it shares with each of them (`masks`). Those secrets follow from signed keys, so nobody
else can have made what they open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from colonnade.cipher.paillier import InvalidCipher
from colonnade.cipher.scheme import Adder, Holder, Scheme
from colonnade.errors import BreachError
from colonnade.protect.base import SumProtection
from colonnade.protect.secret import Randomness, Secret
from colonnade.wire.messages import Buffer, CipherKey

_USE = "private key"
_NONCE = bytes(12)
"""The same always: each pair of parties draws a new secret each time, and one box is made of it."""


class PublicHalf:
    """What the active party has of the key: it can add up what is under it."""

    def __init__(self, scheme: Scheme, parties: Sequence[str]) -> None:
        """Of these passive parties the first one's is due."""
        self.scheme, self._parties = scheme, tuple(parties)
        self.said: CipherKey | None = None
        """The key as it crosses; None before it has come."""
        self._adder: Adder | None = None

    @property
    def first(self) -> str:
        """Who draws the key."""
        return self._parties[0]

    def accept(self, sender: str, message: CipherKey) -> None:
        """The key has come, from whoever draws it or from the active party."""
        if self.said is not None or len(message.boxes) != len(self._parties) - 1:
            raise BreachError(sender, f"{sender} sent a key for ciphertexts that is not due")
        try:
            self._take(message)
        except InvalidCipher as fault:
            raise BreachError(
                sender, f"{sender} sent a key for ciphertexts, and it cannot be used: {fault}"
            ) from None
        self.said = message

    def _take(self, message: CipherKey) -> None:
        self._adder = self.scheme.adder(message.public.view.tobytes())

    @property
    def adder(self) -> Adder:
        """Who adds up."""
        assert self._adder is not None, "the key has not come"
        return self._adder


class PrivateHalf(PublicHalf):
    """What a passive party has of the key."""

    def __init__(
        self,
        scheme: Scheme,
        protection: SumProtection,
        me: str,
        parties: Sequence[str],
        randomness: Randomness,
    ) -> None:
        super().__init__(scheme, parties)
        self._protection, self._me, self._randomness = protection, me, randomness
        self.shared: Mapping[str, Secret] = {}
        """What this party shares with each other one, once it does."""
        self._holder: Holder | None = None

    @property
    def draws(self) -> bool:
        """Whether this party draws the key."""
        return self._me == self.first

    def drawn(self) -> CipherKey:
        """A new key, for all others."""
        self._holder = self.scheme.generate(self._randomness)
        public = self._holder.public
        secret = self._holder.secret
        boxes = tuple(
            Buffer(memoryview(self._box(name).encrypt(_NONCE, secret, public)))
            for name in self._parties[1:]
        )
        self.said = CipherKey(Buffer(memoryview(public)), boxes)
        return self.said

    def _box(self, name: str) -> AESGCM:
        return AESGCM(self.shared[name].key(_USE))

    def _take(self, message: CipherKey) -> None:
        box = message.boxes[self._parties.index(self._me) - 1].view.tobytes()
        public = message.public.view.tobytes()
        try:
            secret = self._box(self.first).decrypt(_NONCE, box, public)
        except InvalidTag:
            raise InvalidCipher(f"it is not as {self.first} has sealed it") from None
        holder = self.scheme.holder(secret, self._randomness)
        if holder.public != public:
            raise InvalidCipher("its halves do not belong together")
        self._holder = holder

    def encrypt(self, tensor: torch.Tensor) -> torch.Tensor:
        """An embedding in fixed point, as ciphertexts."""
        assert self._holder is not None, "the key has not come"
        words = self._protection.to_fixed(tensor, len(self._parties))
        cells = self._holder.encrypt(words.view(f"i{words.itemsize}").astype(np.int64))
        return torch.from_numpy(cells.copy())

    def decrypt(self, cells: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        """What the active party has added up, in floating point of 64 bits; raises InvalidCipher
        for what cannot be that."""
        assert self._holder is not None, "the key has not come"
        numbers = self._holder.decrypt(cells.numpy(), shape)
        return self._protection.to_float(
            torch.from_numpy(numbers.astype(np.float64)), torch.float64
        )
