"""A file for what does not fit into memory: without a name, so that it ends with the process, or
in a party's folder, for its owner only."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from colonnade.record.private import OWNER_ONLY


class Scratch:
    """Bytes at places.

    >>> scratch = Scratch()
    >>> scratch.write(3, b"abc")
    >>> scratch.size, scratch.read(2, 3)
    (6, b'\\x00ab')
    """

    def __init__(self, path: Path | None = None) -> None:
        # A plain number: an object of a file that ends in a cycle warns that nobody closed it.
        self._file = -1
        if path is None:
            with tempfile.TemporaryFile(prefix="colonnade-") as file:
                self._file = os.dup(file.fileno())
        else:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
            os.fchmod(self._file, OWNER_ONLY)

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return os.fstat(self._file).st_size

    def read(self, place: int, count: int) -> bytes:
        """So many bytes from there on, or fewer at the end."""
        parts = []
        while count and (part := os.pread(self._file, count, place)):
            parts.append(part)
            place, count = place + len(part), count - len(part)
        return b"".join(parts)

    def write(self, place: int, content: bytes) -> None:
        """Put bytes there; raises `OSError` where that is not possible."""
        left = memoryview(content)
        while left:
            done = os.pwrite(self._file, left, place)
            place, left = place + done, left[done:]

    def cut(self, size: int) -> None:
        """Drop what is behind."""
        os.ftruncate(self._file, size)

    def close(self) -> None:
        """Without a name it is gone now."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    __del__ = close
