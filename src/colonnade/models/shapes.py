"""What a model asks of the rows it is built for, and of its options, in one sentence each."""

from __future__ import annotations

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
