"""Error feedback: what an encoding lost is added to what it encodes next.

The residual of a row belongs to that row, so where a tensor's first dimension stands for training
rows it is kept by row number: a table of rows x width components, grown as rows appear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from colonnade.compress.base import (
    ANY,
    WRAPPERS,
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
from colonnade.compress.rows import Memory, check_rows
from colonnade.errors import RequestError
from colonnade.wire.messages import Packed


@dataclass(frozen=True)
class ErrorFeedback:
    """An encoding whose error is added to the next tensor; see `error_feedback`."""

    inner: Encoding

    @property
    def text(self) -> str:
        return f"ef+{self.inner.text}"

    def encoder(self, key: Key) -> Encoder:
        return _FeedbackEncoder(self.inner.encoder(key), key)

    def admits(self, packed: Packed, round: int, known: bool) -> bool:
        return admits(self.inner, packed, round, known)

    def without_importance(self) -> Encoding:
        return error_feedback(without_importance(self.inner))


def error_feedback(encoding: Encoding) -> Encoding:
    """Add to each tensor what the encoding lost of the same rows before.

    `plain()` loses nothing and stays itself, and feedback on feedback is feedback.

    >>> from colonnade.compress import scalar
    >>> encoder = error_feedback(scalar(1)).encoder(Key(0, "partner", "gradient"))
    >>> sent = [decode(encoder.encode(torch.tensor([0.0, 0.4, 1.0]))) for _ in range(8)]
    >>> torch.stack(sent).double().mean(0).round(decimals=1).tolist()
    [0.0, 0.4, 1.0]
    """
    if isinstance(encoding, Plain | ErrorFeedback):
        return encoding
    if remembers(encoding):
        raise RequestError(
            f"ef+{encoding.text} has two memories: a difference has all that was lost in it "
            "already, so leave out ef+"
        )
    return ErrorFeedback(encoding)


WRAPPERS["ef"] = lambda inner, parse: error_feedback(parse(inner))


class _FeedbackEncoder:
    def __init__(self, inner: Encoder, key: Key) -> None:
        self._inner = inner
        self._key = key
        self._residuals = Memory()

    def encode(self, tensor: torch.Tensor, use: Occasion = ANY) -> Packed:
        tensor = tensor.detach().to("cpu")
        check_rows(tensor, use.rows, self._key)
        residual = self._residuals.get(tensor, use.rows)
        wanted = tensor if residual is None else tensor + residual
        packed = self._inner.encode(wanted, use)
        self._residuals.put(wanted - decode(packed), use.rows)
        return packed

    def choose(self, bits: int) -> None:
        choose(self._inner, bits)

    def state(self) -> dict[str, Any]:
        return {"inner": self._inner.state(), **self._residuals.state()}

    def restore(self, state: Any) -> None:
        self._inner.restore(state["inner"])
        self._residuals.restore(state)
