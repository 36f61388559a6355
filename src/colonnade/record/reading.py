"""Files of a folder that may have come from anybody: how large each is, and what it is, is known
before any of it is read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

import msgspec

from colonnade.errors import RequestError, reason

WEIGHTS_BYTES_MAX = 2**34
"""Twice the largest model that is built by name, with numbers of 64 bits."""
_HEADER_BYTES_MAX = 2**24
_TENSORS_MAX = 2**16
_DIMENSIONS_MAX = 16
_ITEM_BYTES = {
    **dict.fromkeys(("F64", "I64", "U64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("I8", "U8", "BOOL"), 1),
}
_AGAIN = "copy the whole folder of the run again"


class Shape(msgspec.Struct, frozen=True):
    """What the header of a weights file says of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]

    @property
    def count(self) -> int:
        """How many numbers it has."""
        found = 1
        for size in self.shape:
            found *= size
        return found


def read_regular(path: Path, bytes_max: int) -> bytes:
    """All of a file that is no link, no pipe and no device, and no larger than that.

    >>> read_regular(Path("/dev/zero"), 100)
    Traceback (most recent call last):
    colonnade.errors.RequestError: /dev/zero is no plain file: copy the whole folder of the run \
again
    """
    with opened(path) as (file, size):
        if size > bytes_max:
            raise _too_large(path, size, bytes_max)
        # Not to the end: a file that grows meanwhile would be read for ever.
        return file.read(size)


def hash_of(path: Path) -> str:
    """The SHA-256 of a plain file, which is read piece by piece."""
    with opened(path) as (file, size):
        if size > WEIGHTS_BYTES_MAX:
            raise _too_large(path, size, WEIGHTS_BYTES_MAX)
        return hashlib.file_digest(file, "sha256").hexdigest()


def shapes_of(path: Path) -> dict[str, Shape]:
    """What the tensors of a safetensors file are, by name; none of them is read."""
    with opened(path) as (file, size):
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(size - 8, _HEADER_BYTES_MAX):
            raise _damaged(path)
        return _shapes(file.read(length), size - 8 - length, path)


def read_weights(path: Path) -> bytes:
    """A safetensors file whose header fits its length and names nothing unusual; numbers only can
    come of it."""
    shapes_of(path)
    return read_regular(path, WEIGHTS_BYTES_MAX)


def _shapes(header: bytes, data_bytes: int, path: Path) -> dict[str, Shape]:
    try:
        tables = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        tables.pop("__metadata__", None)
        found = {name: msgspec.json.decode(raw, type=Shape) for name, raw in tables.items()}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise _damaged(path) from None
    end = 0
    for each in sorted(found.values(), key=lambda each: each.data_offsets):
        wide = len(each.shape) > _DIMENSIONS_MAX or any(not 0 <= n < 2**40 for n in each.shape)
        if wide or each.dtype not in _ITEM_BYTES or each.data_offsets[0] != end:
            raise _damaged(path)
        end = each.data_offsets[1]
        if end - each.data_offsets[0] != each.count * _ITEM_BYTES[each.dtype]:
            raise _damaged(path)
    if end != data_bytes or len(found) > _TENSORS_MAX:
        raise _damaged(path)
    return found


def _damaged(path: Path) -> RequestError:
    return RequestError(f"the weights in {path} are damaged, or no weights: {_AGAIN}")


@contextmanager
def opened(path: Path) -> Iterator[tuple[BufferedReader, int]]:
    """A plain file and its size; a pipe would keep us waiting, a link may lead anywhere."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise _not_plain(path) from None
        raise RequestError(f"{path} cannot be read: {reason(error)}") from None
    with os.fdopen(opened, "rb") as file:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise _not_plain(path)
        try:
            yield file, found.st_size
        except OSError as error:
            raise RequestError(f"{path} cannot be read: {reason(error)}") from None


def _too_large(path: Path, size: int, bytes_max: int) -> RequestError:
    return RequestError(
        f"{path} has {size:,} bytes, more than the {bytes_max:,} that such a file may have: "
        f"{_AGAIN}"
    )


def _not_plain(path: Path) -> RequestError:
    return RequestError(f"{path} is no plain file: {_AGAIN}")
