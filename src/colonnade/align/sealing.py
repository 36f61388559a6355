"""Letters that only their receiver can read, between parties that know each other by certificate.

Each party draws a key (X25519) for the alignment and signs it. Two parties derive from their keys
what they share: a key for each direction, new each time that the parties begin, and a seed that
stays for the whole alignment.
"""

from __future__ import annotations

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from colonnade.errors import BreachError
from colonnade.protect.keys import KEY_BYTES, Credentials, Occasion, agree, derive, public_key
from colonnade.wire.messages import Buffer, Introduction, Sealed

NONCE_BYTES, TAG_BYTES = 16, 16
SIZE_MAX = 10**10
"""More ids than anybody has."""
_CONTEXT = "colonnade alignment 1"


def _words(occasion: Occasion, said: Introduction) -> bytes:
    """What is signed."""
    told = said.party, said.size, said.key, said.nonce, said.shape
    return occasion.words(_CONTEXT, *told)


def introduce(
    party: str,
    size: int,
    secret: bytes,
    nonce: bytes,
    occasion: Occasion,
    credentials: Credentials,
    shape: str = "",
) -> Introduction:
    """A party's own introduction, signed."""
    said = Introduction(party, size, public_key(secret), nonce, credentials.certificate, b"", shape)
    return msgspec.structs.replace(said, signature=credentials.sign(_words(occasion, said)))


def check_introduction(
    said: Introduction, party: str, occasion: Occasion, credentials: Credentials
) -> None:
    """Raise a ValueError, with a clause, for an introduction that is not of this party."""
    if said.party != party or len(said.key) != KEY_BYTES or len(said.nonce) != NONCE_BYTES:
        raise ValueError("it did not introduce itself")
    if not 0 <= said.size <= SIZE_MAX:
        raise ValueError(f"it claims to have {said.size:,} ids")
    credentials.check(party, said.certificate, _words(occasion, said), said.signature)


class Channel:
    """Letters between this party and one other.

    >>> import os
    >>> from colonnade.protect.keys import Unsigned
    >>> secrets = {"bank": os.urandom(32), "telco": os.urandom(32)}
    >>> here, there = Occasion("", "", ""), Unsigned()
    >>> said = {name: introduce(name, 1, secret, bytes(16), here, there)
    ...         for name, secret in secrets.items()}
    >>> bank = Channel(secrets["bank"], said["bank"], said["telco"])
    >>> telco = Channel(secrets["telco"], said["telco"], said["bank"])
    >>> from colonnade.wire.messages import MaskTable
    >>> telco.open(bank.seal(MaskTable, 0, b"hello"))
    b'hello'
    >>> bank.seed == telco.seed
    True
    """

    def __init__(self, secret: bytes, mine: Introduction, theirs: Introduction) -> None:
        self.me, self.peer = mine.party, theirs.party
        try:
            shared = agree(secret, theirs.key)
        except ValueError as fault:
            raise BreachError(
                self.peer, f"{self.peer} introduces itself wrongly: {fault}"
            ) from None
        nonces = b"".join(said.nonce for said in sorted((mine, theirs), key=lambda s: s.party))
        keys = b"".join(said.key for said in sorted((mine, theirs), key=lambda s: s.party))
        self.seed = _derive(shared, keys, "zero shares")
        """Which both have, for the whole alignment."""
        self._out = ChaCha20Poly1305(_derive(shared, keys + nonces, f"{self.me}>{self.peer}"))
        self._in = ChaCha20Poly1305(_derive(shared, keys + nonces, f"{self.peer}>{self.me}"))

    def seal(self, kind: type[Sealed], number: int, content: bytes) -> Sealed:
        """A letter to the other party; each kind has its own count, so that no nonce comes
        twice."""
        about = _about(kind, self.me, self.peer, number)
        sealed = self._out.encrypt(_nonce(kind, number), content, about)
        return kind(self.me, self.peer, number, Buffer(memoryview(sealed)))

    def open(self, letter: Sealed) -> bytes:
        """What a letter of the other party says."""
        kind, number = type(letter), letter.round
        try:
            return self._in.decrypt(
                _nonce(kind, number),
                letter.content.view,
                _about(kind, self.peer, self.me, number),
            )
        except InvalidTag:
            raise BreachError(
                self.peer,
                f"a {kind.__name__} of {self.peer} was not sealed for {self.me}, or was changed on "
                "the way",
            ) from None


def _derive(shared: bytes, salt: bytes, purpose: str) -> bytes:
    return derive(shared, salt, f"{_CONTEXT}: {purpose}".encode())


def _nonce(kind: type[Sealed], number: int) -> bytes:
    return kind.KIND.to_bytes(4, "little") + number.to_bytes(8, "little")


def _about(kind: type[Sealed], sender: str, to: str, number: int) -> bytes:
    return msgspec.msgpack.encode([kind.KIND, sender, to, number])
