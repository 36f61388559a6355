"""Dense bottom models: `linear` and `mlp`."""

from __future__ import annotations

from math import prod

from torch import nn


def linear(row_shape: tuple[int, ...], embedding: int = 16, bias: bool = True) -> nn.Module:
    """One linear layer; images are flattened.

    >>> sum(p.numel() for p in linear((5,), embedding=3).parameters())
    18
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(row_shape), embedding, bias=bias))


def mlp(
    row_shape: tuple[int, ...],
    hidden: list[int] | None = None,
    embedding: int = 16,
    dropout: float = 0.0,
    bias: bool = True,
) -> nn.Module:
    """Linear layers with ReLU between them; images are flattened.

    >>> [layer.out_features for layer in mlp((8,), hidden=[32], embedding=4) if
    ...  isinstance(layer, nn.Linear)]
    [32, 4]
    """
    layers: list[nn.Module] = [nn.Flatten()]
    width = prod(row_shape)
    for size in [64] if hidden is None else hidden:
        layers += [nn.Linear(width, size, bias=bias), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        width = size
    return nn.Sequential(*layers, nn.Linear(width, embedding, bias=bias))
