"""What a party did and when, in little memory: a long job has millions of spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from colonnade.packed import LongList

PACK_EVERY = 1024
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
        self._spans: LongList[Span] = LongList("sqq")
        self._totals: Counter[str] = Counter()
        self._added = 0

    def add(self, kind: str, start_ns: int, end_ns: int) -> None:
        """Something was done."""
        self._totals[kind] += end_ns - start_ns
        self._spans.append((kind, start_ns, end_ns))
        self._added += 1
        if not self._added % PACK_EVERY:
            self._spans.pack()

    def total_ns(self, kind: str) -> int:
        """How long all of one kind took."""
        return self._totals[kind]

    def busy_ns(self) -> int:
        """How long everything took but waiting."""
        return self._totals.total() - self.total_ns("wait")

    def __len__(self) -> int:
        return len(self._spans)

    def __contains__(self, span: object) -> bool:
        return span in self._spans

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)
