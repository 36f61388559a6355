"""Arrays from files: numpy's `.npy`, and the idx files in which MNIST is published."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError

_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_DEFLATE_RATIO_MAX = 1032
"""No gzip stream unpacks to more than this many times its size."""


def read_array(path: str | Path) -> npt.NDArray[Any]:
    """Read an array of numbers or text; what a file claims is checked before memory is taken.

    A `.npy` file that holds Python objects is refused: reading it could run code.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}: check its path in the job or the party file")
    try:
        array = _read_npy(path) if path.suffix == ".npy" else _read_idx(path)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(
            f"{path} cannot be read as an array ({error}): write it again, or check its ending"
        ) from None
    if array.dtype.kind not in "biufU":
        raise DataError(f"{path} holds {array.dtype}: save an array of numbers or text instead")
    return array


def _read_npy(path: Path) -> npt.NDArray[Any]:
    # Mapping the file first fails on a header that claims more than the file holds.
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(mapped, np.ndarray):
        raise ValueError("it is an archive of several arrays")
    return np.array(mapped, dtype=mapped.dtype.newbyteorder("="))


def _read_idx(path: Path) -> npt.NDArray[Any]:
    size = path.stat().st_size
    if path.suffix == ".gz":
        with gzip.open(path, "rb") as stream:
            return _parse_idx(cast(BinaryIO, stream), size * _DEFLATE_RATIO_MAX)
    with path.open("rb") as plain:
        return _parse_idx(plain, size)


def _parse_idx(stream: BinaryIO, bytes_max: int) -> npt.NDArray[Any]:
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_TYPES:
        raise ValueError("it does not begin like an idx file")
    dtype = np.dtype(_IDX_TYPES[magic[2]])
    header = stream.read(4 * magic[3])
    shape = tuple(np.frombuffer(header, dtype=">u4").tolist()) if len(header) % 4 == 0 else ()
    if magic[3] == 0 or len(shape) != magic[3]:
        raise ValueError("its header is cut short")
    expected = math.prod(shape) * dtype.itemsize
    if expected > bytes_max:
        raise ValueError(f"its header claims {expected} bytes, more than the file can hold")
    content = stream.read(expected + 1)
    if len(content) != expected:
        raise ValueError(
            f"its header claims {expected} bytes of values, but it holds "
            f"{'more' if len(content) > expected else len(content)}"
        )
    return np.frombuffer(content, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))


def as_images(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return bytes as images [count, channels, height, width] from 0 to 1; others as they are.

    >>> as_images(np.full((2, 4, 4), 255, dtype=np.uint8)).shape
    (2, 1, 4, 4)
    """
    if array.dtype != np.uint8 or array.ndim not in (3, 4):
        return array
    images = array if array.ndim == 4 else array[:, None]
    return images.astype(np.float32) / np.float32(255)
