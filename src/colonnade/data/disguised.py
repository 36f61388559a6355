"""Text that is hardly a category: numbers and dates in a form that is not read, or free text.

A column of text becomes one 0/1 column for each of its values. Where nearly every row has a value
of its own such columns say nothing, and the training goes on without the number that is in them.
So what looks like that is refused, unless the party lists the column as categorical.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from colonnade.errors import DataError

_FEW = 20
"""So many values may be categories, whatever they look like."""
_MANY = 100
"""So many may be categories even where most have a single row."""

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PADDED = re.compile(r"[+-]?0[0-9]")
_DATE = re.compile(
    r"([0-9]{1,2}[./-][0-9]{1,2}[./-]([0-9]{4}|[0-9]{2})|[0-9]{4}[./-][0-9]{1,2}[./-][0-9]{1,2})"
    r"([ T][0-9:.]+.*)?"
)
_COMMA = re.compile(r"[+-]?[0-9]+([. ][0-9]{3})*,[0-9]+|[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_UNIT = re.compile(r"[€$£¥]\s*[+-]?[0-9][0-9.,]*|[+-]?[0-9][0-9.,]*\s*[%€$£¥]")


def refuse_disguised(name: str, words: Collection[str], rows: int) -> None:
    """Refuse a column of text with these distinct values in so many rows, if it is no category.

    >>> refuse_disguised("price", [f"{n},50" for n in range(30)], 30)
    Traceback (most recent call last):
    colonnade.errors.DataError: column 'price' is text that looks like numbers with commas, such \
as '0,50': write them with a decimal point and without separators between thousands, leave the \
column out, or list it as categorical if its values are categories
    """
    if len(words) <= _FEW:
        return
    what, cure = disguise(words)
    if not what and len(words) > _MANY and 2 * len(words) > rows:
        what = f"has {len(words)} different values in {rows} rows, more likely ids or free text"
        cure = "group its values"
    if what:
        raise DataError(
            f"column '{name}' {what}: {cure}, leave the column out, or list it as categorical if "
            "its values are categories"
        )


_SHAPES = (
    (
        _COMMA,
        "numbers with commas",
        "write them with a decimal point and without separators between thousands",
    ),
    (_DATE, "dates", "turn them into numbers such as days since a fixed day"),
    (_UNIT, "numbers with a unit", "write the numbers alone"),
)


def disguise(values: Iterable[str]) -> tuple[str, str]:
    """What most of the values are, and what to do about it; nothing where they may be words.

    >>> disguise(["€ 5", "€ 7"])
    ("is text that looks like numbers with a unit, such as '€ 5'", 'write the numbers alone')
    """
    words = [value.strip() for value in values]
    for shape, what, cure in _SHAPES:
        alike = _matching(shape, words)
        if 2 * len(alike) > len(words):
            return f"is text that looks like {what}, such as '{alike[0]}'", cure
    numbers = _matching(_NUMBER, words)
    odd = sorted(set(words) - set(numbers))
    # With zeros in front they are codes, and a number would lose the zeros.
    codes = any(map(_PADDED.match, numbers))
    if codes or not odd or 2 * len(numbers) <= len(words):
        return "", ""
    shown = ", ".join(f"'{word[:20]}'" for word in odd[:3])
    return f"holds numbers, but for {shown}", "leave those cells empty"


def _matching(shape: re.Pattern[str], words: Iterable[str]) -> list[str]:
    return [word for word in words if shape.fullmatch(word)]
