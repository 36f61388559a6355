"""Which rows a model learns from, which decide between models, and which are looked at once.

*Test* rows are a share of all rows, or a part of their own that a data set brings. *Validation*
rows are a share of the others. Whether a row is one follows from a keyed hash of its id, or of
its number where rows have no ids: a hash says nothing of what the row is like, and every party
that holds the ids comes to the same rows. The key is `train.split_seed`, which all parties know.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from colonnade.data.batches import Rows, held_out, splitmix64
from colonnade.errors import DataError

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
_CHUNK = 1 << 18
_MIX_A, _MIX_B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Parts(NamedTuple):
    """The rows of each split, in ascending order."""

    train: Rows
    validation: Rows
    test: Rows

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each has, for a fingerprint."""
        return {split: len(rows) for split, rows in self._asdict().items()}


def split_rows(
    count: int,
    test: float | Rows,
    validation: float,
    seed: int,
    ids: Any = None,
) -> Parts:
    """Divide rows; `test` is a share of them, or says which they are.

    `ids` are the texts that name the rows, where they have names; those of test rows may be
    missing at the end.

    >>> parts = split_rows(100, test=0.2, validation=0.1, seed=0)
    >>> [len(rows) for rows in parts]
    [72, 8, 20]
    """
    if isinstance(test, np.ndarray):
        held = test
        rest = np.setdiff1d(np.arange(count), held, assume_unique=True)
    else:
        rest, held = held_out(count, test, seed)
    train, kept = set_aside(rest, validation, seed, ids)
    return Parts(train, kept, held)


def set_aside(rows: Rows, share: float, seed: int, ids: Any = None) -> tuple[Rows, Rows]:
    """Divide rows into those to train on and a share for validation, by a keyed hash.

    Those with the smallest hashes are set aside, one at least where the share is not 0: so when
    rows come or go, next to none of the others change sides.

    >>> train, validation = set_aside(np.arange(10), 0.2, seed=0)
    >>> len(train), len(validation)
    (8, 2)
    """
    if share == 0 or len(rows) == 0:
        return rows, rows[:0]
    count = max(1, int(len(rows) * share + 0.5))
    hashes = _of_numbers(rows, seed) if ids is None else _of_ids(ids, rows, seed)
    chosen = np.zeros(len(rows), dtype=np.bool_)
    chosen[np.argsort(hashes, kind="stable")[:count]] = True
    return rows[~chosen], rows[chosen]


def _of_ids(ids: Any, rows: Rows, seed: int) -> npt.NDArray[np.uint64]:
    """The first eight bytes of a keyed BLAKE2b of each id."""
    keyed = hashlib.blake2b(digest_size=8, key=str(seed).encode()[:64], person=b"validation")
    hashes = np.empty(len(rows), dtype=np.uint64)
    # Texts of Python's take several times the memory of those in a column.
    for start in range(0, len(rows), _CHUNK):
        texts = ids.take(rows[start : start + _CHUNK]).to_pylist()
        for place, text in enumerate(texts, start):
            each = keyed.copy()
            each.update(text.encode())
            hashes[place] = int.from_bytes(each.digest(), "little")
    return hashes


def _of_numbers(rows: Rows, seed: int) -> npt.NDArray[np.uint64]:
    """`splitmix64` of every row's number; the key differs from those of test rows and batches."""
    key = splitmix64(splitmix64(seed) ^ 0x5A11DA7E)
    mixed = rows.astype(np.uint64) ^ np.uint64(key)
    with np.errstate(over="ignore"):
        mixed += np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX_A
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX_B
    return mixed ^ (mixed >> np.uint64(31))


def check_share(name: str, share: float) -> None:
    """Refuse what is no share of rows.

    >>> check_share("test", 0.2)
    """
    given: Any = share
    if not isinstance(given, int | float) or not 0 <= share < 1:
        raise DataError(f"{name} is {share!r}: give a share of the rows, from 0 to below 1")
