"""Files for their owner only, wherever they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from colonnade.errors import RequestError

OWNER_ONLY = 0o600
KEY_BYTES = 32


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


def own_key(path: Path, randomness: Callable[[int], bytes] = os.urandom) -> bytes:
    """A key of 32 bytes in a file for its owner only; made where it is not there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     own_key(Path(folder) / "key") == own_key(Path(folder) / "key")
    True
    """
    if not path.exists():
        write_whole(path, [randomness(KEY_BYTES)])
    if not path.is_file() or path.stat().st_mode & 0o077:
        raise RequestError(f"the key {path} is no file for its owner only: chmod 600 {path}")
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise RequestError(f"{path} is no key of {KEY_BYTES} bytes: name the right file")
    return key


def append_to_private(path: Path) -> int:
    """Open a file for appending that only its owner may read."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, OWNER_ONLY)
    os.fchmod(file, OWNER_ONLY)
    return file


def write_whole(path: Path, content: str | Iterable[bytes]) -> None:
    """Write a file so that it is there whole or not at all, and for its owner only; `content` is
    its text, or its bytes in pieces."""
    beside = path.with_name(f".{path.name}.part")
    beside.unlink(missing_ok=True)
    opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    try:
        with os.fdopen(opened, "wb") as file:
            for piece in [content.encode()] if isinstance(content, str) else content:
                file.write(piece)
            file.flush()
            # Else a loss of power may leave an empty file in the place of a whole one.
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        # If even this fails the first error counts, and the next writing clears it.
        with suppress(OSError):
            beside.unlink()
        raise
