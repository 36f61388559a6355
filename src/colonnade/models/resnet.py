"""Residual networks (He et al., 2016): `resnet18` of C-VFL, `resnet50` of Flex-VFL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from colonnade.models.shapes import image


class Residual(nn.Module):
    """A path of convolutions and a way around it, added and put through ReLU."""

    def __init__(self, path: nn.Module, around: nn.Module) -> None:
        super().__init__()
        self.path = path
        self.around = around

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.path(x) + self.around(x))


def resnet18(
    row_shape: tuple[int, ...], embedding: int = 16, large_images: bool = False
) -> nn.Module:
    """ResNet18 with a linear layer 512 → embedding.

    The model of *C-VFL* for quadrants of CIFAR10 (3×16×16, embedding 16) and of ImageNet100
    (3×112×112, `large_images = true`, embedding 128). Four stages of two blocks of two 3×3
    convolutions, with 64, 128, 256 and 512 channels; every stage but the first halves the image,
    and the mean over what is left goes into the linear layer.

    Small images start with one 3×3 convolution that keeps their size. `large_images` starts with
    a 7×7 convolution and a max-pool that make them four times smaller, as for ImageNet.

    >>> sum(p.numel() for p in resnet18((3, 16, 16)).parameters())
    11177040
    """
    channels, _, _ = image("resnet18", row_shape)
    return _resnet(channels, [2, 2, 2, 2], _basic, 1, embedding, large_images)


def resnet50(
    row_shape: tuple[int, ...], embedding: int = 128, large_images: bool = True
) -> nn.Module:
    """ResNet50 with a linear layer 2048 → embedding.

    The model of *Flex-VFL* for quadrants of ImageNet100 and for single views of ModelNet40
    (3×224×224), embedding 128. Stages of 3, 4, 6 and 3 blocks of 1×1, 3×3 and 1×1 convolutions;
    otherwise as `resnet18`, with the start for large images.

    >>> sum(p.numel() for p in resnet50((3, 112, 112)).parameters())
    23770304
    """
    channels, _, _ = image("resnet50", row_shape)
    return _resnet(channels, [3, 4, 6, 3], _bottleneck, 4, embedding, large_images)


_Path = Callable[[int, int, int], nn.Sequential]


def _resnet(
    channels: int,
    blocks: Sequence[int],
    path: _Path,
    expansion: int,
    embedding: int,
    large_images: bool,
) -> nn.Module:
    layers: list[nn.Module] = [*_start(channels, large_images)]
    width = 64
    for stage, count in enumerate(blocks):
        inner = 64 * 2**stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            outputs = inner * expansion
            # Where size or channels change, x itself must change to be added.
            around: nn.Module = nn.Identity()
            if stride != 1 or width != outputs:
                around = nn.Sequential(*_normed(width, outputs, 1, stride))
            layers.append(Residual(path(width, inner, stride), around))
            width = outputs
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, embedding)
    )


def _start(channels: int, large_images: bool) -> list[nn.Module]:
    if large_images:
        return [*_normed(channels, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
    return [*_normed(channels, 64, 3), nn.ReLU()]


def _basic(inputs: int, inner: int, stride: int) -> nn.Sequential:
    return nn.Sequential(*_normed(inputs, inner, 3, stride), nn.ReLU(), *_normed(inner, inner, 3))


def _bottleneck(inputs: int, inner: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        *_normed(inputs, inner, 1),
        nn.ReLU(),
        *_normed(inner, inner, 3, stride),
        nn.ReLU(),
        *_normed(inner, 4 * inner, 1),
    )


def _normed(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    """A convolution without a bias, which the batch norm after it would undo."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return [convolution, nn.BatchNorm2d(outputs)]
