"""Lists as long as a job, in little memory: one packed array for each field of their records."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T", bound=tuple[Any, ...])

WORD = "s"
"""The type of a field that has one of a few words; others are of types of `array`."""


class LongList(Generic[T]):
    """Records of a few numbers, and of words of which there are few.

    `types` has a letter for each field: `q` for an integer, `d` for a float, `s` for a word.

    >>> seen = LongList("qs", [(3, "send")])
    >>> seen.append((5, "fresh"))
    >>> seen[-1], len(seen), seen == [(3, "send"), (5, "fresh")]
    ((5, 'fresh'), 2, True)
    >>> LongList.of_columns("qs", seen.columns()) == seen
    True
    """

    __slots__ = ("_columns", "_numbers", "_recent", "_types", "_words", "append")

    def __init__(self, types: str, records: Iterable[T] = ()) -> None:
        self._types = types
        self._columns = [array("B" if each == WORD else each) for each in types]
        self._words: list[str] = []
        self._numbers: dict[str, int] = {}
        self._recent: list[T] = list(records)
        """Records that are not packed yet."""
        self.append = self._recent.append
        """Adds a record at the end; a plain list's, because it is called for every message."""

    def pack(self) -> None:
        """Whoever appends calls this now and then: many records at a time are packed quickly."""
        if not self._recent:
            return
        fields = zip(*self._recent, strict=True)
        for column, kind, values in zip(self._columns, self._types, fields, strict=True):
            if kind == WORD:
                for word in set(values):
                    self._number(word)
                column.extend(map(self._numbers.__getitem__, values))
            else:
                column.extend(values)
        self._recent.clear()

    def _packed(self) -> list[array[Any]]:
        self.pack()
        return self._columns

    def _number(self, word: str) -> int:
        number = self._numbers.get(word)
        if number is None:
            number = self._numbers[word] = len(self._words)
            self._words.append(word)
        return number

    def __len__(self) -> int:
        return len(self._columns[0]) + len(self._recent)

    def __getitem__(self, place: int) -> T:
        if place == -1 and self._recent:
            return self._recent[-1]
        values = [column[place] for column in self._packed()]
        record: Any = tuple(
            self._words[value] if kind == WORD else value
            for kind, value in zip(self._types, values, strict=True)
        )
        return record  # type: ignore[no-any-return]

    def __setitem__(self, place: int, record: T) -> None:
        if place == -1 and self._recent:
            self._recent[-1] = record
            return
        for column, kind, value in zip(self._packed(), self._types, record, strict=True):
            column[place] = self._number(value) if kind == WORD else value

    def __iter__(self) -> Iterator[T]:
        named = self._words.__getitem__
        columns: Any = [
            map(named, column) if kind == WORD else column
            for column, kind in zip(self._packed(), self._types, strict=True)
        ]
        return zip(*columns, strict=True)  # type: ignore[return-value]

    def __contains__(self, record: object) -> bool:
        return any(record == own for own in self)

    def __reduce__(self) -> tuple[Any, ...]:
        return LongList, (self._types, list(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LongList | list | tuple):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LongList({self._types!r}, {list(self)!r})"

    def column(self, place: int, start: int = 0, stop: int | None = None) -> list[Any]:
        """One field of some of the records.

        >>> LongList("qd", [(1, 0.5), (2, 0.25), (3, 1.0)]).column(1, 1)
        [0.25, 1.0]
        """
        values = self._packed()[place][start:stop].tolist()
        return [self._words[v] for v in values] if self._types[place] == WORD else values

    def columns(self) -> dict[str, Any]:
        """All of it, as arrays of numpy and a list of the words, for a checkpoint."""
        packed = [np.array(column) for column in self._packed()]
        return {"words": list(self._words), "columns": packed}

    @classmethod
    def of_columns(cls, types: str, columns: dict[str, Any]) -> LongList[T]:
        """What `columns` gave."""
        made = cls(types)
        for word in columns["words"]:
            made._number(word)
        for column, values in zip(made._columns, columns["columns"], strict=True):
            column.frombytes(values.astype(column.typecode).tobytes())
        return made


class NoList(LongList[T]):
    """A list of which nobody asks afterwards what it held: it forgets its records as it would
    pack them.

    >>> seen = NoList("q", [(1,)])
    >>> len(seen)
    0
    """

    __slots__ = ()

    def pack(self) -> None:
        """Forget them."""
        self._recent.clear()

    def __len__(self) -> int:
        return 0
