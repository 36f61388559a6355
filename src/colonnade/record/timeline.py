"""What a party did and when, in little memory: a long job has millions of spans."""

from __future__ import annotations

import numpy as np

from colonnade.packed import LongList

PACK_EVERY = 1024
Span = tuple[str, int, int]
"""What a party did, from when, until when."""


class Timeline(LongList[Span]):
    """Spans, 17 bytes each.

    >>> timeline = Timeline()
    >>> timeline.add("forward", 0, 5)
    >>> list(timeline), timeline.total_ns("forward"), timeline.busy_ns()
    ([('forward', 0, 5)], 5, 5)
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("sqq")

    def add(self, kind: str, start_ns: int, end_ns: int) -> None:
        """Something was done."""
        recent = self._recent
        recent.append((kind, start_ns, end_ns))
        if len(recent) >= PACK_EVERY:
            self.pack()

    def total_ns(self, kind: str) -> int:
        """How long all of one kind took."""
        kinds, starts, ends = map(np.asarray, self._packed())
        return int((ends - starts)[kinds == self._numbers.get(kind, -1)].sum())

    def busy_ns(self) -> int:
        """How long everything took but waiting."""
        _, starts, ends = map(np.asarray, self._packed())
        return int((ends - starts).sum()) - self.total_ns("wait")
