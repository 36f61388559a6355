"""What a batch is asked for, and the file that its scores are written to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from colonnade.data.files import TableFile
from colonnade.data.ids import id_texts
from colonnade.data.named import load as load_named
from colonnade.data.own import id_columns
from colonnade.data.party import read_files, split_files
from colonnade.data.splits import SPLITS, Split, split_rows
from colonnade.errors import RequestError
from colonnade.job.records import Job
from colonnade.predict.batch import Batch, Piece, pieces_at, pieces_of
from colonnade.predict.request import Scored
from colonnade.predict.result import ResultFile, columns_of, missing_rows
from colonnade.predict.rows import Rows
from colonnade.run.predict_party import PredictParty


@dataclass(frozen=True, eq=False)
class Asked:
    """What is to be scored."""

    count: int
    pieces: Iterator[Piece]
    by_place: bool = False


class Scores:
    """The result of a batch: written to a file as it comes."""

    def __init__(self, party: PredictParty, path: Path, mean: bool, raw: bool) -> None:
        """The first of the party's models scores."""
        self.path, self.version = path, next(iter(party.models))
        self.rows = self.without = 0
        """How many rows were scored, and how many of these some party lacked."""
        self.missing: dict[str, int] = {}
        """By party, how many rows it lacked."""
        self.declined: dict[str, str] = {}
        """By party that did not answer for some rows, why."""
        self.treatment = "its mean embedding stands in" if mean else "no score"
        self.imputes, self._party, self._raw = mean, party, raw
        about = {"colonnade.model": self.version, "colonnade.missing": "mean" if mean else "null"}
        self._file = ResultFile(path, about)

    def keep(self, piece: Piece, scored: Scored) -> None:
        """Add the rows of a piece."""
        head, rows = self._party.head(self.version), len(scored.scores)
        columns = columns_of(head, scored, self.imputes, self._raw)
        shown = {name: piece.shown[name] for name in piece.shown.column_names}
        taken = [name for name in shown if name in columns]
        if taken:
            raise RequestError(
                f"the ids are in a column named '{taken[0]}', as a column of the result is: give "
                "it another name"
            )
        self._file.write(pa.table(shown | columns))
        self.rows += rows
        self.without += int((missing_rows(scored, rows) | (len(scored.declined) > 0)).sum())
        for name, lacking in scored.lacking.items():
            self.missing[name] = self.missing.get(name, 0) + int(lacking.sum())
        self.declined |= scored.declined

    def close(self) -> None:
        """All rows are there: give the file its name."""
        self._file.close()

    def discard(self) -> None:
        """Leave nothing half-written behind."""
        self._file.discard()

    def batch(self, asked: Asked) -> Batch:
        """The requests whose results are written here."""
        party, more = self._party, (self.imputes, asked.count)
        if asked.by_place and party.ready.part.rows.order is None:
            raise RequestError(
                f"the table of {party.me} has changed since the training, so its rows cannot be "
                "asked for by their places: put it back, or ask by id (--ids)"
            )
        pieces = map(self._named, asked.pieces) if asked.by_place else asked.pieces
        return Batch(pieces, lambda: party.by_id, self.version, self.keep, *more)

    def _named(self, piece: Piece) -> Piece:
        """A piece of rows by place, with their ids beside it where one column has them."""
        rows, column = self._party.ready.part.rows, self._party.job.parties[self._party.me].id
        if rows.ids is None or not isinstance(column, str) or piece.places is None:
            return piece
        ids = rows.ids.take(pa.array(rows.at(piece.places))).cast(pa.string())
        return replace(piece, shown=piece.shown.append_column(column, ids))


def asked(job: Job, ids: Path | None, rows: str | None) -> Asked:
    """The ids of a file, or the rows of a split of the training."""
    if (ids is None) == (rows is None):
        raise RequestError("say what to score: --ids FILE, or --rows test")
    if ids is not None:
        party = job.parties[job.active]
        if party.id is None:
            raise RequestError(
                f"the rows of {job.active} have no ids, so none can be asked for: score those of "
                "the training, with --rows test"
            )
        columns = id_columns(job.active, party, str(ids))
        file = TableFile(ids, text=columns)
        table = file.read(file.check(columns))
        texts = id_texts(table, columns, job.ids, str(ids))
        return Asked(len(texts), pieces_of(table, texts))
    if rows not in (*SPLITS, "all"):
        raise RequestError(f"--rows {rows} is no split: choose {', '.join(SPLITS)} or all")
    places = split_places(job, rows)
    return Asked(len(places), pieces_at(places), by_place=True)


def split_places(job: Job, which: str) -> Rows:
    """The places of a split's rows in the order of the training."""
    train = job.train
    if job.data is not None:
        dataset = load_named(job.data)
        held = train.test if dataset.test_rows is None else dataset.test_rows
        parts = split_rows(len(dataset.labels), held, train.validation, train.split_seed)
    else:
        parts = split_files(train, read_files(job, job.active))
    if which == "all":
        return np.arange(sum(len(part) for part in parts))
    split: Split = which  # type: ignore[assignment]
    return parts[SPLITS.index(split)]
