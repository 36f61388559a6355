"""Uniform scalar quantisation: 2^bits levels, evenly spaced over the tensor's range.

With low and high the edges of the covered range, Δ = (high - low) / (2^bits - 1) and

    without dither   code = round((x - low) / Δ)           read as  low + code·Δ
    with dither      code = floor((x - low) / Δ + v)       read as  low + (code + ½ - v)·Δ

where v is uniform on [0, 1) and known to both ends. Within the range no component is off by more
than Δ/2, and the mean squared error is Δ²/12. Dither makes the error uniform, zero in the mean and
independent of the input, whatever the input; codes stay within 0 … 2^bits - 1 for every x of the
range, so it clips nothing and needs no wider one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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
)
from colonnade.compress.bits import code_type, pack, packed_bytes, unpack
from colonnade.compress.dither import STEPS, Dither, dither_key
from colonnade.compress.scaling import (
    BLOCK,
    Header,
    Quantiser,
    Scale,
    Span,
    check,
    fit,
    read_quantiser,
    restore,
)
from colonnade.wire.messages import Buffer, Packed

BITS_MAX = 16


@dataclass(frozen=True)
class Scalar(Quantiser):
    """Uniform quantisation of every component; see `scalar`."""

    TAGS = ("scalar",)
    BITS_MAX = BITS_MAX

    def write(self, tensor: torch.Tensor, key: Key, use: Occasion) -> Packed:
        bits, top = self.bits, 2**self.bits - 1
        dither = dither_key(key, use.round) if self.dither else None
        values, header = fit(
            tensor, key, self.scale, 1 / (12 * top**2), Header(bits, Span(), dither)
        )
        span, kind = header.span, values.dtype.type
        low, per_step = kind(span.low), kind(top / span.width if span.width else 0)
        codes = np.empty(values.size, code_type(bits))
        source = None if dither is None else Dither(dither)
        scratch = np.empty(min(BLOCK, values.size), kind)
        whole_type = np.int32 if kind is np.float32 else np.int64
        fixed: NDArray[np.signedinteger[Any]] = np.empty(scratch.size, whole_type)
        for start in range(0, values.size, BLOCK):
            piece = values[start : start + BLOCK]
            at, whole = scratch[: piece.size], fixed[: piece.size]
            np.subtract(piece, low, out=at)
            at *= per_step
            np.clip(at, 0, top, out=at)
            if source is None:
                at += kind(0.5)
                np.copyto(codes[start : start + BLOCK], at, casting="unsafe")
                continue
            # Fixed point: a floating sum could round the top level up to one that is not there.
            at *= kind(STEPS)
            np.copyto(whole, at, casting="unsafe")
            whole += source.take(piece.size)
            whole >>= 16
            np.copyto(codes[start : start + BLOCK], whole, casting="unsafe")
        data = Buffer(pack(codes, bits).data)
        return Packed(
            "scalar", DTYPE_NAMES[tensor.dtype], tuple(tensor.shape), data, header.write()
        )


def scalar(bits: int, scale: Scale = "clipped", dither: bool = False) -> Scalar:
    """`bits` bits a component, 1 to 16.

    `scale` is "minmax" (every component within half a step) or "clipped" (the least squared
    error; components far out move to the edge). `dither` makes the error zero in the mean.

    >>> from colonnade.compress.base import decode
    >>> encoder = scalar(2, scale="minmax").encoder(Key(0, "partner", "embedding"))
    >>> decode(encoder.encode(torch.tensor([-1.0, 0.1, 2.0]))).tolist()
    [-1.0, 0.0, 2.0]
    """
    check("scalar", bits, BITS_MAX, scale)
    return Scalar(bits, scale, bool(dither))


def _decode(packed: Packed) -> torch.Tensor:
    header = Header.read(packed, BITS_MAX)
    count = math.prod(packed.shape)
    data = payload(packed, packed_bytes(count, header.bits))
    codes = unpack(data, count, header.bits)
    kind, span = header.work(packed), header.span
    step = span.width / (2**header.bits - 1)
    source = None if header.dither is None else Dither(header.dither)
    values = np.empty(count, kind)
    for start in range(0, count, BLOCK):
        at = values[start : start + BLOCK]
        np.copyto(at, codes[start : start + BLOCK])
        if source is None:
            at *= kind(step)
            at += kind(span.low)
            continue
        at *= kind(STEPS)
        np.subtract(at, source.take(at.size), out=at, dtype=kind)
        at *= kind(step / STEPS)
        at += kind(span.low + step / 2)
    return restore(values, packed, header)


ENCODINGS["scalar"] = lambda rest, parse: scalar(*read_quantiser("scalar", rest))
DECODERS["scalar"] = _decode
