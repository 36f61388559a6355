"""A party's ids as digests of 16 bytes in a file, in ascending order, each with its row.

The file has 24 bytes an id, and is built piece by piece, so that a large table takes little memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.errors import DataError
from colonnade.job.ids import Ids
from colonnade.record.private import private_file

DIGEST_BYTES = 16
RECORD = np.dtype([("high", ">u8"), ("low", ">u8"), ("row", "<i8")])
"""A digest as two words in big-endian order, so that its bytes and its numbers sort alike."""
Records = npt.NDArray[np.void]
Words = npt.NDArray[np.uint64]
"""Digests as two words a row, in the machine's own order."""
_PIECE = 2**18
"""About how many ids are sorted in memory at once."""
_BATCH = 2**16


class IdSet:
    """The ids of one party.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ids = IdSet.build(Path(folder) / "ids", [pa.array(["b", "a"])], Ids(), "bank.csv")
    ...     len(ids), sorted(ids.rows(np.arange(2)).tolist()), len(ids.digests(0, 2))
    (2, [0, 1], 2)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = path.stat().st_size // RECORD.itemsize

    def __len__(self) -> int:
        return self._count

    def _read(self, start: int, stop: int) -> Records:
        """Some records. The file is read and not mapped: what is mapped counts as the process's
        memory as long as it is."""
        return np.fromfile(
            self.path,
            dtype=RECORD,
            count=max(0, min(stop, len(self)) - start),
            offset=start * RECORD.itemsize,
        )

    @classmethod
    def build(cls, path: Path, texts: Iterable[pa.Array], rule: Ids, where: str) -> IdSet:
        """From the ids of a table as text, in pieces, in the order of its rows."""
        spilled = path.with_suffix(".spilled")
        with private_file(spilled).open("wb") as file:
            row = 0
            for text in texts:
                for start in range(0, len(text), _BATCH):
                    records = _digested(text.slice(start, _BATCH), rule, row)
                    file.write(records.tobytes())
                    row += len(records)
        try:
            with private_file(path).open("wb") as file:
                for piece in _sorted_pieces(spilled, row):
                    _refuse_duplicates(piece, where)
                    file.write(piece.tobytes())
        finally:
            spilled.unlink()
        return cls(path)

    def digests(self, start: int, stop: int) -> list[bytes]:
        """Of the ids from one place of the order to another."""
        piece = self._read(start, stop)
        packed = np.empty((len(piece), 2), dtype=">u8")
        packed[:, 0], packed[:, 1] = piece["high"], piece["low"]
        flat = packed.tobytes()
        return [flat[at : at + DIGEST_BYTES] for at in range(0, len(flat), DIGEST_BYTES)]

    def words(self, start: int, stop: int) -> Words:
        """As `digests`, as numbers."""
        piece = self._read(start, stop)
        return np.stack([piece["high"], piece["low"]], axis=1).astype(np.uint64)

    def find(self, wanted: Words) -> npt.NDArray[np.int64]:
        """The place of each digest in the order, -1 for those that are not here."""
        places = np.full(len(wanted), -1, dtype=np.int64)
        for start in range(0, len(self), _PIECE):
            piece = self.words(start, start + _PIECE)
            near = (wanted[:, 0] >= piece[0, 0]) & (wanted[:, 0] <= piece[-1, 0])
            inside = np.flatnonzero(near)
            found = _find(piece, wanted[inside])
            places[inside[found >= 0]] = start + found[found >= 0]
        return places

    def without(self, earlier: Sequence[IdSet], path: Path) -> tuple[IdSet, int]:
        """The ids that none of the earlier sets has, as a set in another file, and how many of the
        earlier ones are not here any more."""
        is_new, missing = np.ones(len(self), dtype=bool), 0
        for before in earlier:
            for start in range(0, len(before), _PIECE):
                places = self.find(before.words(start, start + _PIECE))
                missing += int((places < 0).sum())
                is_new[places[places >= 0]] = False
        with private_file(path).open("wb") as file:
            for start in range(0, len(self), _PIECE):
                piece = self._read(start, start + _PIECE)
                file.write(piece[is_new[start : start + _PIECE]].tobytes())
        return IdSet(path), missing

    def rows(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rows in the table of the ids at these places."""
        found = np.empty(len(places), dtype=np.int64)
        for start in range(0, len(self), _PIECE):
            inside = (places >= start) & (places < start + _PIECE)
            if inside.any():
                piece = self._read(start, start + _PIECE)["row"]
                found[inside] = piece[places[inside] - start]
        return found

    def edges(self, buckets: int) -> npt.NDArray[np.int64]:
        """Where each of so many buckets begins, and the last one ends; ids fall into them by their
        digests."""
        firsts = np.array(
            [-(-(number << 64) // buckets) for number in range(1, buckets)], dtype=np.uint64
        )
        places = np.zeros(len(firsts), dtype=np.int64)
        for start in range(0, len(self), _PIECE):
            high = self._read(start, start + _PIECE)["high"].astype(np.uint64)
            places += np.searchsorted(high, firsts, side="left")
        return np.concatenate([[0], places, [len(self)]]).astype(np.int64)

    def fingerprint(self) -> str:
        """Of all ids with their rows: another one, where the table has changed."""
        mixed = hashlib.sha256()
        for start in range(0, len(self), _PIECE):
            mixed.update(self._read(start, start + _PIECE).tobytes())
        return mixed.hexdigest()


def _find(piece: Words, wanted: Words) -> npt.NDArray[np.int64]:
    """Where in an ascending piece each digest is, or -1."""
    found = np.full(len(wanted), -1, dtype=np.int64)
    at = np.searchsorted(piece[:, 0], wanted[:, 0], side="left")
    left = np.arange(len(wanted))
    # Digests whose first halves are the same stand side by side.
    while len(left):
        at, left = at[at < len(piece)], left[at < len(piece)]
        same = piece[at, 0] == wanted[left, 0]
        at, left = at[same], left[same]
        hit = piece[at, 1] == wanted[left, 1]
        found[left[hit]] = at[hit]
        at, left = at[~hit] + 1, left[~hit]
    return found


def digests_of(texts: Iterable[str], rule: Ids) -> list[bytes]:
    """The digests of ids, which stand for them wherever they are compared.

    >>> [len(digest) for digest in digests_of(["c1", "c2"], Ids())]
    [16, 16]
    """
    begun = hashlib.blake2b(digest_size=DIGEST_BYTES, person=b"colonnade id")
    said = rule.text().encode()
    begun.update(len(said).to_bytes(2, "big") + said)
    found = []
    for text in texts:
        each = begun.copy()
        each.update(text.encode())
        found.append(each.digest())
    return found


def _digested(texts: pa.Array, rule: Ids, first: int) -> Records:
    flat = b"".join(digests_of(texts.to_pylist(), rule))
    words = np.frombuffer(flat, dtype=">u8").reshape(-1, 2)
    records = np.empty(len(words), dtype=RECORD)
    records["high"], records["low"] = words[:, 0], words[:, 1]
    records["row"] = np.arange(first, first + len(words))
    return records


def _sorted_pieces(spilled: Path, count: int) -> Iterator[Records]:
    """All records in ascending order, as many at a time as fit into memory."""
    parts = -(-count // _PIECE)
    for part in range(parts):
        piece = _part(spilled, count, part, parts)
        yield piece[np.lexsort((piece["low"], piece["high"]))]


def _part(spilled: Path, count: int, part: int, parts: int) -> Records:
    """The records whose digests fall into one of so many equal ranges."""
    low = np.uint64(-(-(part << 64) // parts))
    found = [np.empty(0, dtype=RECORD)]
    for start in range(0, count, _PIECE):
        offset = start * RECORD.itemsize
        piece = np.fromfile(spilled, dtype=RECORD, count=_PIECE, offset=offset)
        inside = piece["high"] >= low
        if part + 1 < parts:
            inside &= piece["high"] < np.uint64(-(-((part + 1) << 64) // parts))
        found.append(piece[inside])
    # Joining arrays turns their words into the machine's own order.
    return np.concatenate(found).astype(RECORD)


def _refuse_duplicates(piece: Records, where: str) -> None:
    same = (piece["high"][1:] == piece["high"][:-1]) & (piece["low"][1:] == piece["low"][:-1])
    if not same.any():
        return
    at = int(np.flatnonzero(same)[0])
    rows = sorted(int(row) + 1 for row in piece["row"][at : at + 2])
    raise DataError(
        f"{where} has duplicate ids under the rule of the job: rows {rows[0]:,} and {rows[1]:,} "
        f"have the same, and {int(same.sum()):,} or more rows repeat one: keep one row per id"
    )
