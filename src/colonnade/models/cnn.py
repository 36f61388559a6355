"""The convolutional bottom model of the FedBCD paper."""

from __future__ import annotations

from torch import nn

from colonnade.errors import JobError


def cnn(
    row_shape: tuple[int, ...],
    embedding: int = 256,
    channels: int = 64,
    kernel: int = 3,
    hidden: int = 256,
    bias: bool = False,
) -> nn.Module:
    """Two 3×3 convolutions of 64 channels and a dense layer of 256 units, ReLU after each.

    The local model of MNIST-CNN in Liu et al., *FedBCD*, section VII-A. The paper names no
    padding and no pooling, so there is none. Its federated layer, a logistic regression with 512
    parameters, is the sum of one scalar from each of two parties: `embedding = 1` adds a party's
    256 of those parameters, and the job's top is `agg`. With `embedding = hidden` the 256 units
    themselves are the embedding.

    >>> sum(p.numel() for p in cnn((1, 28, 14), embedding=1).parameters())
    3970240
    """
    if len(row_shape) != 3:
        raise JobError(f"the model cnn needs images, these rows have the shape {row_shape}")
    depth, height, width = row_shape
    height, width = height - 2 * (kernel - 1), width - 2 * (kernel - 1)
    if height < 1 or width < 1:
        raise JobError(f"images of {row_shape[1]}×{row_shape[2]} are too small for cnn")
    layers: list[nn.Module] = [
        nn.Conv2d(depth, channels, kernel),
        nn.ReLU(),
        nn.Conv2d(channels, channels, kernel),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(channels * height * width, hidden),
        nn.ReLU(),
    ]
    if embedding != hidden:
        layers.append(nn.Linear(hidden, embedding, bias=bias))
    return nn.Sequential(*layers)
