"""What the quantisers share: the range that their levels cover, and the header that names it.

`minmax` covers every component. `clipped` covers the range with the least expected error: a wide
range means coarse levels for all, a narrow one means that the few components outside are moved to
its edge. The balance is struck on a sample, separately for both sides, so one-sided data (after a
ReLU) and data with outliers are served as well as normal ones.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.compress.base import DTYPES, Key, Keyed, finite_range, options, split, whole
from colonnade.errors import RequestError, WireError, nearest
from colonnade.wire.messages import Packed

Scale = Literal["minmax", "clipped"]
Values = NDArray[Any]
"""A one-dimensional array of float32 or float64."""

BLOCK = 32_768
"""How many components go through a loop's operations at once, so that scratch stays in cache."""
WIDE_BITS = 9
"""From here on float32 does not tell the levels apart well enough, and float64 does the work."""

_SAMPLE = 16_384
_TAILS = 2.0 ** -np.arange(2.0, 13.25, 0.5)
_BEYOND = 2.0 ** -np.arange(0.0, 6.0)
_ORDINARY = 2.0**60
_HEADER = struct.Struct("<BBhdd")
_KEY = struct.Struct("<Q")


@dataclass(frozen=True)
class Quantiser(Keyed):
    """What the quantisers have in common."""

    TAGS: ClassVar[tuple[str, ...]]
    """One tag, which is also the quantiser's name."""
    BITS_MAX: ClassVar[int]
    bits: int
    scale: Scale = "clipped"
    dither: bool = False

    @property
    def text(self) -> str:
        scale = [self.scale] if self.scale != "clipped" else []
        return ":".join([*self.TAGS, str(self.bits), *scale, *["dither"] * self.dither])

    def admits(self, packed: Packed, round: int, known: bool) -> bool:
        """Of so many bits, with dither or without. Where the range ends is the sender's choice."""
        if packed.codec not in self.TAGS:
            return False
        header = Header.read(packed, self.BITS_MAX)
        return (header.bits, header.dither is not None) == (self.bits, self.dither)


@dataclass(frozen=True)
class Span:
    """The covered range from `low` to `low + width`, both to be multiplied by 2^exponent."""

    low: float = 0.0
    width: float = 0.0
    exponent: int = 0


@dataclass(frozen=True)
class Header:
    """What a decoder must know beside dtype and shape."""

    bits: int
    span: Span
    dither: int | None
    """The key of the dither, where there is one."""

    def write(self) -> bytes:
        """The header as the `details` of a packed tensor."""
        span = self.span
        fixed = _HEADER.pack(
            self.bits, self.dither is not None, span.exponent, span.low, span.width
        )
        return fixed if self.dither is None else fixed + _KEY.pack(self.dither)

    @staticmethod
    def read(packed: Packed, bits_max: int) -> Header:
        """The header of a packed tensor, with every number judged before it is used."""
        details, name = packed.details, packed.codec
        if len(details) not in (_HEADER.size, _HEADER.size + _KEY.size):
            raise WireError(f"a {name} tensor with {len(details)} bytes of details: it was cut")
        bits, dithered, exponent, low, width = _HEADER.unpack_from(details)
        if len(details) != _HEADER.size + _KEY.size * dithered:
            raise WireError(f"a {name} tensor whose details do not say whether it is dithered")
        if not 1 <= bits <= bits_max:
            raise WireError(f"a {name} tensor of {bits} bits: allowed are 1 to {bits_max}")
        sound = abs(low) <= 2 * _ORDINARY and 0 <= width <= 4 * _ORDINARY
        if not sound or abs(exponent) > 1100:
            raise WireError(f"a {name} tensor from {low} to {low} + {width}: no range of ours")
        if not DTYPES[packed.dtype].is_floating_point:
            raise WireError(f"a {name} tensor of type {packed.dtype}: only fractions are quantised")
        key = _KEY.unpack_from(details, _HEADER.size)[0] if dithered else None
        return Header(bits, Span(low, width, exponent), key)

    def work(self, packed: Packed) -> type[np.floating[Any]]:
        """The type that both ends calculate in."""
        narrow = self.bits < WIDE_BITS and not self.span.exponent and packed.dtype != "float64"
        return np.float32 if narrow else np.float64


def check(name: str, bits: int, bits_max: int, scale: str) -> None:
    """Refuse what no quantiser can be.

    >>> check("scalar", 3, 16, "minmax")
    """
    if type(bits) is not int or not 1 <= bits <= bits_max:
        raise RequestError(f"{name} cannot have {bits} bits: choose a whole number 1 to {bits_max}")
    if scale not in get_args(Scale):
        raise RequestError(f"no scale is called '{scale}': {nearest(scale, get_args(Scale))}")


def read_quantiser(name: str, rest: str) -> tuple[int, Scale, bool]:
    """Bits, scale and dither, from what follows a quantiser's name in a text.

    >>> read_quantiser("scalar", "3:dither")
    (3, 'clipped', True)
    """
    bits, *words = split(rest) or [""]
    number = whole(f"{name}:4", bits)
    found = options(name, words, {"minmax": "scale", "clipped": "scale", "dither": "dither"})
    return number, "minmax" if "minmax" in found else "clipped", "dither" in found


def fit(
    tensor: torch.Tensor, key: Key, scale: Scale, noise: float, header: Header
) -> tuple[Values, Header]:
    """The tensor's components in the type to calculate in, and the header with their range.

    `noise` is the mean squared error for a range of width one; `header` has bits and dither.

    >>> fit(torch.tensor([1.0, 3.0]), Key(0, "a", "top"), "minmax", 0, Header(2, Span(), None))[1]
    Header(bits=2, span=Span(low=1.0, width=2.0, exponent=0), dither=None)
    """
    low, high = finite_range(tensor, key)
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    values = tensor.detach().to("cpu").contiguous().view(-1).numpy()
    peak = max(-low, high)
    # Far from one the differences and quotients below would overflow or vanish.
    exponent = 0 if not peak or 1 / _ORDINARY < peak < _ORDINARY else math.frexp(peak)[1]
    if exponent:
        values = np.ldexp(values.astype(np.float64), -exponent)
        low, high = math.ldexp(low, -exponent), math.ldexp(high, -exponent)
    elif header.bits >= WIDE_BITS:
        values = values.astype(np.float64, copy=False)
    if scale == "clipped" and low < high:
        low, high = _clipped(values, low, high, noise, header.dither is not None)
    return values, Header(header.bits, Span(low, high - low, exponent), header.dither)


def restore(values: Values, packed: Packed, header: Header) -> torch.Tensor:
    """The tensor of decoded components, in its own type and size again."""
    if header.span.exponent:
        with np.errstate(over="ignore"):
            values = np.ldexp(values, header.span.exponent)
    tensor, dtype = torch.from_numpy(values), DTYPES[packed.dtype]
    if header.span.exponent or dtype != tensor.dtype:
        # Dither may carry the largest number of a type half a step over its edge.
        most = torch.finfo(dtype).max
        tensor = tensor.clamp_(-most, most).to(dtype)
    return tensor.view(packed.shape)


@lru_cache(maxsize=64)
def _places(size: int) -> NDArray[np.int64]:
    """Where a sample is taken: a stride would meet the same columns again and again."""
    return np.unique(np.arange(_SAMPLE, dtype=np.int64) * 2_654_435_761 % size)


def _clipped(
    values: Values, low: float, high: float, noise: float, dithered: bool
) -> tuple[float, float]:
    """The edges with the least expected squared error: noise within, distance outside."""
    sample = values if values.size <= _SAMPLE else values[_places(values.size)]
    ordered = np.sort(sample).astype(np.float64)
    lows, below, cut_low = _tail(ordered, low, values.size)
    highs, above, cut_high = _tail(-ordered[::-1], -high, values.size)
    width = -highs[None, :] - lows[:, None]
    # Without dither a component beyond the edge meets the distance to it and no other error.
    covered = 1.0 if dithered else 1 - cut_low[:, None] - cut_high[None, :]
    error = noise * width**2 * covered + below[:, None] + above[None, :]
    error[width <= 0] = np.inf
    first, second = np.unravel_index(np.argmin(error), error.shape)
    kind = values.dtype.type
    return float(kind(lows[first])), float(kind(-highs[second]))


def _tail(ordered: Values, edge: float, count: int) -> tuple[Values, Values, Values]:
    """Candidates for a lower edge, the mean squared distance below each, and the share there."""
    ranks = (_TAILS * ordered.size).astype(np.int64)
    inner = ordered[ranks]
    outer = inner[-1] + (edge - inner[-1]) * _BEYOND
    edges = np.concatenate((outer, inner))
    # The k components below an edge e, seen from the innermost one: Σ(e - x)² = k·e² - 2e·Σx + Σx².
    origin, below = inner[0], np.searchsorted(ordered, edges)
    from_origin = np.concatenate(([0.0], ordered[: ranks[0]] - origin))
    first, second = np.cumsum(from_origin)[below], np.cumsum(from_origin**2)[below]
    at = edges - origin
    distance = np.maximum(below * at**2 - 2 * at * first + second, 0) / ordered.size
    # The sample rarely holds the outermost component, whose distance may outweigh the others'.
    return edges, distance + (edges - edge) ** 2 / count, below / ordered.size
