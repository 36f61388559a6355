"""What being scored has cost each row of a passive party, where embeddings leave with noise.

A row *spends* a part of its privacy each time that it leaves: the μ² of `protect.accountant`, which
adds up whatever the noise of each release was. What every row has spent lies in a file beside the
party's ledger of predictions, 24 bytes a row, and is there before the row leaves. Rows are known by
digests of their ids, so that a table which has grown, or is in another order, finds again what its
rows have spent; those that it lacks now are remembered.
"""

from __future__ import annotations

import hashlib
import math
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colonnade.align.idset import digests_of
from colonnade.errors import RequestError
from colonnade.formats import check
from colonnade.job.ids import Ids
from colonnade.predict.lookup import NAME_BYTES, Lookup
from colonnade.predict.rows import LACKING, PartyRows, Rows
from colonnade.record.private import write_whole

Spent = NDArray[np.float64]
SPENT = "spent"
_NAME = b"colonnade spent"
_MAGIC = _NAME + b"\n"
"""The end of the line stands for format 1; a digit in its place will be a later one."""
_HEADER = np.dtype([("magic", "S16"), ("rule", "V32"), ("floor", "<f8"), ("rows", "<i8")])
"""What the file begins with; then all names, then what each has spent. A row without a name there
has spent the floor."""
ROUNDING = 1e-9
"""By such a share a sum of equal parts may be off."""


class RowAccount:
    """What each row has spent, and whether it may leave once more.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     account = RowAccount(Path(folder), bytes(32), "ids", once=1.0, most=2.0)
    ...     account.refuse(np.array([0, 0, -1])), account.highest, account.refuse(np.array([0]))
    (None, 2.0, 'what a row may tell is used up')
    """

    def __init__(
        self,
        folder: Path,
        names: bytes,
        rule: str,
        once: float,
        most: float = math.inf,
        refusal: str = "what a row may tell is used up",
    ) -> None:
        """`names` has 16 bytes a row, made by a `rule`; a release spends `once`, and all of them
        together may spend the `most`."""
        self._path, self._once, self._most, self._refusal = folder / SPENT, once, most, refusal
        self._mark = hashlib.sha256(rule.encode()).digest()
        self._rows = len(names) // NAME_BYTES
        kept_names, kept, self._floor = _read(self._path, self._mark)
        self._is_kept = self._path.is_file() and kept_names[: len(names)] == names
        self._names, self._before = kept_names, kept
        if not self._is_kept:
            self._names, self._before = _carried(names, kept_names, kept, self._floor)
        self.highest = self.began = float(self._before[: self._rows].max(initial=0.0))
        """What the row of the table has spent that has spent most, and had when this process
        began."""

    @cached_property
    def _spent(self) -> Spent:
        """The file itself: what is written there is the operating system's at once, so that it
        outlives the process, as the ledger does."""
        rows, start = len(self._before), _HEADER.itemsize + len(self._names)
        if not self._is_kept:
            header = np.array([(_MAGIC, self._mark, self._floor, rows)], _HEADER)
            pieces = header.tobytes(), self._names, self._before.astype("<f8").tobytes()
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._path, pieces)
        return np.memmap(self._path, "<f8", "r+", offset=start, shape=(rows,))

    def refuse(self, rows: Rows, means: int = 0, sample: int = 1) -> str | None:
        """Why these rows do not leave; None if they do, and have spent it. So many `means` leave
        with them, of a `sample` of rows each of which has that share in it."""
        which, times = np.unique(rows[rows != LACKING], return_counts=True)
        if not (len(which) or means) or not self._rows:
            return None
        after = self._spent[which] + times * self._once
        # Noise is as large for a mean, and one row moves that by so much less.
        shared = means * self._once / sample**2
        worst = max(float(after.max(initial=0.0)), self.highest if means else 0.0) + shared
        if worst > self._most * (1 + ROUNDING):
            return self._refusal
        if means:
            self._spent[: self._rows] += shared
        self._spent[which] = after + shared
        self.highest = max(self.highest, worst)
        return None

    def settle(self) -> None:
        """The process ends in order: wait until everything is on the disk."""
        if isinstance(spent := vars(self).get("_spent"), np.memmap):
            spent.flush()


def names_of(rows: PartyRows, rule: Ids, columns: object) -> tuple[bytes, str]:
    """The names of a party's rows, and the rule by which they are made: of ids in some columns, or
    else of their places.

    >>> names, rule = names_of(PartyRows(2, {}), Ids(), None)
    >>> len(names), rule
    (32, 'places')
    """
    if rows.ids is not None:
        texts = rows.ids.to_pylist()
        return b"".join(digests_of(texts, rule)), f"ids {columns} {rule.text()}"
    places = np.zeros((rows.count, NAME_BYTES // 8), dtype="<u8")
    places[:, 0] = np.arange(rows.count)
    return places.tobytes(), "places"


def _carried(names: bytes, kept_names: bytes, kept: Spent, floor: float) -> tuple[bytes, Spent]:
    """What the rows of a table have spent by what was kept, then the kept ones that it lacks."""
    at = Lookup(kept_names).rows(names)
    known, gone = at != LACKING, kept > floor
    spent = np.full(len(at), floor)
    spent[known] = kept[at[known]]
    gone[at[known]] = False
    table = np.frombuffer(kept_names, np.uint8).reshape(-1, NAME_BYTES)
    return names + table[gone].tobytes(), np.concatenate([spent, kept[gone]])


def _read(path: Path, mark: bytes) -> tuple[bytes, Spent, float]:
    """Names, what they have spent, and the floor; under another rule only a floor is left: who is
    who cannot be told, so that all have spent what any has."""
    if not path.is_file():
        return b"", np.zeros(0), 0.0
    content = path.read_bytes()
    head = content[: _HEADER.itemsize]
    header = np.frombuffer(head, _HEADER)[0] if len(head) == _HEADER.itemsize else None
    rows = -1 if header is None else int(header["rows"])
    size = _HEADER.itemsize + rows * (NAME_BYTES + 8)
    version = head[len(_NAME) : len(_MAGIC)]
    if head.startswith(_NAME) and version.isdigit():
        check("account", int(version), path)
    if header is None or head[: len(_MAGIC)] != _MAGIC or rows < 0 or len(content) != size:
        raise _damaged(path)
    names = content[_HEADER.itemsize : _HEADER.itemsize + rows * NAME_BYTES]
    spent = np.frombuffer(content[_HEADER.itemsize + len(names) :], "<f8")
    floor = float(header["floor"])
    if not (floor >= 0 and (spent >= 0).all()):
        raise _damaged(path)
    if header["rule"].tobytes() != mark:
        return b"", np.zeros(0), float(spent.max(initial=floor))
    return names, spent, floor


def _damaged(path: Path) -> RequestError:
    return RequestError(
        f"{path} is damaged, which has what every row has told by being scored: put it back, or "
        "choose another --out and count from the beginning"
    )
