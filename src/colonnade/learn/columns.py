"""A party's training rows, batch by batch."""

from __future__ import annotations

import numpy as np
import torch

from colonnade.data.batches import Rows

AHEAD_BYTES_MAX = 1 << 20
"""The most that is gathered ahead of its time, because it is done between two messages."""


class Columns:
    """The rows of a batch, which may have been gathered while there was nothing else to do.

    >>> columns = Columns(torch.arange(6.0).view(3, 2))
    >>> columns.prefetch(np.array([2, 0]))
    >>> columns.batch(np.array([2, 0])).tolist()
    [[4.0, 5.0], [0.0, 1.0]]
    """

    def __init__(self, features: torch.Tensor) -> None:
        self._features = features
        self._row_bytes = features[0].nbytes
        self._ahead: tuple[Rows, torch.Tensor] | None = None

    def prefetch(self, rows: Rows) -> None:
        """Gather a small batch before it is needed."""
        if not self._has(rows) and len(rows) * self._row_bytes <= AHEAD_BYTES_MAX:
            self._ahead = rows, self._gather(rows)

    def batch(self, rows: Rows) -> torch.Tensor:
        """The rows' columns."""
        if self._ahead is not None and self._has(rows):
            gathered, self._ahead = self._ahead[1], None
            return gathered
        return self._gather(rows)

    def _has(self, rows: Rows) -> bool:
        return self._ahead is not None and np.array_equal(self._ahead[0], rows)

    def _gather(self, rows: Rows) -> torch.Tensor:
        return self._features.index_select(0, index_of(rows, self._features.device))


def index_of(rows: Rows, device: torch.device) -> torch.Tensor:
    """Row numbers as torch wants them.

    >>> index_of(np.array([2, 0]), torch.device("cpu"))
    tensor([2, 0])
    """
    return torch.from_numpy(np.ascontiguousarray(rows)).to(device)
