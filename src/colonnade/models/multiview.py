"""`modelnet_cnn`: the bottom model of C-VFL for several views of one object."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from colonnade.errors import JobError
from colonnade.models.shapes import too_small


class Views(nn.Module):
    """The same convolutions for every view, the largest of each number over the views, a layer."""

    def __init__(self, views: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.views = views
        self.head = head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Embed rows [rows, views, height, width] or [rows, views, channels, height, width]."""
        if x.dim() == 4:
            x = x.unsqueeze(2)
        # The views become rows of their own, so that one convolution sees them all.
        seen: torch.Tensor = self.views(x.flatten(0, 1))
        largest = seen.reshape(*x.shape[:2], -1).amax(dim=1)
        embedding: torch.Tensor = self.head(largest)
        return embedding


def modelnet_cnn(
    row_shape: tuple[int, ...], embedding: int = 4096, large_images: bool = True
) -> nn.Module:
    """Two convolutions for every view, max-pool over the views, one linear layer.

    The model of *C-VFL* for ModelNet10: a row is the views a party has of one object, 3 of 12
    with four parties and 1 with twelve, as [views, height, width], or [views, channels, height,
    width] where they have colours. Convolution 11×11 with stride 4 and padding 2 to 64 channels,
    ReLU, max-pool 5×5 with stride 3; convolution 3×3 with padding 1 to 256 channels, ReLU, the
    same max-pool; the largest over the views; linear to 4096. Views of 224×224 leave 256·5·5 =
    6400 numbers. The paper says "two convolutional layers and a fully-connected layer"; the
    sizes are those of its code.

    With `large_images = false` the first convolution is 5×5 with stride 2, and both max-pools are
    3×3 with stride 2, which leave as many numbers of views of 48×48.

    >>> sum(p.numel() for p in modelnet_cnn((3, 224, 224)).parameters())
    26374016
    """
    if len(row_shape) not in (3, 4):
        raise JobError(
            "the model modelnet_cnn needs views [views, height, width] or "
            f"[views, channels, height, width], these rows have the shape {row_shape}"
        )
    height, width = row_shape[-2:]
    channels = row_shape[1] if len(row_shape) == 4 else 1
    sizes = LARGE if large_images else SMALL
    rows, columns = sizes.left(height), sizes.left(width)
    if rows < 1 or columns < 1:
        cure = f"it needs views of at least {sizes.least}×{sizes.least}"
        if large_images:
            cure += ", or large_images = false"
        raise too_small("modelnet_cnn", height, width, cure)
    views = nn.Sequential(
        nn.Conv2d(channels, 64, sizes.kernel, stride=sizes.stride, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(sizes.pool, stride=sizes.step),
        nn.Conv2d(64, 256, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(sizes.pool, stride=sizes.step),
        nn.Flatten(),
    )
    return Views(views, nn.Linear(256 * rows * columns, embedding))


class Sizes(NamedTuple):
    """The first convolution's kernel and stride, the max-pools', and the least side for both."""

    kernel: int
    stride: int
    pool: int
    step: int
    least: int

    def left(self, length: int) -> int:
        """How much of a side the convolutions and poolings leave."""
        pixels = (length + 2 * 2 - self.kernel) // self.stride + 1
        for _ in range(2):
            pixels = (pixels - self.pool) // self.step + 1
        return pixels


LARGE, SMALL = Sizes(11, 4, 5, 3, 71), Sizes(5, 2, 3, 2, 13)
