"""A gated network: one layer says what, another how much of it."""

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
    """For rows of any shape; the options are what a job's `model` table may set."""
    return Gated(math.prod(row_shape), hidden, embedding)
