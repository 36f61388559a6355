"""What a model makes of each column of a party's rows before its first layer.

Rows are kept short: a number is one column, a category one whole number. What is wide, such as a
0/1 column for every category, is made of a batch when it is used (`colonnade.models.front`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

EDGES_MAX = 1024
CODES_MAX = 1 << 20
WIDTH_MAX = 256


class Input(msgspec.Struct, frozen=True):
    """One column of a party's rows: a number, unless it has edges or codes.

    >>> Input(codes=40).expanded, Input(codes=2000, width=16).expanded, Input().expanded
    (40, 16, 1)
    """

    edges: tuple[float, ...] = ()
    """Of the bins of a number, which becomes a share of each beside itself."""
    codes: int = 0
    """How many codes there are, from 0; one below 0 stands for nothing."""
    width: int = 0
    """Of the vector for each code; 0 makes a 0/1 column for each."""
    first: int = 0
    """The first code that has a 0/1 column."""

    @property
    def expanded(self) -> int:
        """How many numbers it becomes."""
        if self.codes:
            return self.width or self.codes - self.first
        return max(1, len(self.edges))


def structure(inputs: Sequence[Input]) -> list[int]:
    """Inputs as numbers, but for where their edges lie.

    >>> structure([Input(edges=(0.5, 0.7)), Input(codes=5, first=2)])
    [2, 0, 0, 0, 0, 5, 0, 2]
    """
    return [
        number
        for each in inputs
        for number in (len(each.edges), each.codes, each.width, each.first)
    ]


def of_structure(numbers: Sequence[int]) -> list[Input]:
    """Inputs of a structure, with edges at 0, 1, 2 and so on.

    >>> of_structure([2, 0, 0, 0])
    [Input(edges=(0.0, 1.0), codes=0, width=0, first=0)]
    """
    rows = [numbers[start : start + 4] for start in range(0, len(numbers), 4)]
    return [Input(tuple(map(float, range(row[0]))), *row[1:]) for row in rows]


def expanded(inputs: Sequence[Input]) -> int:
    """How many numbers a row becomes.

    >>> expanded([Input(), Input(edges=(0.0, 1.0, 2.0))])
    4
    """
    return sum(each.expanded for each in inputs)


def is_plain(inputs: Sequence[Input]) -> bool:
    """Whether rows are what a model reads already.

    >>> is_plain([Input(), Input()])
    True
    """
    return not any(each.codes or each.edges for each in inputs)


def embedding_width(codes: int) -> int:
    """How wide the vector of a category is: the square root of their number, from 2 to 16.

    >>> [embedding_width(codes) for codes in (3, 50, 2000)]
    [2, 8, 16]
    """
    return max(2, min(16, -int(-(codes**0.5) // 1)))
