"""Hexagonal lattice quantisation: pairs of components to the nearest point of a finite lattice.

Points lie in rows, `a` apart within a row and r = a·√3/2 from row to row; odd rows are shifted by
a/2. The codebook is `rows` x `columns` of them, at most 2^(2·bits), and covers the square of the
tensor's range: the nearest lattice point of everything in the square is in the codebook. (A row's
cells have straight sides, half a cell of shift is lost: (columns - ½)·a. The border between rows
is a zigzag that reaches r/3 from a row: (rows - ⅓)·r.) No pair is off by more than the cell's
circumradius a/√3, and the mean squared error a component is 0.0802·V, V = a·r the cell's area.

Dither is uniform on a rectangle of a by r, which tiles the plane as the cell does and so leaves an
error uniform on the cell; the square must then be smaller by that rectangle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.compress.base import (
    DECODERS,
    DTYPE_NAMES,
    ENCODINGS,
    Key,
    Occasion,
    payload,
    width_of,
)
from colonnade.compress.bits import code_type, pack, packed_bytes, unpack
from colonnade.compress.dither import STEPS, Dither, dither_key
from colonnade.compress.scaling import (
    BLOCK,
    Header,
    Quantiser,
    Scale,
    Span,
    Values,
    check,
    fit,
    read_quantiser,
    restore,
)
from colonnade.errors import WireError
from colonnade.wire.messages import Buffer, Packed

BITS_MAX = 8
MOMENT = 5 / (36 * math.sqrt(3))
"""The mean squared error a component of a regular hexagon of area one: 0.0802."""

_RISE = math.sqrt(0.75)
_SAFE = 1 - 1e-5
"""Keeps the square's edge off the codebook's, where rounding would decide what is nearest."""


@dataclass(frozen=True)
class Lattice(Quantiser):
    """Hexagonal quantisation of pairs; see `lattice`."""

    TAGS = ("lattice",)
    BITS_MAX = BITS_MAX

    def write(self, tensor: torch.Tensor, key: Key, use: Occasion) -> Packed:
        bits, dithered = self.bits, self.dither
        book = geometry(bits, dithered)
        dither = dither_key(key, use.round) if dithered else None
        noise = MOMENT * cell_area(bits, dithered, 1.0)
        values, header = fit(tensor, key, self.scale, noise, Header(bits, Span(), dither))
        width = width_of(tuple(tensor.shape))
        if width % 2 and values.size:
            table = values.reshape(-1, width)
            values = np.concatenate((table, table[:, -1:]), axis=1).reshape(-1)
        codes = np.empty(values.size // 2, code_type(2 * bits))
        source = None if dither is None else Dither(dither)
        for start in range(0, values.size, BLOCK):
            x, y = _place(values[start : start + BLOCK], header.span, book)
            if source is not None:
                shift = source.take(2 * x.size).astype(x.dtype)
                shift *= x.dtype.type(1 / STEPS)
                x += shift[::2]
                y += shift[1::2]
            found = nearest_index(x, y, book.columns)
            np.copyto(codes[start // 2 : start // 2 + x.size], found, casting="unsafe")
        data = Buffer(pack(codes, 2 * bits).data)
        return Packed(
            "lattice", DTYPE_NAMES[tensor.dtype], tuple(tensor.shape), data, header.write()
        )


def lattice(bits: int, scale: Scale = "clipped", dither: bool = False) -> Lattice:
    """2·`bits` bits a pair of neighbours in the last dimension, bits 1 to 8.

    The last component of an odd width is paired with itself. `scale` and `dither` are those of
    `scalar`; with dither the codebook must cover more, which costs up to 1.4 times scalar's error.

    >>> from colonnade.compress.base import decode
    >>> encoder = lattice(4, scale="minmax").encoder(Key(0, "partner", "embedding"))
    >>> decode(encoder.encode(torch.tensor([0.0, 0.5, 1.0]))).double().round(decimals=2).tolist()
    [-0.0, 0.5, 0.97]
    """
    check("lattice", bits, BITS_MAX, scale)
    return Lattice(bits, scale, bool(dither))


@dataclass(frozen=True)
class Geometry:
    """A codebook for a square; lengths in units of `a` across and of r upward."""

    rows: int
    columns: int
    across: float
    """The square's side, in units of a."""
    right: float
    """Where the square's lower left corner lies, from the first point of the first row."""
    up: float


@lru_cache
def geometry(bits: int, dither: bool) -> Geometry:
    """The codebook with the smallest cells for a given square.

    >>> found = geometry(4, dither=False)
    >>> found.rows, found.columns, round(found.across, 2)
    (17, 15, 14.43)
    """
    points: int = 4**bits
    wider = float(dither)

    def fitting(rows: int) -> float:
        return min(points // rows - 0.5 - wider, (rows - 1 / 3 - wider) * _RISE)

    rows = max(range(1, 2 ** (bits + 1)), key=fitting)
    columns, across = points // rows, fitting(rows) * _SAFE
    right = (columns - 0.5 - wider - across) / 2
    up = (rows - 1 / 3 - wider - across / _RISE) / 2 - 1 / 3
    return Geometry(rows, columns, across, right, up)


def cell_area(bits: int, dither: bool, width: float) -> float:
    """V, the area of a cell, where the codebook covers a square of side `width`.

    >>> round(cell_area(4, False, 1.0), 5)
    0.00416
    """
    return _RISE * (width / geometry(bits, dither).across) ** 2


def nearest_index(x: Values, y: Values, columns: int) -> NDArray[np.int32]:
    """The number of the nearest point: x in units of a, y of r, both from the first point.

    Let f be the height over the row below and d the distance, along that row, to its nearest
    point. The row above is shifted by half, so its nearest point is ½ - d away along it, and it
    is nearer in the plane just where 3f/2 + d > 1.

    >>> nearest_index(np.array([1.1, 0.4]), np.array([0.1, 0.9]), 4).tolist()
    [1, 4]
    """
    kind = x.dtype.type
    raised = y + kind(2)  # two rows: an even number, so that cutting off the fraction is floor
    row: NDArray[np.int32] = raised.astype(np.int32)
    np.subtract(raised, row, out=raised, dtype=kind)
    half = (row & 1).astype(kind)
    half *= kind(0.5)
    along = x - half
    near = np.rint(along)
    np.subtract(along, near, out=near)
    np.abs(near, out=near)
    raised *= kind(1.5)
    near += raised
    row += near > kind(1)
    np.copyto(half, row & 1, casting="unsafe")
    half *= kind(0.5)
    np.subtract(x, half, out=along)
    np.rint(along, out=along)
    row -= 2
    row *= columns
    row += along.astype(np.int32)
    return row


def _place(piece: Values, span: Span, book: Geometry) -> tuple[Values, Values]:
    """A block's pairs in the units of the codebook."""
    kind = piece.dtype.type
    per_unit = book.across / span.width if span.width else 0.0
    at = piece - kind(span.low)
    np.clip(at, 0, kind(span.width), out=at)
    x = at[::2] * kind(per_unit)
    y = at[1::2] * kind(per_unit / _RISE)
    x += kind(book.right)
    y += kind(book.up)
    return x, y


def _points(book: Geometry, span: Span, kind: type[np.floating[Any]]) -> Values:
    """The codebook's points, each pair as one complex number so that one gather fetches it."""
    unit = span.width / book.across
    row, column = np.divmod(np.arange(book.rows * book.columns), book.columns)
    pairs = np.empty((row.size, 2), kind)
    pairs[:, 0] = span.low + unit * (column + 0.5 * (row % 2) - book.right)
    pairs[:, 1] = span.low + unit * _RISE * (row - book.up)
    return pairs.view(np.complex64 if kind is np.float32 else np.complex128)[:, 0]


def _decode(packed: Packed) -> torch.Tensor:
    header = Header.read(packed, BITS_MAX)
    book = geometry(header.bits, header.dither is not None)
    width = width_of(packed.shape)
    padded = width + width % 2
    lines = math.prod(packed.shape[:-1]) if width else 0
    count = lines * padded // 2
    data = payload(packed, packed_bytes(count, 2 * header.bits))
    codes = unpack(data, count, 2 * header.bits)
    if count and int(codes.max()) >= book.rows * book.columns:
        raise WireError("a lattice tensor names a point that its codebook does not have")
    kind, span = header.work(packed), header.span
    points = _points(book, span, kind)
    source = None if header.dither is None else Dither(header.dither)
    step = np.array([1.0, _RISE]) * (span.width / book.across / STEPS)
    steps = np.tile(step.astype(kind), min(BLOCK, 2 * count) // 2)
    pairs = np.empty(count, points.dtype)
    values = pairs.view(kind)
    for start in range(0, 2 * count, BLOCK):
        part = slice(start // 2, (start + BLOCK) // 2)
        np.take(points, codes[part], out=pairs[part], mode="clip")
        if source is not None:
            at = values[start : start + BLOCK]
            shift = source.take(at.size).astype(kind)
            shift *= steps[: at.size]
            at -= shift
    if padded != width:
        values = values.reshape(lines, padded)[:, :width].reshape(-1)
    return restore(values, packed, header)


ENCODINGS["lattice"] = lambda rest, parse: lattice(*read_quantiser("lattice", rest))
DECODERS["lattice"] = _decode
