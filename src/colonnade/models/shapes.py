"""What a model asks of the rows it is built for, and of its options, in one sentence each; and how
large it may be."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from colonnade.errors import JobError


def image(model: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width of rows that must be images.

    >>> image("vgg13", (3, 16, 32))
    (3, 16, 32)
    """
    if len(shape) != 3:
        raise JobError(
            f"the model {model} needs images [channels, height, width], "
            f"these rows have the shape {shape}"
        )
    channels, height, width = shape
    return channels, height, width


def columns(model: str, shape: tuple[int, ...], what: str) -> int:
    """The number of columns of rows that must be flat.

    >>> columns("dssm", (14,), "categorical codes")
    14
    """
    if len(shape) != 1:
        raise JobError(
            f"the model {model} needs rows of {what}, one a column, "
            f"these rows have the shape {shape}"
        )
    return shape[0]


def too_small(model: str, height: int, width: int, cure: str) -> JobError:
    """The error for images of which a model's pooling leaves nothing.

    >>> str(too_small("vgg13", 16, 16, "use vgg_small"))
    'images of 16×16 are too small for vgg13: use vgg_small'
    """
    return JobError(f"images of {height}×{width} are too small for {model}: {cure}")


def check_dropout(model: str, dropout: float) -> None:
    """Refuse what is no share.

    >>> check_dropout("vgg13", 0.5)
    """
    if not 0 <= dropout < 1:
        raise JobError(f"the dropout of {model} is {dropout}: give a share from 0 to below 1")


PARAMETERS_MAX = 2**30
"""4 GB of 32-bit numbers, and as much again for their gradients."""


def check_size(build: Callable[[], nn.Module], where: str) -> None:
    """Refuse a model of ours that would take all the memory there is; `build` makes it.

    >>> check_size(lambda: nn.Linear(100_000, 100_000), "top")
    Traceback (most recent call last):
    colonnade.errors.JobError: top: a model of 10,000,100,000 parameters is more than the \
1,073,741,824 that there may be: choose narrower layers
    """
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            count = sum(each.numel() for each in build().parameters())
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise JobError(f"{where}: no such model can be built: {error}") from None
    if count > PARAMETERS_MAX:
        raise JobError(
            f"{where}: a model of {count:,} parameters is more than the {PARAMETERS_MAX:,} that "
            "there may be: choose narrower layers"
        )
