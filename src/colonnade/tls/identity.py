"""A party's identity: its certificate, its key and the CA it trusts, read and checked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from colonnade.errors import RequestError
from colonnade.tls.certificate import (
    belong,
    common_names,
    issued_by,
    names_in,
    parse_certificates,
    parties_in,
    party_of,
    read_file,
    read_key,
)
from colonnade.tls.denial import Denied, is_denied

WARN_DAYS = 30


@dataclass(frozen=True)
class Identity:
    """What a party shows and trusts: its certificate, its key and its CA, as PEM text."""

    party: str
    certificate: bytes = field(repr=False)
    """The party's own certificate first, then the intermediate ones."""
    key: bytes = field(repr=False)
    authority: bytes = field(repr=False)
    denied: Denied = frozenset()
    """Other certificates that are refused."""


def load_identity(
    certificate: Path,
    key: Path,
    authority: Path,
    party: str,
    names: Collection[str] = (),
    *,
    listens: bool,
    denied: Denied = frozenset(),
) -> tuple[Identity, list[str]]:
    """Read and check a party's identity; return it with warnings for the party.

    `names` are names in a company's own certificate that stand for the party. `listens` is true
    for the active party, whose certificate must be valid for a server; others must be valid for a
    client. A CA that is denied is not trusted, nor is any certificate that it has issued.
    """
    chain_pem = read_file(certificate, "certificate")
    authority_pem = read_file(authority, "certificate of the authority")
    own, *between = parse_certificates(chain_pem, certificate)
    listed = parse_certificates(authority_pem, authority)
    anchors = [each for each in listed if not is_denied(each, denied)]
    if is_denied(own, denied) or not anchors:
        which = certificate if anchors else authority
        raise RequestError(f"{which} is on the deny-list (tls.deny): ask for a new certificate")
    if len(anchors) < len(listed):
        authority_pem = b"".join(each.public_bytes(Encoding.PEM) for each in anchors)
    key_pem, private = read_key(key)
    if not belong(private, own):
        raise RequestError(
            f"the private key {key} does not belong to the certificate {certificate}: "
            "name the two files that were made together"
        )
    _check_kind(private, key)
    _check_name(own, certificate, party, names)
    chain = chain_to(own, between, anchors)
    if chain is None:
        raise RequestError(
            f"the certificate {certificate} was not issued by the authority in {authority}: use "
            "the two files that came together, or add the certificates in between to the first"
        )
    warnings = [text for each in chain for text in check_time(each, own, party)]
    _check_purpose(own, certificate, listens)
    return Identity(party, chain_pem, key_pem, authority_pem, denied), warnings


def _check_kind(private: PrivateKeyTypes, path: Path) -> None:
    """Refuse kinds of key that are too weak, or with which gRPC cannot connect."""
    curve = isinstance(private, ec.EllipticCurvePrivateKey) and private.curve.name
    strong = isinstance(private, rsa.RSAPrivateKey) and private.key_size >= 2048
    if not strong and curve not in ("secp256r1", "secp384r1"):
        raise RequestError(
            f"the private key {path} is of a kind that cannot be used: take one of the curve "
            "P-256 or P-384, or RSA of 2048 bits or more"
        )


def _check_name(own: x509.Certificate, path: Path, party: str, names: Collection[str]) -> None:
    if party_of(own.public_bytes(Encoding.PEM), {party: names}) == party:
        return
    others = parties_in(own)
    if others:
        raise RequestError(
            f"the certificate {path} was issued for {', '.join(others)} and not for {party}: "
            "name the party's own certificate"
        )
    found = ", ".join(dict.fromkeys(names_in(own))) or "no name"
    raise RequestError(
        f"the certificate {path} does not name the party {party}: list one of its names ({found}) "
        "as a name of the party, or use another certificate"
    )


def chain_to(
    own: x509.Certificate,
    between: Sequence[x509.Certificate],
    anchors: Sequence[x509.Certificate],
) -> list[x509.Certificate] | None:
    """The chain from a party's own certificate to a CA's, each signed by the next."""
    chain = [own]
    while True:
        for candidate in (*anchors, *between):
            if candidate not in chain and issued_by(chain[-1], candidate):
                chain.append(candidate)
                break
        else:
            return None
        if chain[-1] in anchors:
            return chain


def check_time(each: x509.Certificate, own: x509.Certificate, party: str) -> list[str]:
    """Refuse a certificate that is not valid now; warn of one that expires soon."""
    now, since, until = datetime.now(UTC), each.not_valid_before_utc, each.not_valid_after_utc
    what, cure = f"the certificate of {party}", "ask its authority for a new one"
    if each != own:
        what = f"the authority {', '.join(common_names(each.subject))}, for {party},"
    elif parties_in(own):
        cure = f"renew it with colonnade keys issue FOLDER --party {party} --renew"
    if now < since:
        raise RequestError(
            f"{what} is valid only from {since:%Y-%m-%d %H:%M} UTC, and the clock here says "
            f"{now:%Y-%m-%d %H:%M} UTC: correct the clock, or wait"
        )
    if now > until:
        raise RequestError(f"{what} expired on {until:%Y-%m-%d}: {cure}")
    days = (until - now).days
    when = {0: "within a day", 1: "in 1 day"}.get(days, f"in {days} days")
    return [f"{what} expires {when}: {cure}"] if days < WARN_DAYS else []


def _check_purpose(own: x509.Certificate, path: Path, listens: bool) -> None:
    try:
        allowed = own.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    oid, use = (
        (ExtendedKeyUsageOID.SERVER_AUTH, "a server (serverAuth), which the active party is")
        if listens
        else (ExtendedKeyUsageOID.CLIENT_AUTH, "a client (clientAuth), which a passive party is")
    )
    if oid not in allowed:
        raise RequestError(
            f"the certificate {path} is not meant for {use}: ask for one with that extended usage"
        )
