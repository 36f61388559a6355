"""Categories as whole numbers, of which a model makes 0/1 columns or looks up vectors.

Code 0 is a missing value and 1 all *other* words: those too rare to learn from, and those that were
not there in training. What had no rows in training has the code -1, which stands for nothing. So
many words that a list of them is no use get a code by their hash.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.data.layout import CODES_MAX, WIDTH_MAX, Input, embedding_width
from colonnade.data.values import categories, counted

Codes = npt.NDArray[np.int64]
Form = Literal["one-hot", "embedding", "hash"]
ONE_HOT_MAX = 32
LISTED_MAX = 10_000
_BUCKETS_MAX = 1 << 16
_RARE = 5
"""Words with fewer rows are grouped, where there are more than a few words."""
_FEW = 10
_NOTHING, _MISSING, _OTHER, _FIRST = -1, 0, 1, 2


class Coded(msgspec.Struct, frozen=True, tag="coded", forbid_unknown_fields=True):
    """What is known of a column of categories.

    >>> fitted = Coded.learn("sex", pa.chunked_array([["f", "m", "f"]]))
    >>> fitted.values, fitted.word
    (['f', 'm'], 'one-hot')
    """

    name: str
    values: list[str]
    """The words in the order of their codes, which begin at 2."""
    width: int = 0
    """Of the vector for each; 0 makes 0/1 columns."""
    missing: bool = False
    """Whether values were missing in training."""
    other: bool = False
    """Whether words were grouped in training."""
    buckets: int = 0
    """How many codes hashes have, which begin at 2; 0 where words are listed."""

    def __post_init__(self) -> None:
        if self.size > CODES_MAX or not 0 <= self.width <= WIDTH_MAX or self.buckets < 0:
            raise ValueError(f"column '{self.name}' has too many codes, or vectors too wide")
        if len(set(self.values)) < len(self.values) or (self.values and self.buckets):
            raise ValueError(f"the words of column '{self.name}' are not one code each")

    @property
    def size(self) -> int:
        """How many codes there are."""
        return _FIRST + (self.buckets or len(self.values))

    @property
    def names(self) -> list[str]:
        """The name of the column it becomes."""
        return [self.name]

    @property
    def inputs(self) -> list[Input]:
        """What a model makes of it."""
        first = _MISSING if self.missing else _OTHER if self.other else _FIRST
        return [Input(codes=self.size, width=self.width, first=0 if self.width else first)]

    @property
    def word(self) -> Form:
        """How a person is told of it."""
        if self.buckets:
            return "hash"
        return "embedding" if self.width else "one-hot"

    @classmethod
    def learn(cls, name: str, column: pa.ChunkedArray, form: Form | None = None) -> Coded:
        """What there is to know of training rows; without a form the fitting one is chosen."""
        counts = counted(column, name)
        present = sum(counts.values())
        missing = 0 < present < len(column)
        if form == "hash" or (form is None and len(counts) > LISTED_MAX):
            buckets = min(_BUCKETS_MAX, 1 << max(4, (len(counts) - 1).bit_length()))
            return cls(name, [], embedding_width(buckets), missing, buckets=buckets)
        kept = [word for word, count in counts.items() if count >= _RARE]
        if len(counts) <= _FEW or not kept:
            kept = list(counts)
        kept = kept[: CODES_MAX - _FIRST]
        other = len(kept) < len(counts)
        wide = form == "embedding" or (form is None and len(kept) > ONE_HOT_MAX)
        width = embedding_width(_FIRST + len(kept)) if wide else 0
        return cls(name, kept, width, missing, other)

    def codes(self, column: pa.ChunkedArray) -> Codes:
        """The code of each row."""
        words, places = categories(column, self.name)
        absent = _MISSING if self.missing else _NOTHING
        known = self._known(words)
        own = np.array([absent, *(absent if w is None else known[w] for w in words)], np.int64)
        return own[places]

    def _known(self, words: list[str | None]) -> dict[str, int]:
        if self.buckets:
            return {w: _FIRST + _hash(w) % self.buckets for w in words if w is not None}
        listed = {word: code for code, word in enumerate(self.values, _FIRST)}
        other = _OTHER if self.other else _NOTHING
        return {w: listed.get(w, other) for w in words if w is not None}

    def unseen(self, column: pa.ChunkedArray) -> int:
        """How many rows have a word that is not listed; those that are hashed are not known.

        >>> Coded("x", ["a", "b"]).unseen(pa.chunked_array([["a", "c", "c", None]]))
        2
        """
        if self.buckets:
            return 0
        listed = set(self.values)
        counts = counted(column, self.name)
        return sum(count for word, count in counts.items() if word not in listed)

    def fill(self, column: pa.ChunkedArray, out: npt.NDArray[np.floating]) -> None:
        """Write the codes into `out` [rows, 1]."""
        out[:, 0] = self.codes(column)


def _hash(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
