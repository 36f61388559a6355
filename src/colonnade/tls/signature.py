"""A party's word, signed with the key of its certificate, for parties that have no connection with
each other: they sit behind the active one, which could put words into their mouths."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from colonnade.errors import RequestError
from colonnade.tls.certificate import key_fingerprint, party_of
from colonnade.tls.denial import is_denied
from colonnade.tls.identity import Identity, chain_to, check_time

CHAIN_MAX = 8
_PSS = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)
_FINGERPRINT = re.compile("[0-9a-f]{64}")


class NotSigned(ValueError):  # noqa: N818 - the participle says it
    """Words that the party did not sign; the message is a clause that says why."""


@dataclass(frozen=True)
class Credentials:
    """With what a party signs, and by what it knows the others' signatures."""

    identity: Identity
    names: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Names in certificates of a company's own CA, by party."""
    pins: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 fingerprint of the key that a party must have, by party."""

    @property
    def certificate(self) -> bytes:
        """To be shown with a signature."""
        return self.identity.certificate

    @property
    def signature_bytes_max(self) -> int:
        """How long a signature can be: of a curve it has two whole numbers, each as short as it
        can be written."""
        key = load_pem_private_key(self.identity.key, password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            number = 2 + 1 + -(-key.curve.key_size // 8)
            return (2 if 2 * number < 128 else 3) + 2 * number
        assert isinstance(key, rsa.RSAPrivateKey), "others are refused when they are read"
        return -(-key.key_size // 8)

    def sign(self, words: bytes) -> bytes:
        """Sign with the certificate's key."""
        key = load_pem_private_key(self.identity.key, password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key.sign(words, ec.ECDSA(SHA256()))
        assert isinstance(key, rsa.RSAPrivateKey), "others are refused when they are read"
        return key.sign(words, _PSS, SHA256())

    def check(self, party: str, certificate: bytes, words: bytes, signature: bytes) -> None:
        """Raise `NotSigned` unless the party has signed these words."""
        own = self._certificate(party, certificate)
        key = own.public_key()
        try:
            if isinstance(key, ec.EllipticCurvePublicKey):
                key.verify(signature, words, ec.ECDSA(SHA256()))
            elif isinstance(key, rsa.RSAPublicKey):
                key.verify(signature, words, _PSS, SHA256())
            else:
                raise NotSigned("its certificate has a key of another kind")
        except (InvalidSignature, UnsupportedAlgorithm):
            raise NotSigned("the signature is not of its certificate's key") from None

    def _certificate(self, party: str, pem: bytes) -> x509.Certificate:
        try:
            own, *between = x509.load_pem_x509_certificates(pem)
            anchors = x509.load_pem_x509_certificates(self.identity.authority)
            chain = chain_to(own, between[:CHAIN_MAX], anchors)
            denied = any(is_denied(each, self.identity.denied) for each in chain or ())
        except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
            raise NotSigned("its certificate cannot be read") from None
        if chain is None:
            raise NotSigned("its certificate is not of an authority that is trusted here")
        if denied:
            raise NotSigned("its certificate is on the deny-list")
        leaf = own.public_bytes(Encoding.PEM)
        if party_of(leaf, {party: self.names.get(party, ())}) != party:
            raise NotSigned("its certificate names somebody else")
        try:
            for each in chain:
                check_time(each, own, party)
        except RequestError as error:
            raise NotSigned(str(error)) from None
        pinned = self.pins.get(party)
        if pinned is not None and key_fingerprint(own) != pin(pinned):
            raise NotSigned("its key is not the one that is pinned in the party file (tls.pins)")
        return own


def pin(text: str) -> str:
    """A fingerprint as people copy it, in one form.

    >>> pin("AB:" * 31 + "AB") == "ab" * 32
    True
    """
    digits = re.sub(r"[\s:]", "", text.rpartition("=")[2]).lower()
    if not _FINGERPRINT.fullmatch(digits):
        raise RequestError(
            f"'{text.strip()[:80]}' in tls.pins is no fingerprint (SHA-256) of a key: copy one "
            "from colonnade keys show"
        )
    return digits
