"""Rows by 16 bytes that name them: digests of ids, or tags."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.predict.rows import LACKING, Rows

NAME_BYTES = 16


class Lookup:
    """An index over as many names as a table has rows, of 24 bytes each.

    >>> index = Lookup(b"a" * 16 + b"b" * 16)
    >>> index.rows(b"b" * 16 + b"c" * 16).tolist()
    [1, -1]
    """

    def __init__(self, names: bytes) -> None:
        """`names` are those of the rows, one after the other."""
        words = _words(names)
        self._order = np.argsort(words[:, 0], kind="stable")
        self._sorted = words[self._order]

    def rows(self, names: bytes) -> Rows:
        """The rows that have these names; `LACKING` where none has."""
        wanted = _words(names)
        if not len(self._sorted):
            return np.full(len(wanted), LACKING, dtype=np.int64)
        at = np.searchsorted(self._sorted[:, 0], wanted[:, 0])
        at = np.minimum(at, len(self._sorted) - 1)
        found = (self._sorted[at] == wanted).all(axis=1)
        return np.where(found, self._order[at], LACKING)


def _words(names: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(names, dtype=np.uint64).reshape(-1, NAME_BYTES // 8)
