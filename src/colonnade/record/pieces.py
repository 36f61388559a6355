"""Long records in pieces on disk: what a party has seen may be larger than its memory.

A piece is a short text, which says what its numbers mean, and the numbers. In a file with a name
pieces outlive the process; whatever a crash has left half-written at the end is dropped when the
file is opened again.

    4 bytes "COLP"    4 bytes CRC-32 of what follows    4 bytes length of the text
    8 bytes length of the numbers                       (little endian)
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO
from zlib import crc32

from colonnade.record.private import append_to_private

_HEAD = struct.Struct("<4sIIQ")
_MAGIC = b"COLP"
PIECE_BYTES_MAX = 1 << 28
"""The largest piece that is read."""
Piece = tuple[bytes, bytes]
"""A text and numbers."""


class Pieces:
    """Pieces in a file: one of a party's folder, or one that nobody sees and that ends with the
    process.

    >>> pieces = Pieces()
    >>> pieces.add(b"words", b"numbers")
    >>> list(pieces)
    [(b'words', b'numbers')]
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file: IO[bytes] | None = None
        self._path = path
        self._length = 0
        """Up to where the file is whole."""
        if path is not None and path.exists():
            with path.open("rb") as file:
                for _, end in _read(file, path.stat().st_size):
                    self._length = end

    def add(self, text: bytes, numbers: bytes) -> None:
        """Write a piece at the end; raises `OSError` where that is not possible."""
        file = self._open()
        head = _HEAD.pack(_MAGIC, crc32(numbers, crc32(text)), len(text), len(numbers))
        try:
            file.seek(self._length)
            file.write(head + text)
            file.write(numbers)
            file.flush()
        except OSError:
            with suppress(OSError):
                file.truncate(self._length)
            raise
        self._length += len(head) + len(text) + len(numbers)

    def _open(self) -> IO[bytes]:
        if self._file is None:
            if self._path is None:
                self._file = tempfile.TemporaryFile(prefix="colonnade-")  # noqa: SIM115 - see `close`
            else:
                os.close(append_to_private(self._path))
                self._file = self._path.open("r+b")
                self._file.truncate(self._length)
        return self._file

    def __iter__(self) -> Iterator[Piece]:
        if self._length:
            file = self._open()
            for piece, _ in _read(file, self._length):
                yield piece

    def close(self) -> None:
        """Close the file; what has a name stays."""
        if self._file is not None:
            self._file.close()
        self._file = None

    __del__ = close

    def remove(self) -> None:
        """They are not needed any more."""
        self.close()
        self._length = 0
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _read(file: IO[bytes], until: int) -> Iterator[tuple[Piece, int]]:
    """Every piece and where it ends, up to the first that is not whole."""
    place = 0
    while place + _HEAD.size <= until:
        file.seek(place)
        magic, checked, text_bytes, number_bytes = _HEAD.unpack(file.read(_HEAD.size))
        place += _HEAD.size + text_bytes + number_bytes
        if magic != _MAGIC or text_bytes + number_bytes > PIECE_BYTES_MAX or place > until:
            return
        text, numbers = file.read(text_bytes), file.read(number_bytes)
        if crc32(numbers, crc32(text)) != checked:
            return
        yield (text, numbers), place
