"""Sessions: every message is processed exactly once and in order, whatever the link does.

A session is one end of the link between two parties. It numbers the frames it sends, keeps each
until the other end has acknowledged it, and hands over what comes in once and in order. It knows
neither clock nor connection: the world that owns it carries its segments, and tells it to
*rewind*, which sends again all that was not acknowledged, when a connection is made anew or, on a
link that loses single segments, when too much time has passed.

A large frame goes in several segments, so that what is small and urgent never waits for longer
than one of them. A segment is a prefix of 34 bytes and its part of the frame:

    1 byte  kind         1 byte  flags           4 bytes generation     4 bytes frame length
    8 bytes number       8 bytes acknowledged    8 bytes offset         (little endian)

The *generation* counts how often the parties have begun again from a checkpoint; what belongs to
an older one is dropped.
"""

from __future__ import annotations

import struct
from collections import deque
from enum import IntEnum
from typing import NamedTuple

from colonnade.errors import WireError
from colonnade.wire.codec import HEADER_BYTES_MAX, MESSAGE_BYTES_MAX

PROTOCOL = 1
"""The version of what is said here; a JOIN carries it as its flags."""
CHUNK_BYTES = 256 * 1024
"""The most of a frame that goes in one segment."""
TEXT_BYTES_MAX = 4096
"""The most that a refusal or a failure may say."""
RECEIPT_BYTES_MAX = 1 << 20
"""The most that a goodbye may carry."""
ACK_EVERY_FRAMES = 16
ACK_EVERY_BYTES = 1 << 20
"""How much may come in before it is acknowledged by itself, and not with what goes out anyway."""

_PREFIX = struct.Struct("<BBIIQQQ")


class Kind(IntEnum):
    """What a segment is."""

    DATA = 1
    """A part of a frame."""
    ACK = 2
    """Nothing but what is acknowledged; also the heartbeat."""
    JOIN = 3
    """A passive party is here; the number is its incarnation, the data its greeting."""
    OPEN = 4
    """The active party's word that a generation has begun; the number is the incarnation."""
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
        return cls(kind, generation, number, acknowledged, flags, total, offset, data)

    def text(self) -> str:
        """What a segment says to a person; nothing from outside is printed as it is."""
        words = bytes(self.data).decode(errors="replace")
        return "".join(letter if letter.isprintable() else " " for letter in words)


class Frame(NamedTuple):
    """What a session hands over: a message's bytes, or the goodbye of the other end."""

    data: bytearray
    last: bool


class Session:
    """One end of a link, in one generation.

    >>> here, there = Session(1), Session(1)
    >>> here.put(bytearray(b"embedding"))
    >>> segment = here.next()
    >>> [bytes(frame.data) for frame in there.take(segment)]
    [b'embedding']
    >>> there.take(segment)
    []
    >>> _ = here.take(there.acknowledge())
    >>> here.unacknowledged
    0
    """

    def __init__(
        self,
        generation: int,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        self.generation = generation
        self.queued_bytes = 0
        """Of all frames that are kept."""
        self.repeated = 0
        """Frames that were sent more than once."""
        self._total_max = message_bytes_max + HEADER_BYTES_MAX + 64
        self._chunk_bytes = chunk_bytes
        self._kept: deque[tuple[bytearray, int]] = deque()
        """Frames that are not acknowledged, with their flags, oldest first."""
        self._first = 0
        """The number of the oldest of them."""
        self._sending = 0
        """The number of the frame that is on its way out, and how much of it has gone."""
        self._sent = 0
        self._expected = 0
        """The number of the frame that is to come next, and how much of it is here."""
        self._partial: bytearray | None = None
        self._filled = 0
        self._owed_frames = 0
        self._owed_bytes = 0

    @property
    def unacknowledged(self) -> int:
        """How many frames are kept."""
        return len(self._kept)

    @property
    def begun(self) -> bool:
        """Whether a frame has crossed, or is about to."""
        return bool(self._first or self._kept or self._expected or self._filled)

    @property
    def owes(self) -> bool:
        """Whether so much has come in that it should be acknowledged now."""
        return self._owed_frames >= ACK_EVERY_FRAMES or self._owed_bytes >= ACK_EVERY_BYTES

    @property
    def owes_any(self) -> bool:
        """Whether anything has come in that was not acknowledged."""
        return self._owed_frames > 0

    def put(self, frame: bytearray, last: bool = False) -> None:
        """Take a frame to be sent."""
        self._kept.append((frame, LAST if last else 0))
        self.queued_bytes += len(frame)

    def next(self) -> Segment | None:
        """The next segment to carry; None when all is on its way."""
        place = self._sending - self._first
        if place >= len(self._kept):
            return None
        frame, flags = self._kept[place]
        number, offset, total = self._sending, self._sent, len(frame)
        if total - offset <= self._chunk_bytes:
            data: bytearray | memoryview = memoryview(frame)[offset:] if offset else frame
            self._sending, self._sent = number + 1, 0
        else:
            data = memoryview(frame)[offset : offset + self._chunk_bytes]
            self._sent += self._chunk_bytes
        self._settle()
        return Segment(
            Kind.DATA, self.generation, number, self._expected, flags, total, offset, data
        )

    def rewind(self) -> None:
        """Send again all that is not acknowledged."""
        self.repeated += self._sending - self._first
        self._sending, self._sent = self._first, 0

    def acknowledge(self) -> Segment:
        """A segment that says what has come in."""
        self._settle()
        return Segment(Kind.ACK, self.generation, acknowledged=self._expected)

    def _settle(self) -> None:
        self._owed_frames = self._owed_bytes = 0

    def take(self, segment: Segment) -> list[Frame]:
        """Take in a DATA or ACK segment of this generation; the frames that are whole now."""
        assert segment.generation == self.generation
        self._release(segment.acknowledged)
        if segment.kind != Kind.DATA:
            return []
        self._check(segment)
        if segment.number != self._expected:
            # A repeated frame shows that an acknowledgement was lost; a later one that a frame was.
            self._owed_frames = max(self._owed_frames, 1)
            return []
        if segment.offset == 0:
            self._partial, self._filled = bytearray(segment.total), 0
        elif segment.offset != self._filled or self._partial is None:
            return []
        elif segment.total != len(self._partial):
            raise WireError("a frame changed its length on the way")
        assert self._partial is not None
        end = self._filled + len(segment.data)
        self._partial[self._filled : end] = segment.data
        self._filled = end
        if end < segment.total:
            return []
        frame = Frame(self._partial, bool(segment.flags & LAST))
        self._partial, self._filled = None, 0
        self._expected += 1
        self._owed_frames += 1
        self._owed_bytes += segment.total
        return [frame]

    def _release(self, acknowledged: int) -> None:
        if acknowledged > self._first + len(self._kept):
            raise WireError(
                f"frame {acknowledged - 1} was acknowledged, and only "
                f"{self._first + len(self._kept)} were sent"
            )
        while self._first < acknowledged:
            frame, _ = self._kept.popleft()
            self.queued_bytes -= len(frame)
            self._first += 1
        if self._sending < self._first:
            self._sending, self._sent = self._first, 0

    def _check(self, segment: Segment) -> None:
        """Judge what a segment claims, before anything is allocated."""
        most = RECEIPT_BYTES_MAX if segment.flags & LAST else self._total_max
        if segment.total > most:
            raise WireError(
                f"a frame of {segment.total} bytes is over the limit of {most}: raise "
                "limits.message_bytes if it is meant"
            )
        end = segment.offset + len(segment.data)
        if end > segment.total or (not segment.data and segment.total):
            raise WireError("a segment that reaches beyond its frame, or is empty")
