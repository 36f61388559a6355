"""Two bytes a component: the tensor rounded to float16 or bfloat16."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch

from colonnade.compress.base import (
    DECODERS,
    DTYPE_NAMES,
    DTYPES,
    ENCODINGS,
    Key,
    Keyed,
    Occasion,
    Parse,
    finite_range,
    options,
    payload,
    plain,
    split,
)
from colonnade.errors import PartyError, RequestError, WireError, nearest
from colonnade.wire.codec import ITEM_BYTES
from colonnade.wire.messages import Buffer, Packed

HalfKind = Literal["float16", "bfloat16"]


@dataclass(frozen=True)
class Half(Keyed):
    """Rounding to a type of two bytes; see `half`."""

    TAGS: ClassVar[tuple[str, ...]] = ("half", "plain")
    kind: HalfKind = "float16"

    @property
    def text(self) -> str:
        return "half" if self.kind == "float16" else f"half:{self.kind}"

    def admits(self, packed: Packed, round: int, known: bool) -> bool:
        if ITEM_BYTES[packed.dtype] == 2:
            return packed.codec == "plain"
        return (packed.codec, packed.details) == ("half", self.kind.encode())

    def write(self, tensor: torch.Tensor, key: Key, use: Occasion) -> Packed:
        peak = max(finite_range(tensor, key), key=abs)
        if tensor.element_size() == 2:
            return plain().encode(tensor)
        kind = DTYPES[self.kind]
        if not math.isfinite(torch.tensor(peak, dtype=torch.float64).to(kind).item()):
            raise PartyError(
                f"the {key.role} of '{key.sender}' has a component of {peak:.3g}, over "
                f'what {self.kind} can hold: use half("bfloat16"), scalar or plain'
            )
        short = plain().encode(tensor.detach().to(kind))
        details = self.kind.encode()
        return Packed("half", DTYPE_NAMES[tensor.dtype], short.shape, short.data, details)


def half(kind: HalfKind = "float16") -> Half:
    """16 bits a component: "float16" (11 bits of precision) or "bfloat16" (8, and any size).

    A tensor whose components have two bytes already is sent as it is.

    >>> from colonnade.compress.base import decode
    >>> decode(half().encoder(Key(0, "partner", "embedding")).encode(torch.tensor([0.1]))).tolist()
    [0.0999755859375]
    """
    if kind not in get_args(HalfKind):
        raise RequestError(f"half cannot be '{kind}': {nearest(kind, get_args(HalfKind))}")
    return Half(kind)


def _decode(packed: Packed) -> torch.Tensor:
    kind = packed.details.decode("ascii", errors="replace")
    if kind not in get_args(HalfKind):
        raise WireError(f"a half tensor of type '{kind}': {nearest(kind, get_args(HalfKind))}")
    if not DTYPES[packed.dtype].is_floating_point:
        raise WireError(f"a half tensor of type {packed.dtype}: only fractions are rounded")
    data = payload(packed, 2 * math.prod(packed.shape))
    short = Packed("plain", kind, packed.shape, Buffer(data.data))
    return DECODERS["plain"](short).to(DTYPES[packed.dtype])


def _read(rest: str, parse: Parse) -> Half:
    known = dict.fromkeys(get_args(HalfKind), "kind")
    return half("bfloat16" if "bfloat16" in options("half", split(rest), known) else "float16")


ENCODINGS["half"] = _read
DECODERS["half"] = _decode
