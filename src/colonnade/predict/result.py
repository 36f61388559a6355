"""Scores as people read them: class names, calibrated probabilities, and who lacked which row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from colonnade.errors import RequestError, reason
from colonnade.learn.saved import Head
from colonnade.predict.request import Scored
from colonnade.record.private import private_file

Array = NDArray[Any]
ENDINGS = (".parquet", ".csv")


def columns_of(head: Head, scored: Scored, mean: bool, raw: bool = False) -> dict[str, pa.Array]:
    """The columns of a result: what is predicted, how probable each class is, which parties lacked
    the row, and with which model it was scored."""
    scores, card = scored.scores, head.card
    known: NDArray[np.bool_] = np.asarray(np.isfinite(scores).all(axis=1))
    columns: dict[str, pa.Array] = {}
    if card.task == "regression":
        columns["prediction"] = _with_nulls(scores[:, 0], known)
    else:
        shares = head.probabilities(np.where(known[:, None], scores, 0.0))
        chosen = np.asarray(card.classes, dtype=object)[shares.argmax(axis=1)]
        columns["prediction"] = pa.array(chosen, pa.string(), mask=~known)
        for code, name in enumerate(card.classes):
            columns[f"probability_{name}"] = _with_nulls(shares[:, code], known)
    if raw:
        for place in range(scores.shape[1]):
            name = "score" if scores.shape[1] == 1 else f"score_{place}"
            columns[name] = _with_nulls(scores[:, place], known)
    columns["missing"] = pa.array(missing_at(scored, len(scores)), pa.string())
    if mean:
        used = ["mean" if row else None for row in missing_rows(scored, len(scores))]
        columns["imputed"] = pa.array(used, pa.string())
    columns["model"] = pa.array([card.version] * len(scores), pa.string())
    return columns


def missing_rows(scored: Scored, rows: int) -> NDArray[np.bool_]:
    """Which rows some party lacked."""
    found = np.zeros(rows, dtype=np.bool_)
    for lacking in scored.lacking.values():
        found |= lacking
    return found


def missing_at(scored: Scored, rows: int) -> list[str | None]:
    """For each row the parties that lacked it, or did not answer; None where nobody did."""
    everywhere = [*scored.declined, *scored.late]
    return [
        ", ".join([name for name, lacks in scored.lacking.items() if lacks[row]] + everywhere)
        or None
        for row in range(rows)
    ]


def _with_nulls(values: Array, known: NDArray[np.bool_]) -> pa.Array:
    return pa.array(np.asarray(values, dtype=np.float64), mask=~known)


class ResultFile:
    """A file of scores, written piece by piece; it is there whole or not at all."""

    def __init__(self, path: Path, about: Mapping[str, str]) -> None:
        if path.suffix.lower() not in ENDINGS:
            raise RequestError(f"--to {path} says no format: end it in {' or '.join(ENDINGS)}")
        if not path.parent.is_dir():
            raise RequestError(f"there is no folder {path.parent}: make it, or choose another --to")
        self.path, self._about = path, about
        self._part = path.with_name(f".{path.name}.part")
        self._writer: Any = None

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        try:
            if self._writer is None:
                self._writer = self._open(table.schema)
            self._writer.write_table(table)
        except OSError as error:
            raise RequestError(f"{self.path} cannot be written: {reason(error)}") from None

    def _open(self, schema: pa.Schema) -> Any:
        private_file(self._part)
        if self.path.suffix.lower() == ".csv":
            return pa.csv.CSVWriter(str(self._part), schema)
        said = {key.encode(): value.encode() for key, value in self._about.items()}
        return pq.ParquetWriter(str(self._part), schema.with_metadata(said))

    def close(self) -> None:
        """All rows are written: give the file its name."""
        if self._writer is not None:
            self._writer.close()
            self._part.replace(self.path)

    def discard(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            self._writer.close()
        self._part.unlink(missing_ok=True)
