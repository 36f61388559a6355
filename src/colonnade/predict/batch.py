"""Many rows, read piece by piece and scored in order: what `colonnade predict` asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from colonnade.align.idset import digests_of
from colonnade.job.ids import Ids
from colonnade.predict.lookup import Lookup
from colonnade.predict.request import ROWS_MAX, Array, Request, Scored
from colonnade.predict.rows import LACKING, PartyRows, Rows, places_in


@dataclass(frozen=True, eq=False)
class Piece:
    """Some of the rows that are to be scored."""

    shown: pa.Table
    """How they are named in the result."""
    texts: list[str] | None = None
    """Their ids under the job's rule; None where their places name them."""
    places: Rows | None = None


class IdRows:
    """The active party's rows by id."""

    def __init__(self, rows: PartyRows, rule: Ids) -> None:
        self.rows, self.rule = rows, rule
        digests = [] if rows.ids is None else digests_of(rows.ids.to_pylist(), rule)
        self._index = Lookup(b"".join(digests))
        self._places = places_in(rows)

    def request(
        self,
        texts: list[str],
        model: str,
        deliver: Callable[[Scored], None],
        mean: bool = False,
        deadline_ns: int | None = None,
        features: Array | None = None,
    ) -> Request:
        """A request for the rows with these ids, or at these places where rows have none, written
        as numbers; `features` are the active party's own numbers of
        them, where it is given others than its table has."""
        if self.rows.ids is None:
            at = np.array(texts, dtype=np.int64)
            return Request(model, self.rows.at(at), at, [], deliver, mean, deadline_ns, features)
        digests = digests_of(texts, self.rule)
        own = self._index.rows(b"".join(digests))
        known = own != LACKING
        places = (
            np.where(known, self._places[np.where(known, own, 0)], LACKING)
            if len(self._places)
            else np.full(len(own), LACKING)
        )
        return Request(model, own, places, digests, deliver, mean, deadline_ns, features)


class Batch:
    """Requests for pieces of rows, whose results are handed on in order."""

    def __init__(
        self,
        pieces: Iterator[Piece],
        index: Callable[[], IdRows],
        model: str,
        keep: Callable[[Piece, Scored], None],
        mean: bool = False,
        rows: int = 0,
    ) -> None:
        self.rows = rows
        self._pieces, self._index, self._model, self._keep = pieces, index, model, keep
        self._mean = mean
        self._taken = self._kept = 0
        self._results: dict[int, tuple[Piece, Scored]] = {}
        self.over = False

    def take(self) -> Request | None:
        piece = next(self._pieces, None)
        if piece is None:
            self.over = True
            return None
        deliver = partial(self._deliver, self._taken, piece)
        self._taken += 1
        if piece.texts is not None:
            return self._index().request(piece.texts, self._model, deliver, self._mean)
        assert piece.places is not None
        own = self._index().rows.at(piece.places)
        return Request(self._model, own, piece.places, [], deliver, self._mean)

    def bind(self, interrupt: Callable[[], None]) -> None:
        """Everything is there already."""

    def _deliver(self, number: int, piece: Piece, scored: Scored) -> None:
        self._results[number] = piece, scored
        while self._kept in self._results:
            self._keep(*self._results.pop(self._kept))
            self._kept += 1


def pieces_of(table: pa.Table, texts: pa.Array) -> Iterator[Piece]:
    """Ids in pieces as large as a request may be; `table` shows them as they were given."""
    for start in range(0, len(texts), ROWS_MAX):
        part = texts.slice(start, ROWS_MAX).to_pylist()
        yield Piece(table.slice(start, ROWS_MAX), texts=part)


def pieces_at(places: Rows) -> Iterator[Piece]:
    """Places in the order of the training, in pieces of the same size."""
    for start in range(0, len(places), ROWS_MAX):
        part = places[start : start + ROWS_MAX]
        yield Piece(pa.table({"row": part}), places=part)
