"""What an encoding remembers of tensors: of each training row by its number, where a tensor's first
dimension stands for rows; of others, such as a top model's weights, by their shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from colonnade.compress.base import Key
from colonnade.errors import PartyError

Shape = tuple[int, ...]
Numbers = NDArray[np.int64]


def check_rows(tensor: torch.Tensor, rows: Numbers | None, key: Key) -> None:
    """Refuse numbers of rows that are not one for each of a tensor's rows.

    >>> check_rows(torch.ones(2, 3), np.array([7, 4]), Key(0, "partner", "embedding"))
    """
    if rows is None:
        return
    if not tensor.dim() or rows.shape != (tensor.shape[0],) or (rows < 0).any():
        raise PartyError(
            f"the {key.role} of '{key.sender}' has shape {tuple(tensor.shape)}, and its row "
            f"numbers are not one for each of its rows (shape {rows.shape})"
        )


class Memory:
    """A tensor for every row that was ever put, zero for others, and one for every other shape.

    >>> memory, rows = Memory(), np.array([2, 0])
    >>> memory.put(torch.tensor([[1.0], [3.0]]), rows)
    >>> memory.get(torch.zeros(2, 1), np.array([1, 2])).tolist()
    [[0.0], [1.0]]
    """

    def __init__(self) -> None:
        self._by_shape: dict[Shape, torch.Tensor] = {}
        self._by_row: dict[Shape, torch.Tensor] = {}
        self._ends: dict[Shape, int] = {}
        """How much of each table is in use."""

    def get(self, like: torch.Tensor, rows: Numbers | None) -> torch.Tensor | None:
        """A copy of what is remembered of such a tensor; None where it was never put."""
        if rows is None:
            kept = self._by_shape.get(tuple(like.shape))
            return kept if kept is not None and kept.dtype is like.dtype else None
        return self._table(like, rows)[_places(rows)]

    def put(self, tensor: torch.Tensor, rows: Numbers | None) -> None:
        """Remember it in the place of what was there; keeps no hold of the tensor itself."""
        if rows is None:
            self._by_shape[tuple(tensor.shape)] = tensor.clone()
        else:
            self._table(tensor, rows)[_places(rows)] = tensor

    def state(self) -> dict[str, Any]:
        """All of it, not copied."""
        tables = [(width, table[: self._ends[width]]) for width, table in self._by_row.items()]
        return {"by_shape": list(self._by_shape.items()), "by_row": tables}

    def restore(self, state: Any) -> None:
        """Go on from there, with those very tensors."""
        self._by_shape, self._by_row = dict(state["by_shape"]), dict(state["by_row"])
        self._ends = {width: len(table) for width, table in self._by_row.items()}

    def _table(self, like: torch.Tensor, rows: Numbers) -> torch.Tensor:
        """The table of all rows so far, and of these."""
        width, end = tuple(like.shape[1:]), int(rows.max(initial=-1)) + 1
        table = self._by_row.get(width)
        if table is None or table.dtype is not like.dtype:
            table = like.new_empty((0, *width))
            self._ends[width] = 0
        if len(table) < end:
            # Twice as many as needed, so that a growing table is copied only a few times; pages
            # that no row touches take no memory.
            grown = like.new_zeros((2 * end, *width))
            grown[: len(table)] = table
            table = grown
        self._by_row[width] = table
        self._ends[width] = max(self._ends[width], end)
        return table


def _places(rows: Numbers) -> torch.Tensor:
    return torch.from_numpy(np.asarray(rows, np.int64))
