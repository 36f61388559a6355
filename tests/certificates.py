"""Certificates for tests: those of a company's own authority, with whatever is asked for."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from colonnade.tls import signing
from colonnade.tls.identity import Identity, load_identity

NOW = datetime.datetime.now(datetime.UTC)
BOTH = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


@dataclass
class Signer:
    """An authority of a company: a root, or one that the root has signed."""

    certificate: x509.Certificate
    key: Any

    @property
    def pem(self) -> bytes:
        return signing.pem(self.certificate)


def days(first: int, last: int) -> signing.Validity:
    """From so many days from now until so many."""
    day = datetime.timedelta(days=1)
    return signing.Validity(NOW + first * day, NOW + last * day)


def signer(name: str, above: Signer | None = None, validity: signing.Validity | None = None):
    key, subject = signing.new_key(), signing.common_name(name)
    issuer, by = (above.certificate.subject, above.key) if above else (subject, key)
    constraints = [(x509.BasicConstraints(ca=True, path_length=None), True)]
    validity = validity or days(-1, 100)
    made = signing.sign(subject, key.public_key(), issuer, by, validity, constraints)
    return Signer(made, key)


def certificate(
    by: Signer,
    name: str = "Bank plc",
    dns: tuple[str, ...] = (),
    uris: tuple[str, ...] = (),
    purposes: tuple[x509.ObjectIdentifier, ...] | None = BOTH,
    validity: signing.Validity | None = None,
    key: Any = None,
) -> tuple[bytes, bytes]:
    """A certificate without anything of ours, and its key, as PEM."""
    key = key or signing.new_key()
    names = [x509.DNSName(each) for each in dns]
    names += [x509.UniformResourceIdentifier(each) for each in uris]
    extensions: list[Any] = [(x509.BasicConstraints(ca=False, path_length=None), True)]
    if names:
        extensions.append((x509.SubjectAlternativeName(names), False))
    if purposes is not None:
        extensions.append((x509.ExtendedKeyUsage(purposes), False))
    validity = validity or days(-1, 100)
    subject, issuer = signing.common_name(name), by.certificate.subject
    made = signing.sign(subject, key.public_key(), issuer, by.key, validity, extensions)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return signing.pem(made), text


def store(folder: Path, cert: bytes, key: bytes, authority: bytes) -> Path:
    """The three files of a party, as `colonnade keys issue` lays them out."""
    folder.mkdir()
    (folder / "cert.pem").write_bytes(cert)
    (folder / "ca.pem").write_bytes(authority)
    (folder / "key.pem").touch(mode=0o600)
    (folder / "key.pem").write_bytes(key)
    return folder


def load(folder: Path, party: str = "bank", names: tuple[str, ...] = (), listens: bool = False):
    """`load_identity` with the files of a party's folder."""
    paths = [folder / name for name in ("cert.pem", "key.pem", "ca.pem")]
    return load_identity(*paths, party, names, listens=listens)


def unchecked(folder: Path) -> Identity:
    """An identity of whatever the folder has: a peer is not bound to check its own files."""
    cert, key, authority = ((folder / f"{name}.pem").read_bytes() for name in ("cert", "key", "ca"))
    return Identity(folder.name, cert, key, authority)
