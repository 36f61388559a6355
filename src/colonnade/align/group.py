"""The group ristretto255 in batches, computed by libsodium.

A batch is an array of 32 bytes a row. libsodium releases the interpreter while it multiplies, so
that threads use all cores; a multiplication takes fifty times as long as the call.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from colonnade.errors import RequestError

BYTES = 32
Batch = npt.NDArray[np.uint8]
"""Points or scalars, 32 bytes a row."""
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the group."""
_TOP_BIT = 0x80


class InvalidPoint(ValueError):  # noqa: N818 - the noun says it
    """Bytes that are no point of the group, or the point that must not be used."""


@cache
def _sodium() -> ctypes.CDLL:
    """libsodium: the system's, or else the one that comes with rbcl."""
    found = ctypes.util.find_library("sodium")
    library = ctypes.CDLL(found) if found is not None else None
    if library is None or not hasattr(library, "crypto_scalarmult_ristretto255"):
        try:
            import rbcl
        except ImportError:
            raise RequestError(
                "alignment needs libsodium: pip install rbcl, or install libsodium 1.0.18 or later"
            ) from None
        library = rbcl._sodium
        # rbcl writes the library into a new temporary file in each process and leaves it there;
        # once it is loaded, nobody needs the name.
        Path(library._name).unlink(missing_ok=True)
    if library.sodium_init() < 0:
        raise RequestError("libsodium cannot be used here: install libsodium 1.0.18 or later")
    for name, arguments in _ARGUMENTS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = [ctypes.c_void_p] * arguments, ctypes.c_int
    return library


_MULTIPLY = "crypto_scalarmult_ristretto255"
_FROM_HASH = "crypto_core_ristretto255_from_hash"
_REDUCE = "crypto_core_ristretto255_scalar_reduce"
_SCALAR_MULTIPLY = "crypto_core_ristretto255_scalar_mul"
_SCALAR_INVERT = "crypto_core_ristretto255_scalar_invert"
_ARGUMENTS = {_MULTIPLY: 3, _FROM_HASH: 2, _REDUCE: 2, _SCALAR_MULTIPLY: 3, _SCALAR_INVERT: 2}


def batch(data: bytes | memoryview, width: int = BYTES) -> Batch:
    """Bytes as an array with so many a row.

    >>> batch(bytes(64)).shape
    (2, 32)
    """
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, width)


def multiply(points: Batch, scalars: Batch) -> Batch:
    """Each point by the scalar of its row, or all of them by one; in constant time for each.

    Raises `InvalidPoint` for bytes that are no canonical encoding of a point other than the
    identity: libsodium takes an encoding whose top bit is set, and here nothing has two names.
    """
    points, scalars = np.ascontiguousarray(points), np.ascontiguousarray(scalars)
    if len(points) and (points[:, -1] & _TOP_BIT).any():
        raise InvalidPoint("the encoding of a point is not canonical")
    out = np.empty_like(points)
    function = getattr(_sodium(), _MULTIPLY)
    step = BYTES if len(scalars) == len(points) and len(scalars) != 1 else 0
    to, scalar, point = out.ctypes.data, scalars.ctypes.data, points.ctypes.data
    failed = 0
    for row in range(len(points)):
        failed |= function(to + row * BYTES, scalar + row * step, point + row * BYTES)
    if failed:
        raise InvalidPoint("the encoding of a point is not valid, or it is the identity")
    return out


def from_hashes(uniform: Batch) -> Batch:
    """A point for each row of 64 uniform bytes."""
    return _each(_FROM_HASH, uniform)


def reduced(wide: Batch) -> Batch:
    """A scalar for each row of 64 uniform bytes."""
    return _each(_REDUCE, wide)


def _each(name: str, rows: Batch) -> Batch:
    rows = np.ascontiguousarray(rows)
    out = np.empty((len(rows), BYTES), dtype=np.uint8)
    function, to, source, width = getattr(_sodium(), name), out.ctypes.data, rows.ctypes.data, 64
    assert rows.shape[1] == width
    for row in range(len(rows)):
        function(to + row * BYTES, source + row * width)
    return out


def inverses(scalars: Batch) -> Batch:
    """1 / s for each scalar, by one inversion and three products each (Montgomery).

    >>> two = np.zeros((3, 32), dtype=np.uint8); two[:, 0] = 2
    >>> [int.from_bytes(row.tobytes(), "little") * 2 % ORDER for row in inverses(two)]
    [1, 1, 1]
    """
    count = len(scalars)
    if not count:
        return scalars.copy()
    scalars = np.ascontiguousarray(scalars)
    product = getattr(_sodium(), _SCALAR_MULTIPLY)
    before, out = np.empty_like(scalars), np.empty_like(scalars)
    own, prefix, to = scalars.ctypes.data, before.ctypes.data, out.ctypes.data
    before[0] = scalars[0]
    for row in range(1, count):
        product(prefix + row * BYTES, prefix + (row - 1) * BYTES, own + row * BYTES)
    running = np.empty(BYTES, dtype=np.uint8)
    rest = running.ctypes.data
    getattr(_sodium(), _SCALAR_INVERT)(rest, prefix + (count - 1) * BYTES)
    for row in range(count - 1, 0, -1):
        product(to + row * BYTES, rest, prefix + (row - 1) * BYTES)
        product(rest, rest, own + row * BYTES)
    out[0] = running
    return out


def scalars_from(secret: bytes, first: int, count: int) -> Batch:
    """The scalars number `first` and on of a secret of at least 32 bytes: always the same ones, and
    for everybody else as good as random.

    >>> bool((scalars_from(bytes(32), 5, 2) == scalars_from(bytes(32), 0, 7)[5:]).all())
    True
    """
    assert len(secret) >= BYTES
    wide = b"".join(
        hashlib.blake2b(number.to_bytes(8, "little"), key=secret).digest()
        for number in range(first, first + count)
    )
    return reduced(batch(wide, 64))
