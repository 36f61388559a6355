"""One bit a component: its sign, times the mean size of all components."""

import math
import struct
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from colonnade import WireError, extension
from colonnade.compress import (
    ANY,
    DECODERS,
    DTYPE_NAMES,
    DTYPES,
    Buffer,
    Encoder,
    Encoding,
    Key,
    Occasion,
    Packed,
    Stateless,
    finite_range,
    payload,
)

TAG = "mine.signs"


@dataclass(frozen=True)
class Signs:
    """The encoding as a value: its name in a job, and the factory of its encoders."""

    TAGS: ClassVar[tuple[str, ...]] = (TAG,)
    text = "mine.codecs:signs"

    def encoder(self, key: Key) -> Encoder:
        return SignsEncoder(key)


@dataclass(frozen=True)
class SignsEncoder(Stateless):
    """Writes the mean size into the details, and eight signs into a byte."""

    key: Key

    def encode(self, tensor: torch.Tensor, use: Occasion = ANY) -> Packed:
        finite_range(tensor, self.key)  # Refuses values that are not finite, and says whose.
        own = tensor.detach().cpu().double()
        size = own.abs().mean().item() if own.numel() else 0.0
        bits = np.packbits((own < 0).numpy().reshape(-1))
        name, shape = DTYPE_NAMES[tensor.dtype], tuple(tensor.shape)
        return Packed(TAG, name, shape, Buffer(bits.data), struct.pack("<d", size))


def decode(packed: Packed) -> torch.Tensor:
    """Anybody may have sent this: check everything before allocating memory."""
    dtype, count = DTYPES[packed.dtype], math.prod(packed.shape)
    if len(packed.details) != 8 or not dtype.is_floating_point:
        raise WireError("a tensor of signs has no size, or is of integers")
    size: float = struct.unpack("<d", packed.details)[0]
    if not 0 <= size <= torch.finfo(dtype).max:
        raise WireError(f"a tensor of signs has the component size {size}")
    bits = np.unpackbits(payload(packed, -(-count // 8)), count=count)
    signs: torch.Tensor = 1 - 2 * torch.from_numpy(bits).double()
    return (signs * size).to(dtype).view(packed.shape)


DECODERS[TAG] = decode


@extension("encoding")
def signs() -> Encoding:
    """The function that a job names."""
    return Signs()
