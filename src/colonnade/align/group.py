"""The group ristretto255 in batches, computed by libsodium.

A batch is an array of 32 bytes a row. libsodium releases the interpreter while it works on points,
so that threads use all cores; a multiplication takes fifty times as long as the call. Operations on
scalars are so short that they keep the interpreter: letting it go and waiting for it would take
longer. Calls for all rows of a batch are one `map` over addresses, without Python between them.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
from collections import deque
from collections.abc import Iterable
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from colonnade.errors import RequestError

BYTES = 32
Batch = npt.NDArray[np.uint8]
"""Points or scalars, 32 bytes a row."""
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the group."""
_TOP_BIT = 0x80
_Library = TypeVar("_Library", bound=ctypes.CDLL)


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
    _declare(library)
    return library


@cache
def _scalar_sodium() -> ctypes.PyDLL:
    """The same library, for calls that keep the interpreter."""
    released = _sodium()
    return _declare(ctypes.PyDLL(released._name, handle=released._handle))


def _declare(library: _Library) -> _Library:
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


def batch(data: bytes | bytearray | memoryview, width: int = BYTES) -> Batch:
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
    one = len(scalars) == 1 or len(scalars) != len(points)
    own = repeat(scalars.ctypes.data) if one else _addresses(scalars)
    # All rows are done whether or not one fails: how long it takes tells nothing.
    if sum(map(function, _addresses(out), own, _addresses(points))):
        raise InvalidPoint("the encoding of a point is not valid, or it is the identity")
    return out


def from_hashes(uniform: Batch) -> Batch:
    """A point for each row of 64 uniform bytes."""
    return _each(_sodium(), _FROM_HASH, uniform)


def reduced(wide: Batch) -> Batch:
    """A scalar for each row of 64 uniform bytes."""
    return _each(_scalar_sodium(), _REDUCE, wide)


def _each(library: ctypes.CDLL, name: str, rows: Batch) -> Batch:
    assert rows.shape[1] == 2 * BYTES
    rows = np.ascontiguousarray(rows)
    out = np.empty((len(rows), BYTES), dtype=np.uint8)
    _run(map(getattr(library, name), _addresses(out), _addresses(rows)))
    return out


def _addresses(rows: Batch) -> range:
    """Where each row of a contiguous array begins."""
    start, step = rows.ctypes.data, rows.shape[1]
    return range(start, start + len(rows) * step, step)


def _run(calls: Iterable[object]) -> None:
    deque(calls, maxlen=0)


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
    product = getattr(_scalar_sodium(), _SCALAR_MULTIPLY)
    before, out = np.empty_like(scalars), np.empty_like(scalars)
    own, prefix, to = _addresses(scalars), _addresses(before), _addresses(out)
    before[0] = scalars[0]
    _run(map(product, prefix[1:], prefix, own[1:]))
    running = np.empty(BYTES, dtype=np.uint8)
    rest = running.ctypes.data
    getattr(_scalar_sodium(), _SCALAR_INVERT)(rest, prefix[-1])
    for result, ahead, scalar in zip(to[:0:-1], prefix[-2::-1], own[:0:-1], strict=True):
        product(result, rest, ahead)
        product(rest, rest, scalar)
    out[0] = running
    return out


def scalars_from(secret: bytes, first: int, count: int) -> Batch:
    """The scalars number `first` and on of a secret of at least 32 bytes: always the same ones, and
    for everybody else as good as random.

    >>> bool((scalars_from(bytes(32), 5, 2) == scalars_from(bytes(32), 0, 7)[5:]).all())
    True
    """
    assert len(secret) >= BYTES
    begun, wide = hashlib.blake2b(key=secret), bytearray()
    for number in range(first, first + count):
        each = begun.copy()
        each.update(number.to_bytes(8, "little"))
        wide += each.digest()
    return reduced(batch(wide, 64))
