"""The small bottom models of the PASTA paper: `mlp2` and `fmnist_cnn`."""

from __future__ import annotations

from math import prod

from torch import nn

from colonnade.models.shapes import image, too_small


def mlp2(row_shape: tuple[int, ...], embedding: int = 10) -> nn.Module:
    """Two linear layers with 32 units between them: in → 32 ReLU → embedding.

    The 2-layer MLP of *PASTA*, for MNIST (halves of 14×28 = 392 pixels, embedding 10) and
    NUSWIDE (634 image features and 1000 tags, embedding 5). Images are flattened.

    >>> sum(p.numel() for p in mlp2((1, 14, 28)).parameters())
    12906
    """
    return nn.Sequential(
        nn.Flatten(), nn.Linear(prod(row_shape), 32), nn.ReLU(), nn.Linear(32, embedding)
    )


def fmnist_cnn(row_shape: tuple[int, ...], embedding: int = 10) -> nn.Module:
    """Two convolutions of 16 and 32 channels and one linear layer, for halves of Fashion-MNIST.

    The CNN of *PASTA*. Convolution 3×3, ReLU, batch norm, max-pool 2×2, dropout 0.25; the same
    with max-pool 2×3; then linear 384 → 10, ReLU, batch norm, dropout 0.5. No layer has a bias.
    The convolutions are padded by 1: of the paddings, only this one leaves 32·3·4 = 384 numbers
    of a 14×28 half. The embedding comes after the last dropout, which in training makes half of
    what a party sends 0.

    >>> sum(p.numel() for p in fmnist_cnn((1, 14, 28)).parameters())
    8708
    """
    channels, height, width = image("fmnist_cnn", row_shape)
    rows, columns = height // 2 // 2, width // 2 // 3
    if rows < 1 or columns < 1:
        raise too_small("fmnist_cnn", height, width, "it needs at least 4×6")
    return nn.Sequential(
        *_convolution(channels, 16, (2, 2)),
        *_convolution(16, 32, (2, 3)),
        nn.Flatten(),
        nn.Linear(32 * rows * columns, embedding, bias=False),
        nn.ReLU(),
        nn.BatchNorm1d(embedding),
        nn.Dropout(0.5),
    )


def _convolution(inputs: int, outputs: int, pool: tuple[int, int]) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.ReLU(),
        nn.BatchNorm2d(outputs),
        nn.MaxPool2d(pool),
        nn.Dropout(0.25),
    ]
