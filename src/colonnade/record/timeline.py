"""What a party did and when, in little memory: a long job has a hundred million spans.

Spans are packed, 40 bytes each. Beyond `SPILL_EVERY` of them the oldest go to a file
(`record.pieces`): one without a name in a simulation, one in the party's own folder over the
network, where it outlives the process. Sums are kept as spans are packed.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import reason
from colonnade.record.pieces import Pieces

PACK_EVERY = 1024
SPILL_EVERY = 32 * 1024
NEITHER = ("wait", "send", "receive", "begin")
"""The kinds that are no work: a party may send and receive while it computes."""
WIDTH = 5
Numbers = NDArray[np.int64]
"""A row for each span: the number of its words, start, end, round, bytes."""


class Span(NamedTuple):
    """Something that a party did."""

    kind: str
    start_ns: int
    end_ns: int
    round: int = 0
    """Counted from 1; 0 for none."""
    bytes: int = 0
    """Of the message."""
    peer: str = ""
    """To whom it was sent, from whom it came, or who was waited for."""
    message: str = ""
    """The kind of the message."""


class Words(NamedTuple):
    """What many spans have in common."""

    kind: str
    peer: str = ""
    message: str = ""


Block = tuple[list[Words], Numbers]
"""Some spans, and the words that their first column counts."""


class Timeline:
    """Spans in the order in which they were noted, which for sends to a peer and for receipts from
    it is that of the messages.

    >>> timeline = Timeline()
    >>> timeline.add("forward", 0, 5, round=1)
    >>> timeline.add("send", 5, 6, 1, bytes=40, peer="bank", message="Embedding")
    >>> list(timeline)[0]
    Span(kind='forward', start_ns=0, end_ns=5, round=1, bytes=0, peer='', message='')
    >>> timeline.total_ns("forward"), timeline.busy_ns(), len(timeline)
    (5, 5, 2)
    """

    __slots__ = (
        *("_codes", "_packed", "_pieces", "_recent", "_rows", "_spilled", "_totals", "_words"),
        *("append", "fault"),
    )

    def __init__(self, pieces: Pieces | None = None) -> None:
        """`pieces` are those of an earlier process, and will have those of this one."""
        self._words: list[Words] = []
        self._codes: dict[Words, int] = {}
        self._totals: Numbers = np.zeros(16, np.int64)
        self._recent: list[tuple[int, int, int, int, int]] = []
        """Spans that are not packed yet."""
        self.append = self._recent.append
        """Notes a span: its `code`, start, end, round from 1, bytes. A plain list's, because it is
        called for every message; whoever uses it calls `pack_some` now and then."""
        self._packed: list[array[int]] = []
        self._rows = 0
        """How many are packed and in memory."""
        self._pieces = pieces
        self._spilled = 0
        self.fault: str | None = None
        """Why spans are missing, where some could not be written to disk."""
        if pieces is not None:
            for words, rows in map(_block, pieces):
                self._spilled += len(rows)
                self._sum(np.array([self.code(*each) for each in words])[rows[:, 0]], rows)

    def code(self, kind: str, peer: str = "", message: str = "") -> int:
        """The number of these words, for `append`."""
        words = Words(kind, peer, message)
        code = self._codes.get(words)
        if code is None:
            code = self._codes[words] = len(self._words)
            self._words.append(words)
            if code >= len(self._totals):
                self._totals = np.concatenate((self._totals, np.zeros_like(self._totals)))
        return code

    def add(
        self,
        kind: str,
        start_ns: int,
        end_ns: int,
        round: int = 0,
        bytes: int = 0,
        peer: str = "",
        message: str = "",
    ) -> None:
        """Something was done."""
        self.append((self.code(kind, peer, message), start_ns, end_ns, round, bytes))
        self.pack_some()

    def pack_some(self) -> None:
        """Pack what was noted, where that is much."""
        if len(self._recent) >= PACK_EVERY:
            self.pack()

    def pack(self) -> None:
        """Many spans at a time are packed quickly."""
        if not self._recent:
            return
        packed = array("q", chain.from_iterable(self._recent))
        self._recent.clear()
        rows = np.frombuffer(packed, np.int64).reshape(-1, WIDTH)
        self._sum(rows[:, 0], rows)
        self._packed.append(packed)
        self._rows += len(rows)
        if self._rows >= SPILL_EVERY:
            self.flush()

    def _sum(self, codes: Numbers, rows: Numbers) -> None:
        np.add.at(self._totals, codes, rows[:, 2] - rows[:, 1])

    def flush(self) -> None:
        """Write to disk what is in memory: more than so much is not kept there, and in a party's
        folder it outlives the process."""
        if len(self._recent) and self._rows < SPILL_EVERY:
            self.pack()
        if not self._rows:
            return
        if self._pieces is None:
            self._pieces = Pieces()
        words = json.dumps(self._words).encode()
        try:
            self._pieces.add(words, b"".join(self._packed))
            self._spilled += self._rows
        except OSError as error:
            # A full disk ends the recording, not the training.
            self.fault = f"spans could not be written: {reason(error)}"
        self._packed.clear()
        self._rows = 0

    def blocks(self) -> Iterator[Block]:
        """All spans, some thousands at a time."""
        self.pack()
        if self._pieces is not None:
            yield from map(_block, self._pieces)
        if self._packed:
            yield self._words, _rows(b"".join(self._packed))

    def extend(self, words: list[Words], rows: Numbers) -> None:
        """Note many spans at once, whose first column counts these words."""
        self.pack()
        codes = np.array([self.code(*each) for each in words], np.int64)[rows[:, 0]]
        self._sum(codes, rows)
        self._packed.append(array("q", np.column_stack((codes, rows[:, 1:])).tobytes()))
        self._rows += len(rows)
        if self._rows >= SPILL_EVERY:
            self.flush()

    def move(self, to: Timeline, kinds: Collection[str], later_ns: int) -> None:
        """Note those of some kinds in another timeline, whose clock began so much later."""
        for span in self:
            if span.kind in kinds:
                to.add(
                    *span._replace(start_ns=span.start_ns - later_ns, end_ns=span.end_ns - later_ns)
                )

    def total_ns(self, kind: str) -> int:
        """How long all of one kind took."""
        self.pack()
        return sum(int(self._totals[c]) for c, w in enumerate(self._words) if w.kind == kind)

    def busy_ns(self) -> int:
        """How long all work took."""
        self.pack()
        return sum(int(self._totals[c]) for c, w in enumerate(self._words) if w.kind not in NEITHER)

    def __iter__(self) -> Iterator[Span]:
        for words, rows in self.blocks():
            for code, start_ns, end_ns, round, size in rows.tolist():
                kind, peer, message = words[code]
                yield Span(kind, start_ns, end_ns, round, size, peer, message)

    def __len__(self) -> int:
        return self._spilled + self._rows + len(self._recent)

    def __contains__(self, span: object) -> bool:
        return any(span == own for own in self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline | list | tuple):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Timeline of {len(self)} spans>"

    def __reduce__(self) -> tuple[Any, ...]:
        return timeline_of, ([(words, rows.tobytes()) for words, rows in self.blocks()],)


def timeline_of(pieces: Iterable[tuple[list[Words], bytes]]) -> Timeline:
    """A timeline from the words and the packed numbers of its blocks.

    >>> len(timeline_of([([Words("wait")], np.array([0, 5, 9, 1, 0]).tobytes())]))
    1
    """
    made = Timeline()
    for words, numbers in pieces:
        made.extend(words, _rows(numbers))
    return made


def _rows(numbers: bytes) -> Numbers:
    return np.frombuffer(numbers, np.int64).reshape(-1, WIDTH)


def _block(piece: tuple[bytes, bytes]) -> Block:
    return [Words(*each) for each in json.loads(piece[0])], _rows(piece[1])
