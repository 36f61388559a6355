"""How a CSV file is written: its encoding, its separator, and the mark before decimals.

Each is read off the file itself, unless the party says what it is. The whole file is decoded once
for that, since the first letter that is no ASCII may stand in its last line.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from colonnade.errors import DataError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_HEAD_CHARS = 1 << 18
_HEAD_LINES = 200
_CHUNK_BYTES = 1 << 22
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_COMMA = re.compile(
    r"[+-]?([0-9]{1,3}([. '’\u00a0\u202f][0-9]{3})+,[0-9]+|[0-9]+,([0-9]{1,2}|[0-9]{4,}))"
)
"""Surely a comma before decimals; `1,234` may be either."""
_POINT = re.compile(r"[+-]?([0-9]{1,3}(,[0-9]{3})+\.[0-9]+|[0-9]+\.([0-9]{1,2}|[0-9]{4,}))")
_EITHER = re.compile(r"[+-]?[0-9]{1,3},[0-9]{3}")


@dataclass(frozen=True)
class Dialect:
    """How to read a CSV file.

    >>> Dialect().separator
    ','
    """

    encoding: str = "utf-8"
    separator: str = ","
    decimal: str = "."
    quoted: bool = False
    """Whether it has quotes at all, within which a value may have line ends."""


@dataclass(frozen=True)
class Said:
    """What a party says of its CSV file; None is to be found out.

    >>> Said(separator=";").decimal is None
    True
    """

    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None


def sniff(path: Path, said: Said) -> Dialect:
    """Find out how a file is written; one that is empty, or not in that encoding, is refused."""
    try:
        encoding, head, quoted = _decoded(path, said.encoding)
    except (OSError, EOFError, zlib.error) as error:
        if path.suffix.lower() != ".gz":
            raise
        raise DataError(
            f"{path} is not a whole gzip file ({error}): compress or copy it again"
        ) from None
    if not head.strip():
        raise DataError(f"{path} is empty: it needs a line with column names, and the rows")
    lines = _lines(head)
    separator = said.separator or _separator(lines)
    decimal = said.decimal or _decimal(lines, separator)
    return Dialect(encoding, separator, decimal, quoted)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked where it is packed."""
    if path.suffix.lower() == ".gz":
        with gzip.open(path, "rb") as packed:
            yield cast(BinaryIO, packed)
    else:
        with path.open("rb") as plain:
            yield plain


def _decoded(path: Path, said: str | None) -> tuple[str, str, bool]:
    """The encoding of a file, its first letters, and whether there is a quote anywhere."""
    if said is not None:
        return said, *_decode(path, said)
    for encoding in _candidates(path):
        try:
            return encoding, *_decode(path, encoding)
        except DataError:
            continue
    return "latin-1", *_decode(path, "latin-1")


def _candidates(path: Path) -> tuple[str, ...]:
    with opened(path) as file:
        head = file.read(1 << 16)
    for mark, name in _MARKS:
        if head.startswith(mark):
            return (name,)
    # Western text in UTF-16 without a mark has a zero in every other byte.
    if len(head) > 3 and head[1::2].count(0) > len(head) // 4:
        return ("utf-16-le",)
    if len(head) > 3 and head[::2].count(0) > len(head) // 4:
        return ("utf-16-be",)
    return ("utf-8", "cp1252")


def _decode(path: Path, encoding: str) -> tuple[str, bool]:
    """The first letters, and whether there is a quote anywhere; refuses what is no such text."""
    decoder = codecs.getincrementaldecoder(encoding)()
    head, quoted, line = "", False, 1
    with opened(path) as file:
        try:
            while True:
                chunk = file.read(_CHUNK_BYTES)
                text = decoder.decode(chunk, final=not chunk)
                quoted = quoted or '"' in text
                head += text[: max(0, _HEAD_CHARS - len(head))]
                if not chunk:
                    return head.removeprefix("\ufeff"), quoted
                line += text.count("\n")
        except UnicodeError as error:
            why = getattr(error, "reason", str(error))
            raise DataError(
                f"{path} is not text in the encoding '{encoding}' (from line {line} on: {why}): "
                "leave out encoding to have it found out, or name the one it was saved in"
            ) from None


def _lines(head: str) -> list[str]:
    lines = [line for line in head.splitlines() if line.strip()]
    # The last one may be cut off.
    return (
        lines[:_HEAD_LINES]
        if len(head) < _HEAD_CHARS
        else lines[: min(_HEAD_LINES, len(lines) - 1)]
    )


def cells(lines: Sequence[str], separator: str) -> list[list[str]]:
    """The values of lines.

    >>> cells(['a,"b,c"'], ",")
    [['a', 'b,c']]
    """
    try:
        return list(csv.reader(io.StringIO("\n".join(lines)), delimiter=separator))
    except csv.Error:
        return [line.split(separator) for line in lines]


def _separator(lines: Sequence[str]) -> str:
    """The one that cuts most lines into as many pieces as the first, and into most pieces."""

    def score(separator: str) -> tuple[float, int]:
        counts = [len(row) for row in cells(lines, separator)]
        if not counts or counts[0] < 2:
            return 0.0, 1
        return sum(count == counts[0] for count in counts) / len(counts), counts[0]

    return max(SEPARATORS, key=score)


def _decimal(lines: Sequence[str], separator: str) -> str:
    values = [value.strip() for row in cells(lines[1:], separator) for value in row]
    commas, points = (sum(bool(s.fullmatch(v)) for v in values) for s in (_COMMA, _POINT))
    either = 0 if separator == "," else sum(bool(_EITHER.fullmatch(v)) for v in values)
    return "," if commas + either > points and (commas or not points) else "."
