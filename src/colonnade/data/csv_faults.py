"""What is wrong with a CSV file that cannot be read, in words that say what to do."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

from colonnade.data.csv_dialect import SEPARATORS, Dialect, opened
from colonnade.errors import DataError

_ROW = re.compile(
    r"(?:Row #(?P<row>[0-9]+): )?Expected (?P<names>[0-9]+) columns, got (?P<found>[0-9]+)"
)
_TWICE = re.compile(r"multiple columns named (.+)")


def csv_fault(path: Path, reason: str, dialect: Dialect | None = None) -> DataError | None:
    """What a reason of Arrow's means for whoever wrote the file; None where it is another one.

    >>> str(csv_fault(Path("t.csv"), "CSV parse error: Row #9: Expected 3 columns, got 2: a,b"))
    't.csv has 2 columns in line 9, and 3 column names: complete the line, or put quotes around \
a value with commas'
    """
    dialect = dialect or Dialect()
    if (row := _ROW.search(reason)) is not None:
        names, found = row["names"], row["found"]
        line = row["row"] or _ragged_line(path, dialect, int(names))
        marks = SEPARATORS.get(dialect.separator, f"'{dialect.separator}'")
        return DataError(
            f"{path} has {found} columns in line {line}, and {names} column names: complete the "
            f"line, or put quotes around a value with {marks}"
        )
    if (twice := _TWICE.search(reason)) is not None:
        return DataError(f"{path} has two columns named '{twice[1]}': give each a name of its own")
    return None


def _ragged_line(path: Path, dialect: Dialect, names: int) -> int:
    """The first line that has another number of columns, which Arrow does not tell of blocks that
    it reads side by side."""
    with opened(path) as file:
        text = io.TextIOWrapper(file, encoding=dialect.encoding, newline="")
        rows = csv.reader(text, delimiter=dialect.separator)
        for row in rows:
            if row and len(row) != names:
                return rows.line_num
        return rows.line_num
