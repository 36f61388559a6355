"""A gated network: one linear map computes values, another how much of each to let through."""

import math

import torch
from torch import nn

from colonnade import extension


class Gated(nn.Module):
    """(A x) · σ(B x), and a linear layer on top."""

    def __init__(self, columns: int, hidden: int, embedding: int) -> None:
        super().__init__()
        self.both = nn.Linear(columns, 2 * hidden)
        self.out = nn.Linear(hidden, embedding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(nn.functional.glu(self.both(x.flatten(1))))  # type: ignore[no-any-return]


@extension("model")
def gated(row_shape: tuple[int, ...], hidden: int = 32, embedding: int = 16) -> nn.Module:
    """Takes rows of any shape; a job's `model` table may set the options."""
    return Gated(math.prod(row_shape), hidden, embedding)
