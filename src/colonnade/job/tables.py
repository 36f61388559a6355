"""What a party says of its table: how the file is written, and how its columns are treated."""

from __future__ import annotations

from typing import Any, Literal, get_args

from colonnade.errors import nearest
from colonnade.job.train import require

Preprocessing = Literal["auto", "plain"]
Treatment = Literal[
    "number",
    "standard",
    "clip",
    "log",
    "quantile",
    "bins",
    "category",
    "one-hot",
    "embedding",
    "hash",
    "date",
    "boolean",
]
TREATMENTS: tuple[str, ...] = get_args(Treatment)
TREATED_MAX = 10_000


def check_table(entry: Any, where: str = "") -> None:
    """Refuse what no table can be read by.

    >>> from colonnade.job.records import Party
    >>> Party(decimal=";")
    Traceback (most recent call last):
    colonnade.errors.JobError: decimal is ';': write '.' or ','
    """
    separator, decimal, encoding = entry.separator, entry.decimal, entry.encoding
    require(
        separator is None
        or (len(separator) == 1 and ord(separator) < 128 and separator not in '"\r\n'),
        f"{where}separator is {separator!r}: give one character, as in ';' or '\\t'",
    )
    require(decimal in (None, ".", ","), f"{where}decimal is {decimal!r}: write '.' or ','")
    require(
        decimal is None or decimal != separator,
        f"{where}decimal and separator are both {decimal!r}: give those that the file has",
    )
    require(
        encoding is None or _is_encoding(encoding),
        f"{where}encoding is {str(encoding)[:40]!r}, which is none that text has: name one such as "
        "'utf-8', 'utf-16', 'latin-1' or 'cp1252'",
    )
    treat = entry.treat or {}
    require(len(treat) <= TREATED_MAX, f"{where}treat has more than {TREATED_MAX:,} columns")
    for column, word in treat.items():
        require(
            word in TREATMENTS,
            f"{where}treat: '{column[:80]}' is '{word[:40]}': {nearest(word, TREATMENTS)}",
        )


def _is_encoding(name: str) -> bool:
    try:
        # Refuses the codecs that are no encodings of text, such as zlib.
        return "".encode(name) is not None
    except (LookupError, ValueError, UnicodeError):
        return False
