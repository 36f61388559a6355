"""A private key in a file that only its owner can read."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from colonnade.cipher.big import gmpy2
from colonnade.cipher.paillier import KEY_BITS, InvalidCipher, PrivateKey, public_key
from colonnade.errors import DataError, reason
from colonnade.record.private import write_whole

FORMAT = "colonnade paillier key 1"
FILE_BYTES_MAX = 16_384


def write_key(path: Path, key: PrivateKey) -> None:
    """Write a key so that it is there whole or not at all, with mode 0600.

    >>> import os, tempfile
    >>> from colonnade.cipher.paillier import generate
    >>> key = generate(2048, os.urandom)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_key(Path(folder) / "key", key)
    ...     read_key(Path(folder) / "key").public == key.public
    True
    """
    numbers = {"p": key.p, "q": key.q, "h": key.public.h}
    content = {"format": FORMAT, **{name: hex(value) for name, value in numbers.items()}}
    write_whole(path, json.dumps(content, indent=2) + "\n")


def read_key(path: Path) -> PrivateKey:
    """Read a key that `write_key` wrote."""
    try:
        mode = path.stat().st_mode
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {reason(error)}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise DataError(f"others can read {path}, which holds a private key: chmod 600 {path}")
    try:
        return _key(content)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no private key that this program wrote: {error}") from None


def _key(content: bytes) -> PrivateKey:
    said = json.loads(content) if len(content) <= FILE_BYTES_MAX else {}
    if said.get("format") != FORMAT:
        raise ValueError(f"its format is not '{FORMAT}'")
    p, q, h = (gmpy2.mpz(int(said[name], 16)) for name in "pqh")
    if (p * q).bit_length() not in KEY_BITS or p == q:
        raise InvalidCipher("p and q have another length, or are the same")
    if not (gmpy2.is_prime(p) and gmpy2.is_prime(q)):
        raise InvalidCipher("p or q is no prime")
    key = PrivateKey(p, q, h)
    public_key(key.public.to_bytes(), key.public.bits)
    return key
