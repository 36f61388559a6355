"""`lstm`: the bottom model of C-VFL and Flex-VFL for time series."""

from __future__ import annotations

import torch
from torch import nn

from colonnade.errors import JobError


class LastState(nn.Module):
    """An LSTM of which only the last hidden state comes out."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, width, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Embed rows [rows, steps, features]."""
        states: torch.Tensor = self.lstm(x)[0]
        return states[:, -1]


def lstm(row_shape: tuple[int, ...], embedding: int = 16) -> nn.Module:
    """An LSTM over the steps of a row; its last hidden state is the embedding.

    The model of *C-VFL* for MIMIC-III (48 hours of 19 features a party, embedding 16) and of the
    video and audio parties of *Flex-VFL* for MOSEI. A row is [steps, features]; the embedding
    lies between -1 and 1. Torch has two biases a gate where Keras, which C-VFL used, has one:
    2368 parameters instead of 2304 for the same functions.

    >>> sum(p.numel() for p in lstm((48, 19)).parameters())
    2368
    """
    if len(row_shape) != 2:
        raise JobError(
            f"the model lstm needs rows [steps, features], these rows have the shape {row_shape}"
        )
    return LastState(row_shape[1], embedding)
