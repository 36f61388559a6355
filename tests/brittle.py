"""A bottom model that breaks in the midst of a training."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch import nn

from colonnade import extension


class Brittle(nn.Linear):
    """Breaks at its 25th forward pass in training."""

    passes = 0

    def forward(self, rows: torch.Tensor) -> Any:
        """As a linear model does, so long as it does."""
        self.passes += self.training
        if self.passes == 25:
            raise ValueError("row 17 belongs to Jane Doe")
        return super().forward(rows)


@extension("model")
def brittle(row_shape: tuple[int, ...], embedding: int = 16) -> nn.Module:
    """The model."""
    return nn.Sequential(nn.Flatten(), Brittle(prod(row_shape), embedding))
