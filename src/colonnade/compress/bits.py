"""Integers of any width, packed without gaps.

Codes of `bits` bits, bits < 8, are cut into eight runs of equal length. The i-th codes of the
eight runs fill `bits` bytes, and the first of these bytes stand together, then the second ones,
and so on. Neighbouring bytes therefore come from neighbouring codes, eight of them go through one
64-bit operation, and no width needs a loop over values. Wider codes are sent as whole bytes (all
the lowest, then the next) and the remaining bits in this way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
BITS_MAX = 32

_LANES = 8
_EVERY_BYTE = 0x0101_0101_0101_0101


def packed_bytes(count: int, bits: int) -> int:
    """How many bytes `count` codes take.

    >>> packed_bytes(16, 3), packed_bytes(1, 3), packed_bytes(4, 12)
    (6, 3, 8)
    """
    whole, rest = divmod(bits, 8)
    return whole * count + rest * -(-count // _LANES)


def code_type(bits: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest type that holds a code.

    >>> code_type(9).__name__
    'uint16'
    """
    assert 1 <= bits <= BITS_MAX
    return np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32


def pack(codes: NDArray[Any], bits: int) -> Bytes:
    """The bytes of one-dimensional `codes`, each below 2^bits and of `code_type(bits)`.

    >>> pack(np.array([1, 2, 3], np.uint8), 2).tolist()
    [57, 0]
    """
    if bits == 8:
        return codes
    if bits < 8:
        return _pack_short(codes, bits)
    rest = (codes >> 8).astype(code_type(bits - 8))
    return np.concatenate((codes.astype(np.uint8), pack(rest, bits - 8)))


def unpack(data: Bytes, count: int, bits: int) -> NDArray[Any]:
    """The codes of bytes whose number is `packed_bytes(count, bits)`.

    >>> unpack(np.array([57, 0], np.uint8), 3, 2).tolist()
    [1, 2, 3]
    """
    assert data.size == packed_bytes(count, bits)
    if bits == 8:
        return data
    if bits < 8:
        return _unpack_short(data, count, bits)
    kind = code_type(bits)
    codes = unpack(data[count:], count, bits - 8).astype(kind)
    codes <<= kind(8)
    codes |= data[:count]
    return codes


def _mask(bits: int) -> np.uint64:
    """The lowest `bits` bits of each of eight bytes."""
    return np.uint64(_EVERY_BYTE * ((1 << bits) - 1))


def _places(bits: int) -> list[tuple[int, int, int]]:
    """For each lane: its first byte, its shift there, and how many bits spill into the next."""
    return [
        (lane * bits // 8, lane * bits % 8, max(0, lane * bits % 8 + bits - 8))
        for lane in range(_LANES)
    ]


def _pack_short(codes: Bytes, bits: int) -> Bytes:
    length = -(-codes.size // _LANES)
    padded = -(-length // 8) * 8
    if codes.size == _LANES * padded and codes.flags.c_contiguous:
        lanes = codes.view(np.uint64).reshape(_LANES, -1)
    else:
        bytewise = np.zeros((_LANES, padded), np.uint8)
        for lane in range(_LANES):
            part = codes[lane * length : (lane + 1) * length]
            bytewise[lane, : part.size] = part
        lanes = bytewise.view(np.uint64)
    planes = np.zeros((bits, padded // 8), np.uint64)
    for word, (plane, shift, spill) in zip(lanes, _places(bits), strict=True):
        # Bits that a shift would push over a byte's end are cleared first: bytes share words.
        planes[plane] |= (word & _mask(bits - spill)) << np.uint64(shift)
        if spill:
            planes[plane + 1] |= (word >> np.uint64(bits - spill)) & _mask(spill)
    return np.ascontiguousarray(planes.view(np.uint8)[:, :length]).reshape(-1)


def _unpack_short(data: Bytes, count: int, bits: int) -> Bytes:
    length = -(-count // _LANES)
    padded = -(-length // 8) * 8
    bytewise = np.zeros((bits, padded), np.uint8)
    bytewise[:, :length] = data.reshape(bits, length)
    planes = bytewise.view(np.uint64)
    lanes = np.empty((_LANES, padded // 8), np.uint64)
    for word, (plane, shift, spill) in zip(lanes, _places(bits), strict=True):
        np.right_shift(planes[plane], np.uint64(shift), out=word)
        word &= _mask(bits - spill)
        if spill:
            word |= (planes[plane + 1] & _mask(spill)) << np.uint64(bits - spill)
    return lanes.view(np.uint8)[:, :length].reshape(-1)[:count]
