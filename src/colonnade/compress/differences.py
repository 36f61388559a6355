"""Compressed differences: both ends remember what was last read of a row, and only what has changed
since crosses.

    G ← G + C(h − G)        C is the encoding, h what is sent, G what both ends read in its place

This is EF21 (Richtárik et al., 2021), which EF-VFL takes to embeddings. G is zero for a row that
was never sent. As the training settles, rows change less from one time to the next, so that an
encoding whose error is in proportion to what it writes loses less and less; and what it loses is
part of the next difference. Error feedback (`ef+`) adds what was lost to what is sent later, and
still writes the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from colonnade.compress.base import (
    ANY,
    WRAPPERS,
    Decoder,
    Encoder,
    Encoding,
    Key,
    Occasion,
    Plain,
    admits,
    choose,
    decode,
    remembers,
    without_importance,
)
from colonnade.compress.feedback import ErrorFeedback
from colonnade.compress.rows import Memory, check_rows
from colonnade.errors import RequestError
from colonnade.wire.messages import Packed


@dataclass(frozen=True)
class Differences:
    """An encoding of what has changed since a row was last sent; see `differences`."""

    inner: Encoding

    @property
    def text(self) -> str:
        return f"ef21+{self.inner.text}"

    def encoder(self, key: Key) -> Encoder:
        return _DifferenceEncoder(self.inner.encoder(key), key)

    def decoder(self) -> Decoder:
        return _DifferenceDecoder()

    def admits(self, packed: Packed, round: int, known: bool) -> bool:
        return admits(self.inner, packed, round, known)

    def without_importance(self) -> Encoding:
        return differences(without_importance(self.inner))

    def without_memory(self) -> Encoding:
        return self.inner


def differences(encoding: Encoding) -> Encoding:
    """Send what has changed since the same rows were last sent, in this encoding.

    `plain()` loses nothing and stays itself, and differences of differences are differences.

    >>> from colonnade.compress import decoder, lattice
    >>> coded, tensor = differences(lattice(2)), torch.tensor([[0.0, 0.3, 0.45, 1.0]])
    >>> encoder, reader = coded.encoder(Key(0, "partner", "embedding")), decoder(coded)
    >>> read = [reader.decode(encoder.encode(tensor)) for _ in range(4)]
    >>> [round((each - tensor).abs().max().item(), 2) for each in read]
    [0.11, 0.02, 0.01, 0.0]
    """
    if isinstance(encoding, Plain | Differences):
        return encoding
    parts = [encoding, *(part for _, part in getattr(encoding, "parts", ()))]
    if any(isinstance(part, ErrorFeedback) or remembers(part) for part in parts):
        raise RequestError(
            f"ef21+{encoding.text} has two memories: what was lost is part of the next difference "
            "already, so leave out the one that is within"
        )
    return Differences(encoding)


WRAPPERS["ef21"] = lambda inner, parse: differences(parse(inner))


class _DifferenceDecoder:
    def __init__(self) -> None:
        self.memory = Memory()

    def decode(self, packed: Packed, use: Occasion = ANY) -> torch.Tensor:
        change = decode(packed)
        known = self.memory.get(change, use.rows)
        value = change if known is None else known + change
        self.memory.put(value, use.rows)
        return value

    def state(self) -> Any:
        return self.memory.state()

    def restore(self, state: Any) -> None:
        self.memory.restore(state)


class _DifferenceEncoder:
    def __init__(self, inner: Encoder, key: Key) -> None:
        self._inner = inner
        self._key = key
        self._read = _DifferenceDecoder()
        """The other end, so that both remember the same to the last bit."""
        self._last: torch.Tensor | None = None

    def encode(self, tensor: torch.Tensor, use: Occasion = ANY) -> Packed:
        tensor = tensor.detach().to("cpu")
        check_rows(tensor, use.rows, self._key)
        known = self._read.memory.get(tensor, use.rows)
        # A copy, because what is written may share its memory.
        packed = self._inner.encode(tensor.clone() if known is None else tensor - known, use)
        self._last = self._read.decode(packed, use)
        return packed

    def choose(self, bits: int) -> None:
        choose(self._inner, bits)

    def shown(self) -> torch.Tensor:
        assert self._last is not None, "nothing was written"
        return self._last

    def state(self) -> Any:
        return {"inner": self._inner.state(), "read": self._read.state()}

    def restore(self, state: Any) -> None:
        self._inner.restore(state["inner"])
        self._read.restore(state["read"])
