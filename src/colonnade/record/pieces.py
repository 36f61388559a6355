"""Long records in pieces on disk: what a party has seen may be larger than its memory.

A piece is a short text, which says what its numbers mean, and the numbers. In a file with a name
pieces outlive the process; whatever a crash has left half-written at the end is dropped when the
file is opened again.

    4 bytes "COLP"    4 bytes CRC-32 of what follows    4 bytes length of the text
    8 bytes length of the numbers                       (little endian)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from colonnade.record.scratch import Scratch

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
        self._path = path
        self._file: Scratch | None = None
        self._length = 0
        """Up to where the file is whole."""
        if path is not None and path.exists():
            file = self._open()
            for _, end in _read(file, file.size):
                self._length = end

    @property
    def named(self) -> bool:
        """Whether they outlive the process."""
        return self._path is not None

    def add(self, text: bytes, numbers: bytes) -> None:
        """Write a piece at the end; raises `OSError` where that is not possible."""
        file = self._open()
        head = _HEAD.pack(_MAGIC, crc32(numbers, crc32(text)), len(text), len(numbers))
        try:
            # What a crash has left half-written must not show behind it.
            file.cut(self._length)
            file.write(self._length, b"".join((head, text, numbers)))
        except OSError:
            with suppress(OSError):
                file.cut(self._length)
            raise
        self._length += len(head) + len(text) + len(numbers)

    def _open(self) -> Scratch:
        if self._file is None:
            self._file = Scratch(self._path)
        return self._file

    def __iter__(self) -> Iterator[Piece]:
        if self._length:
            for piece, _ in _read(self._open(), self._length):
                yield piece


def _read(file: Scratch, until: int) -> Iterator[tuple[Piece, int]]:
    """Every piece and where it ends, up to the first that is not whole."""
    place = 0
    while place + _HEAD.size <= until:
        magic, checked, text_bytes, number_bytes = _HEAD.unpack(file.read(place, _HEAD.size))
        begun = place + _HEAD.size
        place = begun + text_bytes + number_bytes
        if magic != _MAGIC or text_bytes + number_bytes > PIECE_BYTES_MAX or place > until:
            return
        text = file.read(begun, text_bytes)
        numbers = file.read(begun + text_bytes, number_bytes)
        if crc32(numbers, crc32(text)) != checked:
            return
        yield (text, numbers), place
