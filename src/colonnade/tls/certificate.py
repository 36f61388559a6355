"""Reads certificates and private keys from files, and says whom a certificate names.

A party's name is bound to its certificate by the URI `colonnade:party:NAME`. The name that a
client verifies is a DNS name made from it, see `dns_name`.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from colonnade.errors import RequestError, reason

PREFIX = "colonnade:party:"
SUFFIX = ".colonnade.internal"
"""No public authority certifies names under `.internal`, and no `--host` may end so."""


def dns_name(party: str) -> str:
    """Return the DNS name in a party's certificate, different for each party name.

    DNS names are case-insensitive, with at most 63 characters in a label, so any other name is
    hashed: otherwise the certificate of `bank` would also be valid for a party called `Bank`.

    >>> dns_name("bank")
    'bank.colonnade.internal'
    >>> dns_name("Bank_1")
    '99d60c39c1dc6a99327df7b40972571c8730ec9d.names.colonnade.internal'
    """
    if re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", party):
        return party + SUFFIX
    return f"{hashlib.sha256(party.encode()).hexdigest()[:40]}.names{SUFFIX}"


def party_of(pem: bytes, known: Mapping[str, Collection[str]]) -> str | None:
    """The one known party that a peer's certificate identifies, or None.

    `known` has for each party the names in a certificate of a company's own CA: a common name, a
    DNS name or a URI. A certificate with our URI identifies the party in it, and no other.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        ours, names = parties_in(certificate), names_in(certificate)
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return None
    if ours:
        return ours[0] if len(ours) == 1 and ours[0] in known else None
    matching = [party for party, allowed in known.items() if _any_in(names, allowed)]
    return matching[0] if len(matching) == 1 else None


def names_of(pem: bytes) -> list[str]:
    """Whom a peer's certificate names: the party in our URI, or else all of its names."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        return parties_in(certificate) or names_in(certificate)
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return []


def _any_in(names: Collection[str], allowed: Collection[str]) -> bool:
    # DNS names are case-insensitive; for a common name or a URI, case makes no difference here.
    return not {name.lower() for name in names}.isdisjoint(name.lower() for name in allowed)


def parties_in(certificate: x509.Certificate) -> list[str]:
    """The parties that our URIs in a certificate name: exactly one, if our CA has issued it."""
    uris = _alternatives(certificate).get_values_for_type(x509.UniformResourceIdentifier)
    return [uri.removeprefix(PREFIX) for uri in uris if uri.startswith(PREFIX)]


def hosts_in(certificate: x509.Certificate) -> list[str]:
    """The DNS names and IP addresses of a certificate."""
    found = _alternatives(certificate)
    addresses = [str(address) for address in found.get_values_for_type(x509.IPAddress)]
    return [*found.get_values_for_type(x509.DNSName), *addresses]


def names_in(certificate: x509.Certificate) -> list[str]:
    """All names in a certificate: common names, DNS names and URIs."""
    found = _alternatives(certificate)
    return [
        *common_names(certificate.subject),
        *found.get_values_for_type(x509.DNSName),
        *found.get_values_for_type(x509.UniformResourceIdentifier),
    ]


def common_names(name: x509.Name) -> list[str]:
    """The common names in a subject or an issuer, usually one."""
    return [str(attribute.value) for attribute in name.get_attributes_for_oid(NameOID.COMMON_NAME)]


def _alternatives(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def read_certificates(path: Path) -> list[x509.Certificate]:
    """All certificates of a PEM file; at least one."""
    return parse_certificates(read_file(path, "certificate"), path)


def parse_certificates(data: bytes, path: Path) -> list[x509.Certificate]:
    """All certificates in the PEM text of a file; at least one."""
    try:
        return x509.load_pem_x509_certificates(data)
    except ValueError:
        raise RequestError(f"{path} has no certificate in PEM form: is it another file?") from None


def read_key(path: Path) -> tuple[bytes, PrivateKeyTypes]:
    """The private key of a PEM file that only its owner may read: its text, and the key."""
    data = read_file(path, "private key", secret=True)
    try:
        return data, load_pem_private_key(data, password=None)
    except TypeError:
        cure = "store it without one: openssl pkey -in OLD -out NEW"
        raise RequestError(f"the private key {path} needs a password: {cure}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise RequestError(f"{path} has no private key in PEM form: is it another file?") from None


def belong(key: PrivateKeyTypes, certificate: x509.Certificate) -> bool:
    """Whether a private key belongs to a certificate."""
    return key.public_key() == certificate.public_key()


def key_fingerprint(certificate: x509.Certificate) -> str:
    """The SHA-256 of a certificate's public key: it stays when a certificate is renewed with the
    same key, and no authority can make another with it."""
    key = certificate.public_key()
    bare = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(bare).hexdigest()


def issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Whether a certificate was signed by another one that is a CA's."""
    try:
        certificate.verify_directly_issued_by(issuer)
        return issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False


def read_file(path: Path, what: str, secret: bool = False) -> bytes:
    """The bytes of a file; a secret one is refused if anybody but its owner may read it."""
    try:
        with path.open("rb") as file:
            # The mode is that of the open file: the path could be replaced in between.
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if secret and mode & 0o077:
                raise RequestError(
                    f"the {what} {path} has mode {mode:04o} and is open to others: chmod 600 {path}"
                )
            return file.read()
    except FileNotFoundError:
        raise RequestError(
            f"there is no {what} at {path}: make one with colonnade keys issue, or correct the path"
        ) from None
    except OSError as error:
        raise RequestError(f"the {what} {path} cannot be read: {reason(error)}") from None


@dataclass(frozen=True)
class Shown:
    """A certificate as `colonnade keys show` presents it."""

    file: str
    party: str | None
    """None for a CA, and for a certificate without our URI."""
    subject: str
    issuer: str
    hosts: list[str]
    valid_from: str
    valid_until: str
    days_left: int
    """Whole days; negative once it has expired."""
    expired: bool
    serial: str
    """In hexadecimal digits, as `openssl x509 -serial` prints it."""
    fingerprint: str
    """SHA-256, as `openssl x509 -fingerprint -sha256` prints it."""
    key: str
    """SHA-256 of its public key, for `tls.pins`."""


def show(path: Path) -> list[Shown]:
    """Describe the certificates in a file, or in a party's or a CA's folder."""
    if not path.is_dir():
        return [_describe(each, path) for each in read_certificates(path)]
    files = [file for file in (path / "cert.pem", path / "ca.pem") if file.exists()]
    files += sorted(path.glob("*/cert.pem"))
    if not files:
        raise RequestError(f"the folder {path} has no cert.pem and no ca.pem: name a certificate")
    return [_describe(each, file) for file in files for each in read_certificates(file)]


def _describe(certificate: x509.Certificate, path: Path) -> Shown:
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    left = until - datetime.now(UTC)
    parties = parties_in(certificate)
    return Shown(
        file=str(path),
        party=parties[0] if len(parties) == 1 else None,
        subject=_short(certificate.subject),
        issuer=_short(certificate.issuer),
        hosts=hosts_in(certificate),
        valid_from=f"{since:%Y-%m-%d %H:%M} UTC",
        valid_until=f"{until:%Y-%m-%d %H:%M} UTC",
        days_left=left.days,
        expired=left.total_seconds() < 0,
        serial=f"{certificate.serial_number:X}",
        fingerprint=certificate.fingerprint(SHA256()).hex(":").upper(),
        key=bytes.fromhex(key_fingerprint(certificate)).hex(":").upper(),
    )


def _short(name: x509.Name) -> str:
    return next(iter(common_names(name)), name.rfc4514_string())
