"""Keys on which two parties agree through a third that they need not trust: each draws one (X25519)
and signs it with its certificate, for one occasion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KEY_BYTES = 32


class Credentials(Protocol):
    """With what a party signs, and by what it knows the others' signatures."""

    @property
    def certificate(self) -> bytes:
        """To be shown with a signature."""
        ...

    @property
    def signature_bytes_max(self) -> int:
        """How long a signature of this party can be."""
        ...

    def sign(self, words: bytes) -> bytes:
        """Sign as this party."""
        ...

    def check(self, party: str, certificate: bytes, words: bytes, signature: bytes) -> None:
        """Raise a ValueError with a clause that says why, unless the party has signed these
        words."""
        ...


class Unsigned:
    """For parties in one process, which have nobody between them.

    >>> Unsigned().sign(b"words")
    b''
    """

    certificate = b""
    signature_bytes_max = 0

    def sign(self, words: bytes) -> bytes:
        return b""

    def check(self, party: str, certificate: bytes, words: bytes, signature: bytes) -> None:
        pass


class Assumed(Unsigned):
    """For a forecast: as long as real ones can be, and nothing else.

    >>> len(Assumed(900, 72).sign(b"words"))
    72
    """

    def __init__(self, certificate_bytes: int, signature_bytes: int) -> None:
        self.certificate = bytes(certificate_bytes)
        self.signature_bytes_max = signature_bytes

    def sign(self, words: bytes) -> bytes:
        return bytes(self.signature_bytes_max)


@dataclass(frozen=True)
class Occasion:
    """What a signature holds for: the terms that all agree on, the run, and the attempt at it.

    >>> Occasion("terms", "run", "1").words("masks") != Occasion("terms", "run", "2").words("masks")
    True
    """

    terms: str
    run: str
    attempt: str

    def words(self, context: str, *said: str | int | bytes) -> bytes:
        """What is signed by who says this."""
        return msgspec.msgpack.encode([context, self.terms, self.run, self.attempt, *said])


def public_key(secret: bytes) -> bytes:
    """What others may know of a key.

    >>> len(public_key(bytes(32)))
    32
    """
    own = X25519PrivateKey.from_private_bytes(secret).public_key()
    return own.public_bytes(Encoding.Raw, PublicFormat.Raw)


def agree(secret: bytes, key: bytes) -> bytes:
    """What only the holders of two keys know: this party's secret one, and another's public one. A
    ValueError says that the other is no key.

    >>> agree(bytes(32), public_key(b"1" * 32)) == agree(b"1" * 32, public_key(bytes(32)))
    True
    """
    own = X25519PrivateKey.from_private_bytes(secret)
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(key))
    except ValueError:
        raise ValueError("its key is none") from None


def derive(shared: bytes, salt: bytes, purpose: bytes) -> bytes:
    """A key for one purpose, from what two parties share.

    >>> derive(b"shared", b"", b"masks") != derive(b"shared", b"", b"letters")
    True
    """
    return HKDF(SHA256(), KEY_BYTES, salt=salt, info=purpose).derive(shared)
