"""What became of each exchange of a party: when it was sent, replied to and used, how stale it was,
and how many updates were made of it. A subscriber of events, with as much memory for a long job as
for a short one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import reason
from colonnade.record.events import Event, LocalDone, Resumed, RoundDone
from colonnade.record.scratch import Scratch

OPEN_MAX = 10_000
"""Of so many rounds at most the numbers may still change: as many as a party keeps for local
updates (`policies.local.KEPT_MAX`)."""
CLOSE_EVERY = 1024
READ_ROWS = 8192
WEIGHTS = ("weight_p10", "weight_p50", "weight_p90")
DTYPE = np.dtype(
    [
        *((name, "<i8") for name in ("round", "sent_ns", "replied_ns", "used_ns", "window")),
        *((name, "<i8") for name in ("in_flight", "staleness", "updates")),
        *((name, "<f8") for name in WEIGHTS),
    ]
)
HEAD = b"COLX0001" + DTYPE.itemsize.to_bytes(8, "little")
"""How the file begins; one that begins otherwise is of another version, and begun anew."""
_UNWEIGHED = (math.nan, math.nan, math.nan)
Rows = NDArray[Any]
"""Of `DTYPE`; a weight that there is not is NaN."""


class ExchangeRow(NamedTuple):
    """One round of a party; see docs/run-folder.md."""

    round: int
    """Counted from 1."""
    sent_ns: int
    replied_ns: int
    used_ns: int
    window: int
    in_flight: int
    staleness: int
    updates: int
    """All updates on it, the fresh one included."""
    weight_p10: float | None = None
    weight_p50: float | None = None
    weight_p90: float | None = None


class Exchanges:
    """Follows one party's events. The newest rounds are in memory, and older ones in a file, each
    at its place: one without a name, or one in the party's folder, which outlives the process.

    >>> exchanges = Exchanges()
    >>> exchanges(RoundDone("lab", 70, 0, 9, window=2, in_flight=2, sent_ns=10, replied_ns=60))
    >>> exchanges(LocalDone("lab", 80, 0, updates=2, local=1, weights=(0.5, 0.75, 1.0)))
    >>> list(exchanges)
    [ExchangeRow(round=1, sent_ns=10, replied_ns=60, used_ns=70, window=2, in_flight=2, \
staleness=0, updates=2, weight_p10=0.5, weight_p50=0.75, weight_p90=1.0)]
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file: Scratch | None = None
        self._path = path
        self._open: dict[int, tuple[Any, ...]] = {}
        """The rounds whose numbers may still change, oldest first."""
        self._changed: set[int] = set()
        """Those of them that are not in the file, or otherwise."""
        self.fault: str | None = None
        """Why rounds are missing, where some could not be written to disk."""

    def __call__(self, event: Event) -> None:
        """Take down what the party tells."""
        # Every round comes here: tests of the type are quicker than patterns.
        if isinstance(event, RoundDone):
            round = event.round + 1
            self._changed.add(round)
            # Tuples of plain numbers are nothing for the garbage collector to look through.
            self._open[round] = (
                round,
                event.sent_ns,
                event.replied_ns,
                event.time_ns,
                event.window,
                event.in_flight,
                event.staleness,
                event.updates,
                *(event.weights or _UNWEIGHED),
            )
            if len(self._open) >= OPEN_MAX + CLOSE_EVERY:
                self._close_oldest()
        elif isinstance(event, LocalDone):
            self._updated(event)
        elif isinstance(event, Resumed):
            self._go_back(event.round)

    def _close_oldest(self) -> None:
        oldest = list(self._open)[:CLOSE_EVERY]
        self._write(oldest)
        for round in oldest:
            del self._open[round]

    def _updated(self, event: LocalDone) -> None:
        row = self._open.get(event.round + 1)
        if row is not None:
            self._changed.add(row[0])
            weights = row[8:] if event.weights is None else event.weights
            self._open[row[0]] = (*row[:7], event.updates, *weights)

    def _go_back(self, round: int) -> None:
        """The party goes on from the end of this round: what came later is done again."""
        for later in [own for own in self._open if own > round]:
            del self._open[later]
            self._changed.discard(later)
        try:
            if self._kept() > round:
                self._at_hand().cut(_place(round + 1))
        except OSError as error:
            self._lose(error)

    def _write(self, rounds: Sequence[int]) -> None:
        """Put rounds in their places in the file."""
        try:
            for run in _runs(sorted(self._changed.intersection(rounds))):
                rows = np.array([self._open[own] for own in run], DTYPE)
                self._at_hand().write(_place(run[0]), rows.tobytes())
        except OSError as error:
            self._lose(error)
        self._changed.difference_update(rounds)

    def _lose(self, error: OSError) -> None:
        """A full disk ends the recording, not the training."""
        self.fault = f"exchanges.parquet lacks rounds: they could not be kept ({reason(error)})"

    def _at_hand(self) -> Scratch:
        """The file, which is made where it is not there."""
        if self._file is None:
            self._file = Scratch(self._path)
            if self._file.read(0, len(HEAD)) != HEAD:
                self._file.cut(0)
                self._file.write(0, HEAD)
        return self._file

    def _kept(self) -> int:
        """How many rounds have a place in the file."""
        if self._file is None and (self._path is None or not self._path.exists()):
            return 0
        return max(0, self._at_hand().size - len(HEAD)) // DTYPE.itemsize

    def flush(self) -> None:
        """Write all that has changed to disk, where it outlives the process there."""
        if self._changed and self._path is not None:
            self._write(list(self._open))

    def blocks(self) -> Iterator[Rows]:
        """All rounds in order, some thousands at a time."""
        kept = self._kept()
        for first in range(1, kept + 1, READ_ROWS):
            count = min(READ_ROWS, kept + 1 - first)
            content = self._at_hand().read(_place(first), count * DTYPE.itemsize)
            rows = np.frombuffer(content, DTYPE).copy()
            for round in range(first, first + len(rows)):
                if round in self._open:
                    rows[round - first] = self._open[round]
            # A place that was passed over has a round of 0.
            yield rows[rows["round"] > 0]
        newest = [self._open[round] for round in sorted(self._open) if round > kept]
        if newest:
            yield np.array(newest, DTYPE)

    def row_weights(self) -> dict[str, float] | None:
        """How the last update on each exchange weighed its rows: the means of the quantiles over
        all rounds, and the least of the lowest; None where nothing was weighed.

        >>> exchanges = Exchanges()
        >>> for number, low in enumerate((0.2, 0.4)):
        ...     exchanges(RoundDone("lab", 70, number, 9, weights=(low, 0.9, 1.0)))
        >>> {name: round(value, 3) for name, value in exchanges.row_weights().items()}
        {'p10': 0.3, 'p50': 0.9, 'p90': 1.0, 'p10_min': 0.2}
        """
        count, sums, least = 0, np.zeros(3), math.inf
        for rows in self.blocks():
            weighed = rows[~np.isnan(rows["weight_p10"])]
            if len(weighed):
                count += len(weighed)
                sums += [weighed[name].sum() for name in WEIGHTS]
                least = min(least, float(weighed["weight_p10"].min()))
        if not count:
            return None
        low, middle, high = (sums / count).tolist()
        return {"p10": low, "p50": middle, "p90": high, "p10_min": least}

    def weighed_as(self, other: Exchanges) -> Exchanges:
        """The same rounds, with the weights that rows had in those of another party's.

        >>> now, then = Exchanges(), Exchanges()
        >>> now(RoundDone("lab", 90, 0, 9))
        >>> then(RoundDone("lab", 70, 0, 9, weights=(0.5, 0.75, 1.0)))
        >>> [(row.used_ns, row.weight_p10) for row in now.weighed_as(then)]
        [(90, 0.5)]
        """
        made = Exchanges()
        for mine, theirs in zip(self.blocks(), other.blocks(), strict=True):
            assert (mine["round"] == theirs["round"]).all(), "both have done the same rounds"
            for name in WEIGHTS:
                mine[name] = theirs[name]
            made.extend(mine)
        return made

    def __iter__(self) -> Iterator[ExchangeRow]:
        for rows in self.blocks():
            for *numbers, low, middle, high in rows.tolist():
                weights = [None if math.isnan(each) else each for each in (low, middle, high)]
                yield ExchangeRow(*numbers, *weights)

    def __len__(self) -> int:
        return sum(map(len, self.blocks()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Exchanges | list | tuple):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Exchanges of {len(self)} rounds>"

    def __reduce__(self) -> tuple[Any, ...]:
        return exchanges_of, ([rows.tobytes() for rows in self.blocks()],)

    def extend(self, rows: Rows) -> None:
        """Note rounds that are known."""
        for row in rows.tolist():
            self._open[row[0]] = row
            self._changed.add(row[0])
        while len(self._open) >= OPEN_MAX + CLOSE_EVERY:
            self._close_oldest()


def exchanges_of(pieces: Iterable[bytes]) -> Exchanges:
    """Exchanges from the bytes of their blocks.

    >>> len(exchanges_of([np.ones(1, DTYPE).tobytes()]))
    1
    """
    made = Exchanges()
    for piece in pieces:
        made.extend(np.frombuffer(piece, DTYPE))
    return made


def _place(round: int) -> int:
    return len(HEAD) + (round - 1) * DTYPE.itemsize


def _runs(rounds: Sequence[int]) -> Iterator[Sequence[int]]:
    """Rounds that follow one another, together."""
    first = 0
    for place in range(1, len(rounds) + 1):
        if place == len(rounds) or rounds[place] != rounds[place - 1] + 1:
            yield rounds[first:place]
            first = place
