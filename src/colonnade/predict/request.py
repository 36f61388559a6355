"""What is to be scored, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.predict.rows import Rows

Array = NDArray[Any]
ROWS_MAX = 4096
"""The most rows of one request: as many as a piece of an evaluation has, so that rows that an
evaluation had come out the same to the bit."""


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of a request."""

    scores: Array
    """[rows, outputs], what the top model says; NaN for a row that some party lacks."""
    lacking: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """By party that lacks any of the rows, which ones."""
    declined: Mapping[str, str] = field(default_factory=dict)
    """By party that did not answer, why."""
    late: tuple[str, ...] = ()
    """The parties whose answer had not come when the time was up."""


@dataclass(frozen=True, eq=False)
class Request:
    """Rows to be scored together, up to `ROWS_MAX`."""

    model: str
    """The version of the model."""
    own: Rows
    """For each row which one it is in the active party's table; `LACKING` where it has none."""
    places: Rows
    """For each row its place in the order of the training; `LACKING` where it has none."""
    digests: list[bytes]
    """Of the ids; empty where rows are named by their places only."""
    deliver: Callable[[Scored], None]
    """Called once with the result, also where the time was up."""
    mean: bool = False
    """Whether a party's mean embedding stands for a row that it lacks."""
    deadline_ns: int | None = None
    """By the clock of the world: after it nobody needs the result."""
    features: Array | None = None
    """The active party's rows of numbers, where they come with the request."""

    def __len__(self) -> int:
        return len(self.own)


class Source(Protocol):
    """Where requests come from."""

    def take(self) -> Request | None:
        """The next one; None as long as there is none."""

    @property
    def over(self) -> bool:
        """Whether none will come any more."""

    @property
    def rows(self) -> int:
        """How many rows there are to score in all; 0 where nobody knows."""

    def bind(self, interrupt: Callable[[], None]) -> None:
        """Call this when there is something to take."""
