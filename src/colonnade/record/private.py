"""Files for their owner only, wherever they lie."""

from __future__ import annotations

import os
from pathlib import Path

OWNER_ONLY = 0o600


def private_file(path: Path) -> Path:
    """Make an empty file that only its owner may read, for somebody to write into; one that is
    there becomes so too.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     oct(private_file(Path(folder) / "weights").stat().st_mode & 0o777)
    '0o600'
    """
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY)
    try:
        os.fchmod(file, OWNER_ONLY)
    finally:
        os.close(file)
    return path


def append_to_private(path: Path) -> int:
    """Open a file for appending that only its owner may read."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ONLY)
    os.fchmod(file, OWNER_ONLY)
    return file


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all, and for its owner only."""
    beside = private_file(path.with_name(f".{path.name}.part"))
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        # Else a loss of power may leave an empty file in the place of a whole one.
        os.fsync(file.fileno())
    beside.replace(path)
