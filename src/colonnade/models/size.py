"""How large a model is, known before any of it is allocated."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from colonnade.errors import JobError

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
