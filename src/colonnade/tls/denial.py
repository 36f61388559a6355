"""The deny-list: certificates that are refused although a trusted CA has signed them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from colonnade.errors import RequestError
from colonnade.tls.certificate import read_file

Denied = frozenset[str]
"""SHA-256 fingerprints and serial numbers, in lower-case hexadecimal without leading zeros."""

_FINGERPRINT_DIGITS, _SERIAL_DIGITS_MAX = 64, 40


def read_denied(texts: Iterable[str], file: Path | None = None) -> Denied:
    """The certificates listed in a party file, and those in a file with one on each line.

    >>> sorted(read_denied(["0A:1B", "SHA256 Fingerprint=" + "AB:" * 31 + "AB"]))
    ['a1b', 'abababababababababababababababababababababababababababababababab']
    """
    listed = [(text, "tls.deny") for text in texts]
    if file is not None:
        lines = read_file(file, "deny-list").decode(errors="replace").splitlines()
        listed += [(line.partition("#")[0], str(file)) for line in lines]
    return frozenset(_key(text, where) for text, where in listed if text.strip())


def _key(text: str, where: str) -> str:
    digits = re.sub(r"[\s:]", "", text.rpartition("=")[2]).lower()
    long = len(digits) == _FINGERPRINT_DIGITS or len(digits) <= _SERIAL_DIGITS_MAX
    if not long or not re.fullmatch("[0-9a-f]+", digits):
        raise RequestError(
            f"'{text.strip()[:80]}' in {where} is no fingerprint (SHA-256) or serial number of a "
            "certificate: copy one from colonnade keys show"
        )
    return digits.lstrip("0")


def is_denied(certificate: x509.Certificate, denied: Denied) -> bool:
    """Whether a certificate is listed, by its fingerprint or its serial number."""
    own = (certificate.fingerprint(SHA256()).hex(), f"{certificate.serial_number:x}")
    return any(digits.lstrip("0") in denied for digits in own)


def is_denied_pem(pem: bytes, denied: Denied) -> bool:
    """Whether a certificate in PEM form, which a peer has shown, is listed."""
    return bool(denied) and is_denied(x509.load_pem_x509_certificate(pem), denied)
