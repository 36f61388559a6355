"""An oblivious pseudorandom function: OPRF(ristretto255, SHA-512) of RFC 9497, in its mode OPRF.

One party has the key k, another an input x. It *blinds* x, B = r·H(x) with a fresh scalar r, the
key's holder *evaluates*, E = k·B, and the first one *finalizes*, F(x) = Hash(x, (1/r)·E). It learns
F(x) and nothing of k; the key's holder sees a uniformly random point and learns nothing of x.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from colonnade.align.group import BYTES, Batch, batch, from_hashes, inverses, multiply, reduced

_CONTEXT = b"OPRFV1-\x00-ristretto255-SHA512"
_GROUP = b"HashToGroup-" + _CONTEXT
_KEY = b"DeriveKeyPair" + _CONTEXT
_HASH_BLOCK = 128
OUTPUT_BYTES = 64


def expand(message: bytes, domain: bytes) -> bytes:
    """`expand_message_xmd` of RFC 9380 with SHA-512, for 64 bytes.

    >>> len(expand(b"x", b"domain"))
    64
    """
    tail = domain + len(domain).to_bytes(1, "big")
    length = OUTPUT_BYTES.to_bytes(2, "big")
    first = hashlib.sha512(bytes(_HASH_BLOCK) + message + length + b"\0" + tail).digest()
    return hashlib.sha512(first + b"\x01" + tail).digest()


def derive_key(seed: bytes, info: bytes) -> Batch:
    """`DeriveKeyPair` of RFC 9497: the secret scalar that belongs to a seed.

    >>> derive_key(bytes(32), b"test").shape
    (1, 32)
    """
    message = seed + len(info).to_bytes(2, "big") + info
    for counter in range(256):
        scalar = reduced(batch(expand(message + bytes([counter]), _KEY), 64))
        if scalar.any():
            return scalar
    raise AssertionError("256 scalars in a row were zero")


def hash_to_group(inputs: Sequence[bytes]) -> Batch:
    """H(x) for each input."""
    # The first block is the same for all, so it is hashed once.
    start, tail = hashlib.sha512(bytes(_HASH_BLOCK)), _GROUP + len(_GROUP).to_bytes(1, "big")
    ends, follows = OUTPUT_BYTES.to_bytes(2, "big") + b"\0" + tail, b"\x01" + tail
    uniform = bytearray()
    for x in inputs:
        first = start.copy()
        first.update(x + ends)
        uniform += hashlib.sha512(first.digest() + follows).digest()
    return from_hashes(batch(bytes(uniform), OUTPUT_BYTES))


def blind(inputs: Sequence[bytes], blinds: Batch) -> Batch:
    """The points to show: each input under a blind of its own."""
    return multiply(hash_to_group(inputs), blinds)


def unblind(evaluated: Batch, blinds: Batch) -> Batch:
    """k·H(x) of each evaluated point."""
    return multiply(evaluated, inverses(blinds))


def finalize(inputs: Sequence[bytes], elements: Batch) -> Batch:
    """F(x) of each input, 64 bytes, from k·H(x).

    >>> from colonnade.align.group import scalars_from
    >>> key, blinds = scalars_from(bytes(32), 0, 1), scalars_from(bytes(32), 1, 1)
    >>> seen = multiply(blind([b"x"], blinds), key)
    >>> bool((finalize([b"x"], unblind(seen, blinds)) == evaluate_own([b"x"], key)).all())
    True
    """
    middle, begun = BYTES.to_bytes(2, "big"), hashlib.sha512()
    flat, out = elements.tobytes(), bytearray()
    for x, at in zip(inputs, range(0, len(flat), BYTES), strict=True):
        each = begun.copy()
        each.update(len(x).to_bytes(2, "big") + x + middle + flat[at : at + BYTES] + b"Finalize")
        out += each.digest()
    return batch(bytes(out), OUTPUT_BYTES)


def evaluate_own(inputs: Sequence[bytes], key: Batch) -> Batch:
    """F(x) of inputs of one's own, by who has the key.

    >>> evaluate_own([], derive_key(bytes(32), b"")).shape
    (0, 64)
    """
    if not len(inputs):
        return np.empty((0, OUTPUT_BYTES), dtype=np.uint8)
    return finalize(inputs, multiply(hash_to_group(inputs), key))
