"""The VGG bottom models of the PASTA paper, for halves, quadrants and strips of CIFAR10.

All three are stages of 3×3 convolutions, each convolution with batch norm and ReLU, and a
max-pool 2×2 at the end of every stage. What is left is flattened: 512 numbers for the images each
was made for. Without a classifier these are the embedding (SplitVFL: the rest of VGG is the top
model); with one they go through VGG's own, and the embedding is a party's logits (AggVFL).
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from colonnade.errors import JobError
from colonnade.models.shapes import check_dropout, image, too_small

_Stages = Sequence[Sequence[int]]

_HIDDEN = 512
_LOGITS = 10


def vgg13(
    row_shape: tuple[int, ...],
    embedding: int | None = None,
    classifier: bool = False,
    dropout: float = 0.5,
) -> nn.Module:
    """VGG13 with batch norm for the upper or lower half of an image, with rows of padding.

    The model of *PASTA* for CIFAR10 between two parties: convolutions of 64, 64 | 128, 128 |
    256, 256 | 512, 512 | 512, 512 channels. Five poolings would leave nothing of 16 rows, so a
    convolution pads two rows above and below instead of one as long as there are fewer rows than
    columns; halves of 16×32 grow to 20×32, 14×16 and 9×8 before the first three poolings.

    The embedding is 512 wide, after dropout. With `classifier = true` dropout, 512 → 512 ReLU,
    dropout, 512 → 512 ReLU, 512 → `embedding` follow, and `embedding` is 10 unless given.

    >>> sum(p.numel() for p in vgg13((3, 16, 32)).parameters())
    9410880
    >>> vgg13((3, 16, 32), classifier=True)[-1]
    Linear(in_features=512, out_features=10, bias=True)
    """
    stages = [[64, 64], [128, 128], [256, 256], [512, 512], [512, 512]]
    return _vgg("vgg13", row_shape, stages, embedding, classifier, dropout, grow=True)


def vgg_small(
    row_shape: tuple[int, ...],
    embedding: int | None = None,
    classifier: bool = False,
    dropout: float = 0.5,
) -> nn.Module:
    """Eight convolutions and four poolings, for a quadrant of an image.

    The model of *PASTA* for CIFAR10 among four parties (3×16×16): convolutions of 64, 64 |
    128, 128 | 256, 256 | 512, 512 channels. Embedding and classifier are those of `vgg13`.

    >>> sum(p.numel() for p in vgg_small((3, 16, 16)).parameters())
    4689216
    """
    stages = [[64, 64], [128, 128], [256, 256], [512, 512]]
    return _vgg("vgg_small", row_shape, stages, embedding, classifier, dropout)


def vgg_tiny(
    row_shape: tuple[int, ...],
    embedding: int | None = None,
    classifier: bool = False,
    dropout: float = 0.5,
) -> nn.Module:
    """Four convolutions and two poolings, for a strip of four rows of an image.

    The model of *PASTA* for CIFAR10 among eight parties (3×4×32): convolutions of 64, 64 |
    512, 64 channels leave 64·1·8 = 512 numbers. Embedding and classifier are those of `vgg13`.

    >>> sum(p.numel() for p in vgg_tiny((3, 4, 32)).parameters())
    630528
    """
    return _vgg("vgg_tiny", row_shape, [[64, 64], [512, 64]], embedding, classifier, dropout)


def _vgg(
    model: str,
    row_shape: tuple[int, ...],
    stages: _Stages,
    embedding: int | None,
    classifier: bool,
    dropout: float,
    grow: bool = False,
) -> nn.Module:
    check_dropout(model, dropout)
    layers, features = _features(model, row_shape, stages, grow)
    # Dropout is VGG's first classifier layer. In SplitVFL it stays at the party, as the authors
    # have it, and what is sent has been through it.
    drop = [nn.Dropout(dropout)] if dropout else []
    if not classifier:
        if embedding not in (None, features):
            raise JobError(
                f"{model} makes {features} numbers of rows of the shape {row_shape}, not "
                f"{embedding!r}: leave embedding out, or set classifier = true"
            )
        return nn.Sequential(*layers, nn.Flatten(), *drop)
    outputs = _LOGITS if embedding is None else embedding
    if type(outputs) is not int or outputs < 1:
        raise JobError(f"the embedding of {model} is {outputs!r}: give a positive whole number")
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        *drop,
        nn.Linear(features, _HIDDEN),
        nn.ReLU(),
        *([nn.Dropout(dropout)] if dropout else []),
        nn.Linear(_HIDDEN, _HIDDEN),
        nn.ReLU(),
        nn.Linear(_HIDDEN, outputs),
    )


def _features(
    model: str, row_shape: tuple[int, ...], stages: _Stages, grow: bool
) -> tuple[list[nn.Module], int]:
    """The convolutions, and how many numbers they leave of one image."""
    channels, height, width = image(model, row_shape)
    rows, columns = height, width
    layers: list[nn.Module] = []
    for stage in stages:
        for size in stage:
            extra = int(grow and rows < columns)
            layers += _convolution(channels, size, (1 + extra, 1))
            rows, channels = rows + 2 * extra, size
        layers.append(nn.MaxPool2d(2))
        rows, columns = rows // 2, columns // 2
    if rows < 1 or columns < 1:
        least = 2 ** len(stages)
        fit = f"{least} columns or more" if grow else f"{least}×{least} or more"
        raise too_small(model, height, width, f"it needs {fit}")
    return layers, channels * rows * columns


def _convolution(inputs: int, outputs: int, padding: tuple[int, int]) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=padding)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    assert convolution.bias is not None
    nn.init.zeros_(convolution.bias)
    return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]
