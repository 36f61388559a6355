"""An encoding as somebody else would write it: nothing in the package knows of this file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

import colonnade as cn
from colonnade.compress import DECODERS, Encoder, Encoding, Key, Occasion, decode, plain
from colonnade.compress.base import ANY, DTYPES, Stateless, finite_range, payload
from colonnade.errors import RequestError, WireError
from colonnade.wire.codec import ITEM_BYTES
from colonnade.wire.messages import Buffer, Packed

BY_MAX = 100


@dataclass(frozen=True)
class Rotated:
    """The bytes of a tensor, moved on in a circle."""

    TAGS: ClassVar[tuple[str, ...]] = ("tests.rotated",)
    by: int

    @property
    def text(self) -> str:
        return f"tests.outside:rotated:{self.by}"

    def encoder(self, key: Key) -> Encoder:
        return _Encoder(self.by, key)


@cn.extension("encoding")
def rotated(by: int = 1) -> Encoding:
    if not 0 <= by <= BY_MAX:
        raise RequestError(f"rotated cannot move by {by}: give 0 to {BY_MAX}")
    return Rotated(by) if by else plain()


@dataclass(frozen=True)
class _Encoder(Stateless):
    by: int
    key: Key

    def encode(self, tensor: torch.Tensor, use: Occasion = ANY) -> Packed:
        finite_range(tensor, self.key)
        own = plain().encode(tensor)
        data = bytes(own.data.view)
        by = self.by % max(1, len(data))
        turned = Buffer(memoryview(data[by:] + data[:by]))
        return Packed("tests.rotated", own.dtype, own.shape, turned, bytes([self.by]))


def _decode(packed: Packed) -> torch.Tensor:
    if len(packed.details) != 1 or not 1 <= packed.details[0] <= BY_MAX:
        raise WireError("a rotated tensor does not say by how much")
    if not DTYPES[packed.dtype].is_floating_point:
        raise WireError(f"a rotated tensor of type {packed.dtype}")
    data = bytes(payload(packed, math.prod(packed.shape) * ITEM_BYTES[packed.dtype]))
    by = -packed.details[0] % max(1, len(data))
    turned = Buffer(memoryview(bytearray(data[by:] + data[:by])))
    return decode(Packed("plain", packed.dtype, packed.shape, turned))


DECODERS["tests.rotated"] = _decode


@cn.extension("encoding")
def unread() -> Rotated:
    """Writes what nobody can read."""

    class Unread(Rotated):
        TAGS: ClassVar[tuple[str, ...]] = ("tests.unread",)

    return Unread(1)


@cn.extension("encoding")
def nothing() -> None:
    """Is no encoding."""


@cn.extension("encoding")
def untold() -> object:
    """Does not say what it writes."""

    @dataclass(frozen=True)
    class Untold:
        text: ClassVar[str] = "tests.outside:untold"

        def encoder(self, key: Key) -> Encoder:
            return _Encoder(1, key)

    return Untold()
