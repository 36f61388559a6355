"""Tables that are larger than what a party should hold in memory.

What is learnt about columns is learnt from a sample of the training rows. All rows are then
encoded piece by piece into a file that is mapped into memory, one number or code for each column,
from which a training gathers its batches; the operating system keeps of it what there is room for.
The file has no name any more once it is open, so that nobody else can open it and nothing is left
behind.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.data.batches import Rows
from colonnade.data.files import TableFile
from colonnade.data.preprocess import Preprocessor
from colonnade.errors import DataError

IN_MEMORY_BYTES = 1 << 30
"""Tables up to this size are read as a whole."""
SAMPLE = 200_000
"""From so many training rows what is to be known of columns is learnt."""
Places = npt.NDArray[np.int32]
ELSEWHERE = -1
"""The place of a row that not all parties have."""


def is_large(file: TableFile, columns: Sequence[str]) -> bool:
    """Whether so many columns of a table should not be read as a whole."""
    return file.count_bytes(len(columns)) > IN_MEMORY_BYTES


@dataclass(frozen=True, eq=False)
class OnDisk:
    """The features of a party that stay in its file."""

    file: TableFile
    names: list[str]
    places: Places
    """For each row of the file its place in the common order; `ELSEWHERE`, if it has none."""

    def only(self, rows: Rows) -> OnDisk:
        """As if there were no other rows than these, in this order."""
        now = np.full(len(self.places) + 1, ELSEWHERE, dtype=np.int32)
        now[rows] = np.arange(len(rows), dtype=np.int32)
        return OnDisk(self.file, self.names, now[self.places])

    def take(self, rows: Rows) -> Part:
        """Some of the rows, by their places, in ascending order."""
        return Part(self, rows)


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a table that stays in its file."""

    whole: OnDisk
    rows: Rows

    def sample(self) -> pa.Table:
        """Rows to learn from, spread evenly over all of them."""
        step = -(-len(self.rows) // SAMPLE) if len(self.rows) else 1
        chosen = Part(self.whole, self.rows[::step])
        pieces = [piece for piece, _ in chosen._pieces()]
        return pa.concat_tables(pieces)

    def encoded(self, fitted: Preprocessor) -> npt.NDArray[np.float32]:
        """All rows as a model reads them, in a file that is mapped into memory."""
        out = _mapped(len(self.rows), fitted.width)
        for piece, slots in self._pieces():
            out[slots] = fitted.transform(piece)
        return out

    def _pieces(self) -> Any:
        """The rows in the order of the file, and where each belongs."""
        # The last slot is that of `ELSEWHERE`, and stays empty.
        slots = np.full(len(self.whole.places) + 1, -1, dtype=np.int32)
        slots[self.rows] = np.arange(len(self.rows), dtype=np.int32)
        start = 0
        for batch in self.whole.file.batches(self.whole.names):
            own = slots[self.whole.places[start : start + batch.num_rows]]
            start += batch.num_rows
            kept = own >= 0
            if kept.any():
                yield pa.Table.from_batches([batch.filter(pa.array(kept))]), own[kept]
        if start != (had := len(self.whole.places)):
            raise DataError(
                f"{self.whole.file.path} had {had} rows and has {start} now: leave it as it "
                "is while it is read"
            )


def folder() -> Path:
    """Where rows are kept that do not fit into memory: `COLONNADE_CACHE`, or the user's cache."""
    own = os.environ.get("COLONNADE_CACHE")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(own or f"{cache}/colonnade/rows").expanduser()


def _mapped(rows: int, width: int) -> npt.NDArray[np.float32]:
    if not rows or not width:
        return np.zeros((rows, width), dtype=np.float32)
    place, size = folder(), rows * width * 4
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=place) as file:
            # The room is taken now: a full disk must not end a training by a signal.
            os.posix_fallocate(file.fileno(), 0, size)
            mapped = mmap.mmap(file.fileno(), size)
            # A batch has rows from everywhere, and what lies beside them would be read in vain.
            mapped.madvise(mmap.MADV_RANDOM)
            return np.frombuffer(mapped, dtype=np.float32).reshape(rows, width)
    except OSError as error:
        raise DataError(
            f"there is no room for {size / 2**30:.1f} GiB of encoded rows in {place} "
            f"({str(error.strerror or error).lower()}): set COLONNADE_CACHE to a folder that has it"
        ) from None
