"""Creates and signs certificates in memory; all keys use the curve P-256."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from colonnade.errors import RequestError
from colonnade.tls.certificate import PREFIX, dns_name

if TYPE_CHECKING:
    Extensions = list[tuple[x509.ExtensionType, bool]]

DAYS_MOST = 36_500
CLOCKS_APART = timedelta(hours=1)
"""How far into the past a certificate is valid, because the clocks of two hosts differ."""
USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


class Validity(NamedTuple):
    """The period in which a certificate is valid."""

    since: datetime
    until: datetime

    @classmethod
    def of(cls, days: int, now: datetime | None) -> Validity:
        """So many days from now; `now` replaces the clock in tests."""
        if not 1 <= days <= DAYS_MOST:
            raise RequestError(f"--days is {days}: it must be between 1 and {DAYS_MOST}")
        now = now or datetime.now(UTC)
        return cls(now - CLOCKS_APART, now + timedelta(days=days))


def new_key() -> EllipticCurvePrivateKey:
    """A new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def sign(
    subject: x509.Name,
    public: CertificatePublicKeyTypes,
    issuer: x509.Name,
    signer: EllipticCurvePrivateKey,
    validity: Validity,
    extensions: Extensions,
) -> x509.Certificate:
    """A certificate with these extensions, each with whether it is critical, and the key ids."""
    builder = (
        x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
        .not_valid_before(validity.since)
        .not_valid_after(validity.until)
    )
    own_id = x509.SubjectKeyIdentifier.from_public_key(public)
    signer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    for extension, critical in [*extensions, (own_id, False), (signer_id, False)]:
        builder = builder.add_extension(extension, critical)
    return builder.sign(signer, SHA256())


def authority_extensions() -> Extensions:
    """The extensions of a CA, which may sign certificates of parties, but no further CAs."""
    return [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (_usage("key_cert_sign", "crl_sign"), True),
    ]


def party_extensions(party: str, hosts: Sequence[str]) -> Extensions:
    """The extensions of a party's certificate: usage, the party's URI and DNS name, its hosts."""
    names: list[x509.GeneralName] = [
        x509.DNSName(dns_name(party)),
        x509.UniformResourceIdentifier(PREFIX + party),
    ]
    for host in dict.fromkeys(hosts):
        address = ip_address(host)
        names.append(x509.DNSName(host) if address is None else x509.IPAddress(address))
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
    return [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage("digital_signature"), True),
        (x509.ExtendedKeyUsage(purposes), False),
        (x509.SubjectAlternativeName(names), False),
    ]


def _usage(*wanted: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in wanted for usage in USAGES})


def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address in a string, or None.

    >>> ip_address("10.0.0.5"), ip_address("bank.example")
    (IPv4Address('10.0.0.5'), None)
    """
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def common_name(text: str) -> x509.Name:
    """A subject with this common name, and nothing else."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem(certificate: x509.Certificate) -> bytes:
    """A certificate as PEM text."""
    return certificate.public_bytes(Encoding.PEM)


def key_pem(key: EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM text, not encrypted."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
