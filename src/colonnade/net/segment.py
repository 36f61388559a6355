"""Segments: what crosses a link between two parties, and nothing else does.

A segment is a prefix of 34 bytes and its part of a frame, or a few words:

    1 byte  kind         1 byte  flags           4 bytes generation     4 bytes frame length
    8 bytes number       8 bytes acknowledged    8 bytes offset         (little endian)

The *generation* counts how often the parties have begun again from a checkpoint.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from colonnade.errors import WireError

PROTOCOL = 1
"""The version of what is said here; a JOIN carries it as its flags."""
CHUNK_BYTES = 256 * 1024
"""The most of a frame that goes in one segment."""
TEXT_BYTES_MAX = 4096
"""The most that a refusal or a failure may say."""

_PREFIX = struct.Struct("<BBIIQQQ")


class Kind(IntEnum):
    """What a segment is."""

    DATA = 1
    """A part of a frame."""
    ACK = 2
    """Nothing but what is acknowledged; also the heartbeat."""
    JOIN = 3
    """A passive party is here; the number is its incarnation, and what it acknowledges is the
    first generation of the active party's process that it knows."""
    OPEN = 4
    """The active party's word that a generation has begun; the number is the incarnation, and what
    it acknowledges the first generation of its process."""
    WHO = 5
    """The active party does not know the sender: it should join."""
    REFUSE = 6
    """The receiver may not take part; the data says why."""
    FAIL = 7
    """The sender cannot go on; the data says why."""
    LEAVE = 8
    """The sender stops as planned and may come back; the data says why."""


LAST = 1
"""The flag of a frame after which the sender sends none: its data is a receipt."""


class Segment(NamedTuple):
    """What crosses a link."""

    kind: int
    generation: int = 0
    number: int = 0
    acknowledged: int = 0
    flags: int = 0
    total: int = 0
    offset: int = 0
    data: bytes | bytearray | memoryview = b""

    def encode(self) -> bytes:
        """The bytes of the segment.

        >>> Segment.decode(Segment(Kind.ACK, 1, acknowledged=7).encode()).acknowledged
        7
        """
        kind, generation, number, acknowledged, flags, total, offset, data = self
        prefix = _PREFIX.pack(kind, flags, generation, total, number, acknowledged, offset)
        return b"".join((prefix, data)) if data else prefix

    @classmethod
    def decode(cls, raw: bytes) -> Segment:
        """The segment of some bytes, or a `WireError`."""
        if len(raw) < _PREFIX.size:
            raise WireError(f"a segment of {len(raw)} bytes is shorter than its prefix")
        kind, flags, generation, total, number, acknowledged, offset = _PREFIX.unpack_from(raw)
        if not Kind.DATA <= kind <= Kind.LEAVE:
            raise WireError(f"a segment of unknown kind {kind}")
        data = memoryview(raw)[_PREFIX.size :]
        if data.nbytes > (CHUNK_BYTES if kind == Kind.DATA else TEXT_BYTES_MAX):
            raise WireError(f"a {Kind(kind).name} segment of {len(raw)} bytes is too large")
        segment = cls(kind, generation, number, acknowledged, flags, total, offset, data)
        if kind != Kind.DATA:
            segment._check_form()
        return segment

    def _check_form(self) -> None:
        """A segment that ends or begins something says nothing but that."""
        if self.kind == Kind.JOIN and self.flags != PROTOCOL:
            return  # What another version says by it is its own business; it is refused anyway.
        speaks = self.kind in (Kind.REFUSE, Kind.FAIL, Kind.LEAVE)
        stray = [getattr(self, field) for field in _SPARE[self.kind]]
        if any(stray) or bool(self.data) != speaks:
            raise WireError(f"a {Kind(self.kind).name} segment that says more or less than it may")

    def text(self) -> str:
        """What a segment says to a person; nothing from outside is printed as it is."""
        words = bytes(self.data).decode(errors="replace")
        return "".join(letter if letter.isprintable() else " " for letter in words)


_PLACE = ("total", "offset")
_SPARE: dict[int, tuple[str, ...]] = {
    Kind.ACK: (*_PLACE, "flags", "number"),
    Kind.JOIN: _PLACE,
    Kind.OPEN: (*_PLACE, "flags"),
    Kind.WHO: (*_PLACE, "flags", "acknowledged", "number"),
    Kind.REFUSE: (*_PLACE, "flags", "acknowledged", "number", "generation"),
    Kind.FAIL: (*_PLACE, "flags", "acknowledged", "number", "generation"),
    Kind.LEAVE: (*_PLACE, "acknowledged", "number", "generation"),
}
"""What each kind has no use for, and leaves at zero."""
