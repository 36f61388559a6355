"""The shape of a tensor encoding, the neutral one, and the table of decoders.

An encoding turns a tensor into a `Packed` record. The record names its decoder, so a receiver
reads it without any configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from colonnade.errors import WireError
from colonnade.wire.codec import ITEM_BYTES
from colonnade.wire.messages import Buffer, Packed

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in ITEM_BYTES}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Encoding(Protocol):
    """Writes a tensor; `decode` reads it."""

    def encode(self, tensor: torch.Tensor) -> Packed:
        """The tensor as it crosses the wire."""
        ...


@dataclass(frozen=True)
class Plain:
    """The tensor's own bytes, bit for bit."""

    def encode(self, tensor: torch.Tensor) -> Packed:
        """The tensor's memory, without a copy where it lies on the CPU in one piece."""
        flat = tensor.detach().to("cpu").contiguous()
        data = flat.view(-1).view(torch.uint8).numpy()
        return Packed("plain", DTYPE_NAMES[tensor.dtype], tuple(tensor.shape), Buffer(data.data))


def plain() -> Plain:
    """The neutral encoding.

    >>> decode(plain().encode(torch.ones(2))).tolist()
    [1.0, 1.0]
    """
    return Plain()


def _decode_plain(packed: Packed) -> torch.Tensor:
    if 0 in packed.shape:
        return torch.empty(packed.shape, dtype=DTYPES[packed.dtype])
    return torch.frombuffer(packed.data.view, dtype=DTYPES[packed.dtype]).view(packed.shape)


DECODERS: dict[str, Callable[[Packed], torch.Tensor]] = {"plain": _decode_plain}


def decode(packed: Packed) -> torch.Tensor:
    """The tensor of a packed record, whichever encoding wrote it."""
    decoder = DECODERS.get(packed.codec)
    if decoder is None:
        raise WireError(
            f"a tensor in the unknown encoding '{packed.codec}': this party reads "
            f"{', '.join(DECODERS)}"
        )
    return decoder(packed)


@dataclass(frozen=True)
class Compress:
    """Which encoding each tensor role gets; the neutral element sends everything as it is."""

    embedding: Encoding = Plain()
    gradient: Encoding = Plain()
