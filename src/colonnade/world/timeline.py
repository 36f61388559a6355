"""What a party did and when, in little memory: a long job has millions of spans."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

Span = tuple[str, int, int]
"""What a party did, from when, until when."""


class Timeline:
    """Spans, 17 bytes each.

    >>> timeline = Timeline()
    >>> timeline.add("forward", 0, 5)
    >>> list(timeline), timeline.total_ns("forward")
    ([('forward', 0, 5)], 5)
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._totals: list[int] = []
        self._kinds = array("B")
        self._edges = array("q")

    def add(self, kind: str, start_ns: int, end_ns: int) -> None:
        """Something was done."""
        if kind not in self._names:
            self._names.append(kind)
            self._totals.append(0)
        place = self._names.index(kind)
        self._totals[place] += end_ns - start_ns
        self._kinds.append(place)
        self._edges.append(start_ns)
        self._edges.append(end_ns)

    def total_ns(self, kind: str) -> int:
        """How long all of one kind took."""
        return self._totals[self._names.index(kind)] if kind in self._names else 0

    def busy_ns(self) -> int:
        """How long everything took but waiting."""
        return sum(self._totals) - self.total_ns("wait")

    def __len__(self) -> int:
        return len(self._kinds)

    def __contains__(self, span: object) -> bool:
        return any(span == own for own in self)

    def __iter__(self) -> Iterator[Span]:
        for place, kind in enumerate(self._kinds):
            yield self._names[kind], self._edges[2 * place], self._edges[2 * place + 1]
