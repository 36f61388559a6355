"""The live file of a run, read from where one was. Its lines may be anything: what is no event is
left out, and texts are made fit to be shown."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from colonnade.page.reading import clean
from colonnade.record.events import EVENTS
from colonnade.record.live import BYTES_MAX, LINE_BYTES_MAX

Said = dict[str, Any]
PIECE_BYTES = 2**18
"""How much is read at once."""
FILE_BYTES_MAX = 4 * BYTES_MAX
"""What is longer was not written by us, and is followed no further."""
_KINDS = {kind.__name__ for kind in EVENTS} | {"Opened"}


@dataclass(frozen=True)
class Position:
    """Up to where a file was read; a file that took its place has another number.

    >>> Position.parse("12-345"), Position.parse("what?")
    (Position(file=12, offset=345), Position(file=0, offset=0))
    """

    file: int = 0
    offset: int = 0

    @classmethod
    def parse(cls, text: str) -> Position:
        """As `str` wrote it; the beginning where it is anything else."""
        file, _, offset = text.partition("-")
        if not (text.isascii() and file.isdigit() and offset.isdigit() and len(text) < 60):
            return cls()
        return cls(int(file), int(offset))

    def __str__(self) -> str:
        return f"{self.file}-{self.offset}"


@dataclass(frozen=True)
class Piece:
    """What was read."""

    said: list[Said]
    position: Position
    anew: bool
    """Whether it is from the beginning: what was read before is of another file."""
    more: bool
    """Whether there is more to read at once."""


def read_piece(path: Path, position: Position) -> Piece | None:
    """The next events after a position; None where there is no such file.

    >>> read_piece(Path("nowhere/live.jsonl"), Position())
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return None
        size = min(found.st_size, FILE_BYTES_MAX)
        same = found.st_ino == position.file and position.offset <= size
        start = position.offset if same else 0
        content = os.pread(file, min(PIECE_BYTES, size - start), start)
    except OSError:
        return None
    finally:
        os.close(file)
    # The last line may still be in the writing.
    whole = content[: content.rfind(b"\n") + 1]
    if not whole and len(content) > LINE_BYTES_MAX:
        whole = content
    end = start + len(whole)
    more = end < size and len(content) == PIECE_BYTES
    return Piece(read_lines(whole), Position(found.st_ino, end), not same, more)


def read_lines(content: bytes) -> list[Said]:
    """The events among lines.

    >>> read_lines(b'{"type":"Saved","party":"lab","time_ns":7,"round":3}\\nnonsense\\n{"type":1}')
    [{'type': 'Saved', 'party': 'lab', 'time_ns': 7, 'round': 3}]
    """
    found = []
    for line in content.splitlines():
        if not line.startswith(b"{") or len(line) > LINE_BYTES_MAX:
            continue
        try:
            said = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        if isinstance(said, dict) and isinstance(said.get("type"), str) and said["type"] in _KINDS:
            found.append(clean(said))
    return found


def read_ends(path: Path, head_bytes: int = 2**12, tail_bytes: int = 2**16) -> list[Said]:
    """The first and the last events of a file, for a glimpse of it.

    >>> read_ends(Path("nowhere/live.jsonl"))
    []
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return []
        size = min(found.st_size, FILE_BYTES_MAX)
        head = os.pread(file, min(size, head_bytes), 0)
        start = max(len(head), size - tail_bytes)
        tail = os.pread(file, max(0, size - start), start)
    except OSError:
        return []
    finally:
        os.close(file)
    if start == len(head):
        return read_lines(head + tail)
    return read_lines(head[: head.rfind(b"\n") + 1]) + read_lines(tail[tail.find(b"\n") + 1 :])
