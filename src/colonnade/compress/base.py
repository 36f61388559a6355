"""The shape of a tensor encoding, the neutral one, and the tables in which encodings register.

An encoding turns a tensor into a `Packed` record. The record names its decoder, so a receiver
reads it without any configuration. A file with an encoding adds to `ENCODINGS` (or `WRAPPERS`) how
its text is read, and to `DECODERS` how its tensors are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.errors import PartyError, RequestError, WireError, nearest
from colonnade.wire.codec import ITEM_BYTES
from colonnade.wire.messages import Buffer, Packed

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in ITEM_BYTES}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
DIGITS_MAX = 15


@dataclass(frozen=True)
class Key:
    """Whose tensors these are: what an encoder's randomness is derived from."""

    seed: int
    """The job's seed."""
    sender: str
    role: str
    """`embedding`, `gradient`, `snapshot` or `top`."""
    receiver: str = ""


@dataclass(frozen=True, slots=True)
class Occasion:
    """When a tensor is sent, and what it stands for."""

    round: int = 0
    rows: NDArray[np.int64] | None = None
    """The training rows that its first dimension stands for, where it stands for rows."""
    importance: torch.Tensor | None = None
    """How much each column matters, where that is known."""


ANY = Occasion()
"""Round 0, and nothing known of rows or importance."""


class Encoder(Protocol):
    """One party's encoder of one tensor role; it may have state."""

    def encode(self, tensor: torch.Tensor, use: Occasion = ANY) -> Packed:
        """The tensor as it crosses the wire."""

    def state(self) -> Any:
        """Its state, not copied: copy it before the encoder is used again."""

    def restore(self, state: Any) -> None:
        """Continue from the state of an encoder of the same key; takes over its tensors."""


class Decoder(Protocol):
    """What one receiver reads one sender's tensors of one role with; it may have state, and is then
    given every tensor that the encoder wrote, in that order."""

    def decode(self, packed: Packed, use: Occasion = ANY) -> torch.Tensor:
        """The tensor, as it is to be used."""

    def state(self) -> Any:
        """Its state, not copied: copy it before the decoder is used again."""

    def restore(self, state: Any) -> None:
        """Continue from the state of a decoder of the same sender; takes over its tensors."""


class Stateless:
    """A base for encoders and decoders without state."""

    __slots__ = ()

    def state(self) -> None:
        pass

    def restore(self, state: None) -> None:
        assert state is None


@dataclass(frozen=True)
class _Bound(Stateless):
    encoding: Keyed
    key: Key

    def encode(self, tensor: torch.Tensor, use: Occasion = ANY) -> Packed:
        return self.encoding.write(tensor, self.key, use)


class Keyed(ABC):
    """A base for encodings whose encoders have no state: to write a tensor takes the key alone."""

    def encoder(self, key: Key) -> Encoder:
        return _Bound(self, key)

    @abstractmethod
    def write(self, tensor: torch.Tensor, key: Key, use: Occasion) -> Packed:
        """The tensor as it crosses the wire."""


class Encoding(Protocol):
    """A value that describes an encoding; `encoder` begins one."""

    @property
    def text(self) -> str:
        """How a job writes it: what `parse` makes this very value of."""

    def encoder(self, key: Key) -> Encoder:
        """A fresh encoder."""


@dataclass(frozen=True)
class Plain(Stateless):
    """The tensor's own bytes, bit for bit; without state, so that it is its own encoder."""

    TAGS: ClassVar[tuple[str, ...]] = ("plain",)
    """The decoders that its tensors may name; every encoding that writes them says so."""
    text = "plain"

    def encoder(self, key: Key) -> Plain:
        return self

    def encode(self, tensor: torch.Tensor, use: Occasion = ANY) -> Packed:
        """The tensor's memory, not copied where it is contiguous and on the CPU."""
        own = tensor.detach()
        if own.device.type != "cpu" or not own.is_contiguous():
            own = own.to("cpu").contiguous()
        if own.dtype is torch.bfloat16:  # numpy has no such type
            own = own.view(torch.int16)
        data = own.numpy().reshape(-1).view(np.uint8).data
        return Packed("plain", DTYPE_NAMES[tensor.dtype], tuple(tensor.shape), Buffer(data))


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


def _read(rest: str, parse: Parse) -> Plain:
    options("plain", split(rest), {})
    return plain()


Parse = Callable[[str], Encoding]
ENCODINGS: dict[str, Callable[[str, Parse], Encoding]] = {"plain": _read}
"""By name, how what follows `name:` is read; with `parse` for encodings within it."""
WRAPPERS: dict[str, Callable[[str, Parse], Encoding]] = {}
"""By prefix, how what follows `prefix+` is read."""
DECODERS: dict[str, Callable[[Packed], torch.Tensor]] = {"plain": _decode_plain}
"""By tag, how a tensor is read."""


def decode(packed: Packed) -> torch.Tensor:
    """The tensor of a packed record, whichever encoding wrote it."""
    decoder = DECODERS.get(packed.codec)
    if decoder is None:
        raise WireError(
            f"a tensor in the unknown encoding {packed.codec[:40]!r}: this party reads "
            f"{', '.join(DECODERS)}"
        )
    return decoder(packed)


class _Anybody(Stateless):
    def decode(self, packed: Packed, use: Occasion = ANY) -> torch.Tensor:
        return decode(packed)


ANYBODY: Decoder = _Anybody()
"""Reads what can be read without anything that was sent before."""


def remembers(encoding: Encoding) -> bool:
    """Whether a tensor means nothing without those that were sent before it. An encoding of which
    that is so says by a method `decoder` what reads it; its encoders say by a method `shown` what
    that made of the last one, and `without_memory` is the same for tensors that stand
    alone.

    >>> from colonnade.compress import parse
    >>> remembers(parse("ef21+scalar:2")), remembers(parse("ef+scalar:2"))
    (True, False)
    """
    return hasattr(encoding, "decoder")


def decoder(encoding: Encoding) -> Decoder:
    """What begins to read an encoding's tensors.

    >>> decoder(plain()).decode(plain().encode(torch.ones(2))).tolist()
    [1.0, 1.0]
    """
    own: Callable[[], Decoder] | None = getattr(encoding, "decoder", None)
    return ANYBODY if own is None else own()


def shown(encoder: Encoder, packed: Packed) -> torch.Tensor:
    """What every receiver makes of the record that an encoder wrote last.

    >>> shown(plain(), plain().encode(torch.ones(2))).tolist()
    [1.0, 1.0]
    """
    own: Callable[[], torch.Tensor] | None = getattr(encoder, "shown", None)
    return decode(packed) if own is None else own()


def without_memory(encoding: Encoding) -> Encoding:
    """The encoding for tensors that stand alone: what is written is as long as with a memory.

    >>> from colonnade.compress import parse
    >>> without_memory(parse("ef21+topk:4")).text
    'topk:4'
    """
    own: Callable[[], Encoding] | None = getattr(encoding, "without_memory", None)
    return encoding if own is None else own()


def choose(encoder: Encoder, bits: int) -> None:
    """Let an encoder write so many bits a component from now on, where it has bits to choose.

    >>> from colonnade.compress import by_link
    >>> encoder = by_link(3, 8).encoder(Key(0, "partner", "embedding"))
    >>> choose(encoder, 4)
    >>> len(encoder.encode(torch.rand(80)).data.view)
    40
    """
    own: Callable[[int], None] | None = getattr(encoder, "choose", None)
    if own is not None:
        own(bits)


def admits(encoding: Encoding, packed: Packed, round: int = 0, known: bool = True) -> bool:
    """Whether an encoder could have written a record in a round: a receiver takes nothing else.
    `known` says that the sender knew how much each column matters.

    An encoding whose tags do not tell, because it has options or changes over the rounds, says it
    by a method of this name; of others the `TAGS` are what counts.

    >>> from colonnade.compress import parse
    >>> sent = plain().encode(torch.ones(2, 3))
    >>> admits(plain(), sent), admits(parse("scalar:4"), sent)
    (True, False)
    """
    own: Callable[[Packed, int, bool], bool] | None = getattr(encoding, "admits", None)
    if own is not None:
        return own(packed, round, known)
    tags: tuple[str, ...] = getattr(encoding, "TAGS", ())
    return packed.codec in tags


def without_importance(encoding: Encoding) -> Encoding:
    """The encoding for tensors of which nobody knows how much each column matters: of embeddings
    the gradients of the round before tell it, of gradients and of a top model nothing does. An
    encoding that goes by it says by a method of this name what stands in for it, mostly `plain`.

    >>> from colonnade.compress import parse
    >>> without_importance(parse("steps:0=topk:4:importance,9=half")).text
    'steps:0=plain,9=half'
    """
    own: Callable[[], Encoding] | None = getattr(encoding, "without_importance", None)
    return encoding if own is None else own()


def width_of(shape: tuple[int, ...]) -> int:
    """How many columns a tensor has: the extent of its last dimension.

    >>> width_of((8, 3)), width_of(())
    (3, 1)
    """
    return shape[-1] if shape else 1


def payload(packed: Packed, size: int) -> NDArray[np.uint8]:
    """A record's bytes, once their number is the one that its shape demands.

    >>> payload(plain().encode(torch.ones(2)), 8).size
    8
    """
    found = packed.data.view.nbytes
    if found != size:
        raise WireError(
            f"a {packed.codec} tensor of shape {packed.shape} takes {size} bytes, "
            f"the frame carries {found}: it was cut, or its header is another's"
        )
    return np.frombuffer(packed.data.view, np.uint8) if size else np.empty(0, np.uint8)


def finite_range(tensor: torch.Tensor, key: Key) -> tuple[float, float]:
    """The least and the greatest component; refuses what no lossy encoding can carry.

    >>> finite_range(torch.tensor([1.0, -2.0]), Key(0, "partner", "embedding"))
    (-2.0, 1.0)
    """
    if not tensor.dtype.is_floating_point:
        raise PartyError(
            f"the {key.role} of '{key.sender}' has type {tensor.dtype}, and only floating-point "
            "tensors are compressed: send it plain"
        )
    if not tensor.numel():
        return 0.0, 0.0
    low, high = (float(edge) for edge in torch.aminmax(tensor.detach()))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise PartyError(
            f"the {key.role} of '{key.sender}' has NaN or infinite components, which cannot be "
            "compressed: the training diverged, so lower the learning rate"
        )
    return low, high


@dataclass(frozen=True)
class Compress:
    """Which encoding each tensor role gets; the neutral element sends everything as it is."""

    embedding: Encoding = Plain()
    gradient: Encoding = Plain()
    top: Encoding = Plain()


def split(rest: str) -> list[str]:
    """The words of what follows a name and its colon.

    >>> split("3:minmax"), split("")
    (['3', 'minmax'], [])
    """
    return rest.split(":") if rest else []


def options(name: str, words: list[str], known: Mapping[str, str]) -> set[str]:
    """The options of an encoding, each known and no two of them answers to one question; `known`
    has the question of each.

    >>> options("topk", ["shared"], {"shared": "shared", "magnitude": "by", "importance": "by"})
    {'shared'}
    """
    for word in words:
        if word not in known:
            raise RequestError(f"{name} has no option '{word}': {nearest(word, known)}")
    if len({known[word] for word in words}) != len(words):
        raise RequestError(f"{name}:{':'.join(words)} says one thing twice: leave one word out")
    return set(words)


def whole(example: str, word: str) -> int:
    """The integer of a word; `example` shows where such a number stands.

    >>> whole("scalar:4", "12")
    12
    """
    if not (word.isascii() and word.isdigit() and len(word) <= DIGITS_MAX):
        raise RequestError(
            f"'{word[:40]}' is not a whole number of up to {DIGITS_MAX} digits: write for example "
            f"{example}"
        )
    return int(word)
