"""What is wrong with a CSV file that cannot be read, in words that say what to do."""

from __future__ import annotations

import re
from pathlib import Path

from colonnade.errors import DataError

_HEAD_BYTES = 65_536
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_ROW = re.compile(r"Row #([0-9]+): Expected ([0-9]+) columns, got ([0-9]+)")
_TWICE = re.compile(r"multiple columns named (.+)")


def refuse_odd_csv(path: Path) -> None:
    """Refuse a CSV file that is empty, no UTF-8, or has other separators than commas.

    A file with semicolons mostly has decimal commas too, so it is not guessed at.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head.strip():
        raise DataError(f"{path} is empty: it needs a line with column names, and the rows")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _no_utf8(path)
    names = head.splitlines()[0].decode("utf-8", "replace")
    for separator, what in _SEPARATORS.items():
        if separator in names and "," not in names:
            raise DataError(
                f"{path} separates its columns with {what}: write it with commas between columns "
                "and a point in numbers, or as Parquet"
            )


def csv_fault(path: Path, reason: str) -> DataError | None:
    """What a reason of Arrow's means for whoever wrote the file; None where it is another one.

    >>> str(csv_fault(Path("t.csv"), "CSV parse error: Row #9: Expected 3 columns, got 2: a,b"))
    't.csv has 2 columns in line 9, and 3 column names: complete the line, or put quotes around \
a value with commas'
    """
    if "invalid UTF8" in reason:
        return _no_utf8(path)
    if (row := _ROW.search(reason)) is not None:
        line, names, found = row.groups()
        return DataError(
            f"{path} has {found} columns in line {line}, and {names} column names: complete the "
            "line, or put quotes around a value with commas"
        )
    if (twice := _TWICE.search(reason)) is not None:
        return DataError(f"{path} has two columns named '{twice[1]}': give each a name of its own")
    return None


def _no_utf8(path: Path) -> DataError:
    return DataError(
        f"{path} is not UTF-8 text, but in an encoding such as Latin-1 or UTF-16: save it as UTF-8"
    )
