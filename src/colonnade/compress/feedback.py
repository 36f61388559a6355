"""Error feedback: what an encoding lost is added to what it encodes next.

The residual of a row belongs to that row, so where a tensor's first dimension stands for training
rows it is kept by row number: a table of rows x width components, grown as rows appear. Other
tensors (a top model's weights) keep one residual for each shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.compress.base import (
    ANY,
    WRAPPERS,
    Encoder,
    Encoding,
    Key,
    Occasion,
    Plain,
    admits,
    decode,
    without_importance,
)
from colonnade.errors import PartyError
from colonnade.wire.messages import Packed

Shape = tuple[int, ...]


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
    return ErrorFeedback(encoding)


WRAPPERS["ef"] = lambda inner, parse: error_feedback(parse(inner))


class _FeedbackEncoder:
    def __init__(self, inner: Encoder, key: Key) -> None:
        self._inner = inner
        self._key = key
        self._by_shape: dict[Shape, torch.Tensor] = {}
        self._by_row: dict[Shape, torch.Tensor] = {}

    def encode(self, tensor: torch.Tensor, use: Occasion = ANY) -> Packed:
        tensor = tensor.detach().to("cpu")
        shape = tuple(tensor.shape)
        if use.rows is None:
            residual = self._by_shape.get(shape)
            wanted = tensor if residual is None else tensor + residual
            packed = self._inner.encode(wanted, use)
            self._by_shape[shape] = wanted - decode(packed)
            return packed
        table = self._table(tensor, use.rows)
        places = torch.from_numpy(np.asarray(use.rows, np.int64))
        wanted = tensor + table[places]
        packed = self._inner.encode(wanted, use)
        table[places] = wanted - decode(packed)
        return packed

    def state(self) -> dict[str, Any]:
        return {
            "inner": self._inner.state(),
            "by_shape": list(self._by_shape.items()),
            "by_row": list(self._by_row.items()),
        }

    def restore(self, state: Any) -> None:
        self._inner.restore(state["inner"])
        self._by_shape = dict(state["by_shape"])
        self._by_row = dict(state["by_row"])

    def _table(self, tensor: torch.Tensor, rows: NDArray[np.int64]) -> torch.Tensor:
        """The residuals of all rows seen so far, and of these."""
        if not tensor.dim() or rows.shape != (tensor.shape[0],) or (rows < 0).any():
            raise PartyError(
                f"the {self._key.role} of '{self._key.sender}' has shape {tuple(tensor.shape)}, "
                f"and its row numbers are not one for each of its rows (shape {rows.shape})"
            )
        width = tuple(tensor.shape[1:])
        table = self._by_row.get(width)
        needed = int(rows.max(initial=-1)) + 1
        if table is None or len(table) < needed:
            old = tensor.new_empty((0, *width)) if table is None else table
            # Twice as many as needed, so that a growing table is copied only a few times.
            table = torch.cat((old, tensor.new_zeros((2 * needed - len(old), *width))))
            self._by_row[width] = table
        return table
