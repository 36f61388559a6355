"""A small certificate authority (CA) for the parties of a job, kept in a folder.

    FOLDER/ca.pem  ca.key                      the CA; ca.key never leaves the folder
    FOLDER/bank/cert.pem  key.pem  ca.pem      everything the bank needs, to hand over as it is

A key is created with mode 0600, never overwritten, and kept when its certificate is renewed.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from colonnade.errors import RequestError, reason
from colonnade.tls import signing
from colonnade.tls.certificate import (
    SUFFIX,
    belong,
    dns_name,
    hosts_in,
    issued_by,
    parties_in,
    read_certificates,
    read_key,
)


class Issued(NamedTuple):
    """A party's folder, and whether its key is new: then the whole folder has to be handed over."""

    folder: Path
    new_key: bool


def create_authority(
    folder: Path, days: int = 3650, name: str | None = None, now: datetime | None = None
) -> None:
    """Create a CA in a folder that has none; `now` replaces the clock in tests."""
    validity = signing.Validity.of(days, now)
    if name is not None and not (1 <= len(name) <= 64 and name.isprintable()):
        raise RequestError(f"{name!r} cannot be an authority's name: use 1 to 64 characters")
    for path in (folder / "ca.key", folder / "ca.pem"):
        if path.exists():
            raise RequestError(f"{path} is there already: choose another folder, or issue from it")
    key = signing.new_key()
    subject = signing.common_name(name or f"Colonnade authority {secrets.token_hex(4)}")
    extensions = signing.authority_extensions()
    certificate = signing.sign(subject, key.public_key(), subject, key, validity, extensions)
    make_folder(folder)
    write(folder / "ca.key", signing.key_pem(key), 0o600, fresh=True)
    write(folder / "ca.pem", signing.pem(certificate), 0o644, fresh=True)


def issue(
    folder: Path,
    parties: Sequence[str],
    hosts: Mapping[str, Sequence[str]] | None = None,
    days: int = 365,
    renew: bool = False,
    now: datetime | None = None,
) -> list[Issued]:
    """Create a folder with key and certificate for each party; if one is refused, none is created.

    With `renew`, a party that has a certificate gets a new one for the same key, and for the same
    hosts if none are given. `now` replaces the clock in tests.
    """
    given = {party: [read_host(host) for host in some] for party, some in (hosts or {}).items()}
    validity = signing.Validity.of(days, now)
    _check_parties(parties, given)
    authority, signer = _load_authority(folder)
    last = authority.not_valid_after_utc
    if validity.until > last:
        raise RequestError(
            f"the authority in {folder} ends on {last:%Y-%m-%d}, before a certificate of {days} "
            "days would: give fewer --days, or begin a new authority with colonnade keys init"
        )
    old = {party: _existing(folder / party, party, authority, renew) for party in parties}
    for party, before in old.items():
        own = folder / party
        make_folder(own)
        public, names = _new_key(own) if before is None else _kept(before, party)
        extensions = signing.party_extensions(party, given.get(party, names))
        subject = signing.common_name(party)
        new = signing.sign(subject, public, authority.subject, signer, validity, extensions)
        write(own / "ca.pem", signing.pem(authority), 0o644)
        write(own / "cert.pem", signing.pem(new), 0o644)
    return [Issued(folder / party, before is None) for party, before in old.items()]


def _new_key(folder: Path) -> tuple[CertificatePublicKeyTypes, list[str]]:
    key = signing.new_key()
    write(folder / "key.pem", signing.key_pem(key), 0o600, fresh=True)
    return key.public_key(), []


def _kept(old: x509.Certificate, party: str) -> tuple[CertificatePublicKeyTypes, list[str]]:
    """What a renewal keeps: the public key, since by now perhaps only the party has the private
    one, and the hosts."""
    return old.public_key(), [host for host in hosts_in(old) if host != dns_name(party)]


def read_host(text: str) -> str:
    """Return a host name or IP address in normal form, or refuse it.

    >>> read_host("Bank.example"), read_host("10.0.0.5"), read_host("0::1")
    ('bank.example', '10.0.0.5', '::1')
    """
    address = signing.ip_address(text)
    if address is not None:
        return str(address)
    host = text.lower()
    labels = host.removeprefix("*.").split(".")
    good = all(re.fullmatch(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?", label) for label in labels)
    if not good or labels[-1].isdecimal() or len(host) > 253:
        raise RequestError(
            f"'{text}' is neither a host's name nor an IP address: write bank.example or 10.0.0.5, "
            "without a port, and other alphabets in their xn-- form"
        )
    if host.endswith(SUFFIX):
        raise RequestError(f"'{text}' is kept for the parties' own names: use another host name")
    return host


def write(path: Path, data: bytes, mode: int, fresh: bool = False) -> None:
    """Write a file atomically. With `fresh` it must not exist yet; otherwise it is replaced."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        # The file is created with its mode, so that a key is at no moment readable by others.
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, fails where the name is taken.
        if fresh:
            path.hardlink_to(part)
        else:
            part.replace(path)
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {reason(error)}") from None
    finally:
        part.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Create a folder for its owner only, unless it exists."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RequestError(f"the folder {folder} cannot be made: {reason(error)}") from None


def _check_parties(parties: Sequence[str], hosts: Mapping[str, Sequence[str]]) -> None:
    if not parties:
        raise RequestError("no party is named: add --party NAME for each")
    for party in parties:
        if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", party) is None:
            raise RequestError(
                f"'{party}' cannot be a party's name: use up to 64 letters, digits, '-' and '_'"
            )
        if parties.count(party) > 1:
            raise RequestError(f"the party '{party}' is named twice: name each party once")
    for party in hosts:
        if party not in parties:
            raise RequestError(
                f"--host names '{party}', which gets no certificate: add --party {party}"
            )


def _load_authority(folder: Path) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    if not (folder / "ca.key").exists():
        raise RequestError(f"there is no authority in {folder}: begin with colonnade keys init")
    certificate = read_certificates(folder / "ca.pem")[0]
    _, key = read_key(folder / "ca.key")
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not belong(key, certificate):
        raise RequestError(
            f"{folder / 'ca.key'} is not the key of {folder / 'ca.pem'}: put back the two files "
            "that colonnade keys init made together"
        )
    return certificate, key


def _existing(
    folder: Path, party: str, authority: x509.Certificate, renew: bool
) -> x509.Certificate | None:
    """The certificate to renew, or None if there is neither certificate nor key."""
    path = folder / "cert.pem"
    if not path.exists():
        if (folder / "key.pem").exists():
            raise RequestError(
                f"{folder / 'key.pem'} has no certificate beside it: move it away first"
            )
        return None
    if not renew:
        raise RequestError(f"{party} has the certificate {path} already: add --renew to replace it")
    certificate = read_certificates(path)[0]
    if parties_in(certificate) != [party] or not issued_by(certificate, authority):
        raise RequestError(f"{path} is not a certificate of {party} made here: move it away first")
    return certificate
