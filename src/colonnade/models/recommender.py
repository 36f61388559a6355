"""The bottom models of the CELU-VFL paper, for tables of clicks.

A categorical column holds codes: whole numbers that stand for a category and count nothing. Rows
reach a model as floating numbers, so codes must survive that: float32 is exact up to 2²⁴ =
16,777,216, float64 (`train.dtype`) up to 2⁵³. Number the categories of each column from 0 and the
largest column of Criteo stays below that; numbered through all columns, as the authors have it,
they would not. Codes are taken modulo 2³².
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

from colonnade.errors import JobError
from colonnade.models.shapes import columns

_WORD = 2**32 - 1
"""Codes are mixed as numbers of 32 bits."""
_FIRST, _SECOND = 0x21F0AAAD, 0x735A2D97
"""Odd and below 2³¹, so that a product with 32 bits fits an int64 on every device."""


class HashEmbedding(nn.Module):
    """One table of vectors for all columns; a code's place in it is a hash of column and code.

    >>> table = HashEmbedding(fields=2, buckets=100, width=4)
    >>> table(torch.tensor([[7.0, 7.0]])).shape
    torch.Size([1, 8])
    """

    def __init__(self, fields: int, buckets: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, width)
        nn.init.normal_(self.table.weight, std=0.01)
        # No weight, and the same for all: it follows the device, and stays out of what is saved.
        self.register_buffer("fields", torch.arange(fields), persistent=False)
        self.fields: torch.Tensor

    def places(self, codes: torch.Tensor) -> torch.Tensor:
        """Where in the table each code of rows [rows, fields] is.

        The code is mixed before and after its column's number comes in: equal codes of different
        columns then have nothing to do with each other, and neither have neighbours.
        """
        mixed = _mix(codes.round().long() & _WORD)
        return _mix((mixed + self.fields) & _WORD) % self.table.num_embeddings

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """The vectors of a row's codes, side by side."""
        # A training looks at its first rows in evaluation mode, so this is seen at the start and
        # does not hold up every step.
        if not self.training and not torch.equal(codes, codes.round()):
            raise JobError(
                "a column of codes holds numbers that are not whole: give the codes as arrays, "
                "a table's numbers are scaled and its categories become 0/1 columns"
            )
        vectors: torch.Tensor = self.table(self.places(codes))
        return vectors.flatten(1)


def _mix(words: torch.Tensor) -> torch.Tensor:
    """A permutation of the numbers of 32 bits in which every bit depends on every other."""
    words = words ^ (words >> 16)
    words = (words * _FIRST) & _WORD
    words = words ^ (words >> 15)
    words = (words * _SECOND) & _WORD
    return words ^ (words >> 15)


def wide_deep_categorical(
    row_shape: tuple[int, ...],
    embedding: int = 256,
    buckets: int = 1_000_000,
    field_width: int = 128,
    hidden: int = 256,
) -> nn.Module:
    """Hashed categories: F columns of codes → F·128 → 256 ReLU → 256, without biases.

    Party A of Wide & Deep on Criteo in *CELU-VFL* (26 columns). One table of `buckets` vectors
    serves all columns. All weights start from N(0, 0.01²). Neither paper nor code has a wide
    part. The default table has 128 million weights, 512 MB, and the optimizer's state comes on
    top: choose fewer `buckets` for fewer categories.

    >>> model = wide_deep_categorical((26,), buckets=1000)
    >>> sum(p.numel() for p in model.parameters())
    1045504
    """
    fields = columns("wide_deep_categorical", row_shape, "categorical codes")
    return _hashed(fields, buckets, field_width, hidden, embedding)


def wide_deep_dense(
    row_shape: tuple[int, ...], embedding: int = 256, hidden: list[int] | None = None
) -> nn.Module:
    """Numbers: 13 columns → 256 ReLU → 256 ReLU → 256, without biases.

    Party B of Wide & Deep on Criteo in *CELU-VFL*; the paper's numbers are log(x + 1). All
    weights start from N(0, 0.01²). The top model is linear, 512 → 1 without a bias: `[top]`
    with `bias = false`.

    >>> sum(p.numel() for p in wide_deep_dense((13,)).parameters())
    134400
    """
    width = columns("wide_deep_dense", row_shape, "numbers")
    return nn.Sequential(*_dense([width, *([256, 256] if hidden is None else hidden), embedding]))


def dssm(
    row_shape: tuple[int, ...],
    embedding: int = 256,
    buckets: int = 1_000_000,
    field_width: int = 128,
    hidden: int = 256,
) -> nn.Module:
    """Hashed categories for a dot product: F columns of codes → F·128 → 256 ReLU → 256.

    Both parties of DSSM on Avazu in *CELU-VFL* (14 and 8 columns), each with a table of its own;
    the layers are those of `wide_deep_categorical`. The top model has no weights: `[top]` with
    `kind = "dot"`.

    >>> sum(p.numel() for p in dssm((14,), buckets=1000).parameters())
    652288
    """
    fields = columns("dssm", row_shape, "categorical codes")
    return _hashed(fields, buckets, field_width, hidden, embedding)


def _hashed(fields: int, buckets: int, field_width: int, hidden: int, embedding: int) -> nn.Module:
    table = HashEmbedding(fields, buckets, field_width)
    return nn.Sequential(table, *_dense([fields * field_width, hidden, embedding]))


def _dense(widths: list[int]) -> list[nn.Module]:
    """Linear layers without biases and ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        linear = nn.Linear(inputs, outputs, bias=False)
        nn.init.normal_(linear.weight, std=0.01)
        layers += [linear, nn.ReLU()]
    return layers[:-1]
