"""What comes before a bottom model whose rows have codes or bins in them.

Rows are stored short (`colonnade.data.layout`); here a batch of them becomes what a layer can
read: numbers as they are, the share of a number in each of its bins, a 0/1 column for each of a few
codes, a vector that is learnt for each of many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn


class Column(Protocol):
    """One column of rows, as `colonnade.data.layout.Input` is."""

    @property
    def edges(self) -> tuple[float, ...]:
        """Of the bins of a number."""

    @property
    def codes(self) -> int:
        """How many codes there are."""

    @property
    def width(self) -> int:
        """Of the vector for each code."""

    @property
    def first(self) -> int:
        """The first code that has a 0/1 column."""


class Front(nn.Module):
    """Makes of short rows [rows, columns] what a model reads.

    >>> from colonnade.data.layout import Input
    >>> front = Front([Input(), Input(edges=(0.0, 1.0, 3.0)), Input(codes=3)])
    >>> front(torch.tensor([[7.0, 2.0, 1.0]])).tolist()
    [[7.0, 2.0, 1.0, 0.5, 0.0, 1.0, 0.0]]
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__()
        places = range(len(columns))
        binned = [place for place in places if columns[place].edges]
        small = [place for place in places if columns[place].codes and not columns[place].width]
        large = [place for place in places if columns[place].width]
        self._keep("numbers", [place for place in places if not columns[place].codes])
        self._keep("binned", [p for p in binned for _ in columns[p].edges[1:]])
        self._keep("low", [e for p in binned for e in columns[p].edges[:-1]], torch.float32)
        self._keep("high", [e for p in binned for e in columns[p].edges[1:]], torch.float32)
        self._keep("small", [p for p in small for _ in range(columns[p].first, columns[p].codes)])
        self._keep("code", [c for p in small for c in range(columns[p].first, columns[p].codes)])
        self._keep("large", large)
        self.tables = nn.ModuleList(_table(columns[p].codes, columns[p].width) for p in large)

    numbers: torch.Tensor
    binned: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor
    small: torch.Tensor
    code: torch.Tensor
    large: torch.Tensor

    def _keep(
        self, name: str, values: list[int] | list[float], kind: torch.dtype = torch.int64
    ) -> None:
        # No weight: it follows the device, and from what was learnt of the columns it comes again.
        self.register_buffer(
            name, torch.tensor(values, dtype=kind, device=_home()), persistent=False
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Numbers, bins, 0/1 columns and vectors, in this order."""
        parts = [rows[:, self.numbers]]
        if len(self.binned):
            reach = (rows[:, self.binned] - self.low) / (self.high - self.low)
            parts.append(reach.clamp(0, 1))
        if len(self.small):
            parts.append((rows[:, self.small] == self.code).to(rows.dtype))
        if len(self.large):
            # A code below 0 stands for nothing, as does the first vector until a row has it.
            codes = rows[:, self.large].long().clamp(min=0)
            parts += [table(codes[:, place]) for place, table in enumerate(self.tables)]
        return torch.cat(parts, dim=1)


def _home() -> torch.device:
    return torch.empty(0).device


def _table(codes: int, width: int) -> nn.Embedding:
    table = nn.Embedding(codes, width)
    with torch.no_grad():
        table.weight.normal_(std=width**-0.5)
        # Missing and other: nothing, where training has no rows with them.
        table.weight[:2] = 0
    return table


class Fronted(nn.Module):
    """A bottom model behind its front.

    >>> from colonnade.data.layout import Input
    >>> model = Fronted(Front([Input(codes=3)]), nn.Linear(3, 2))
    >>> model(torch.tensor([[1.0]])).shape
    torch.Size([1, 2])
    """

    def __init__(self, front: Front, model: nn.Module) -> None:
        super().__init__()
        self.front = front
        self.model = model

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """The model on what the front makes of rows."""
        embedding: torch.Tensor = self.model(self.front(rows))
        return embedding
