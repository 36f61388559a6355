"""What a party did and when, in little memory: a long job has millions of spans."""

from __future__ import annotations

from collections import Counter

from colonnade.packed import LongList

PACK_EVERY = 1024
Span = tuple[str, int, int]
"""What a party did, from when, until when."""


class Timeline(LongList[Span]):
    """Spans, 17 bytes each.

    >>> timeline = Timeline()
    >>> timeline.add("forward", 0, 5)
    >>> list(timeline), timeline.total_ns("forward")
    ([('forward', 0, 5)], 5)
    """

    __slots__ = ("_totals",)

    def __init__(self) -> None:
        super().__init__("sqq")
        self._totals: Counter[str] = Counter()

    def add(self, kind: str, start_ns: int, end_ns: int) -> None:
        """Something was done."""
        self._totals[kind] += end_ns - start_ns
        self.append((kind, start_ns, end_ns))
        if len(self._recent) >= PACK_EVERY:
            self.pack()

    def total_ns(self, kind: str) -> int:
        """How long all of one kind took."""
        return self._totals[kind]

    def busy_ns(self) -> int:
        """How long everything took but waiting."""
        return self._totals.total() - self.total_ns("wait")
