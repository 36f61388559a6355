"""Sessions and segments: every message is processed exactly once and in order, whatever the link
does.

A session is one end of the link between two parties. It numbers the frames it sends, keeps each
until the other end has acknowledged it, and delivers what comes in once and in order. It has no
clock and no connection: the world that owns it carries its segments, and calls `rewind`, which
sends everything unacknowledged again, after a reconnection or, on a link that loses single
segments, after a timeout.

A segment is what crosses a link; nothing else does. It is a prefix of 34 bytes, and a part of a
frame or a short text:

    1 byte  kind         1 byte  flags           4 bytes generation     4 bytes frame length
    8 bytes number       8 bytes acknowledged    8 bytes offset         (little endian)

A large frame is split into several segments, so that a short and urgent segment never waits for
longer than one of them. The *generation* counts how often the parties have restarted from a
checkpoint; a session belongs to one, and segments of another are dropped.
"""

from __future__ import annotations

import struct
from collections import deque
from enum import IntEnum
from typing import NamedTuple

from colonnade.errors import WireError
from colonnade.job.running import Limits
from colonnade.record.chain import printable
from colonnade.wire.codec import HEADER_BYTES_MAX, MESSAGE_BYTES_MAX

PROTOCOL = 1
"""The version of the segment protocol; a JOIN carries it as its flags."""
CHUNK_BYTES = 256 * 1024
"""The largest part of a frame that one segment carries."""
TEXT_BYTES_MAX = 4096
"""The longest text that a REFUSE, FAIL or LEAVE segment may carry."""
RECEIPT_BYTES_MAX = 1 << 20
"""The largest receipt that a goodbye may carry."""
ACK_EVERY_FRAMES = 16
ACK_EVERY_BYTES = 1 << 20
"""How much may come in before an ACK segment is sent for it. Less than that is acknowledged by the
next DATA segment in the other direction, or by the next heartbeat: an ACK for every message would
double the number of segments where each message is answered anyway."""
GROWTH = 16
"""The buffer of an incomplete frame is at most this many times what has arrived of it, whatever
length the frame claims."""

_PREFIX = struct.Struct("<BBIIQQQ")


class Kind(IntEnum):
    """What a segment is."""

    DATA = 1
    """A part of a frame."""
    ACK = 2
    """An acknowledgement without data; also the heartbeat."""
    JOIN = 3
    """A passive party is here. Its number is the party's incarnation, and what it acknowledges is
    the first generation of the active party's process, as far as the sender knows it."""
    OPEN = 4
    """The active party announces a generation. Its number is the receiver's incarnation, and what
    it acknowledges is the first generation of the sender's process."""
    WHO = 5
    """The active party does not know the sender, which should join."""
    REFUSE = 6
    """The receiver may not take part; the data says why."""
    FAIL = 7
    """The sender cannot go on; the data says why."""
    LEAVE = 8
    """The sender stops as planned and may come back; the data says why."""


LAST = 1
"""The flag of a sender's last frame, whose data is a receipt."""


class Segment(NamedTuple):
    """The unit that crosses a link."""

    kind: int
    generation: int = 0
    number: int = 0
    acknowledged: int = 0
    flags: int = 0
    total: int = 0
    offset: int = 0
    data: bytes | bytearray | memoryview = b""

    def encode(self) -> bytes:
        """Return the segment as bytes.

        >>> Segment.decode(Segment(Kind.ACK, 1, acknowledged=7).encode()).acknowledged
        7
        """
        kind, generation, number, acknowledged, flags, total, offset, data = self
        prefix = _PREFIX.pack(kind, flags, generation, total, number, acknowledged, offset)
        return b"".join((prefix, data)) if data else prefix

    @classmethod
    def decode(cls, raw: bytes) -> Segment:
        """Read a segment, or raise a `WireError`."""
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
        """Refuse a control segment with a value in a field that its kind does not use."""
        if self.kind == Kind.JOIN and self.flags != PROTOCOL:
            return  # Another version may use the fields differently; the server refuses it anyway.
        has_text = self.kind in (Kind.REFUSE, Kind.FAIL, Kind.LEAVE)
        stray = [getattr(self, field) for field in _UNUSED[self.kind]]
        if any(stray) or bool(self.data) != has_text:
            raise WireError(f"a {Kind(self.kind).name} segment that says more or less than it may")

    @property
    def ends_frame(self) -> bool:
        """Whether it has the last bytes of a frame."""
        return self.kind == Kind.DATA and self.offset + len(self.data) == self.total

    def text(self) -> str:
        """The segment's text, fit to be printed: control characters from outside are replaced."""
        return printable(bytes(self.data).decode(errors="replace"))


_PLACE = ("total", "offset")
_UNUSED: dict[int, tuple[str, ...]] = {
    Kind.ACK: (*_PLACE, "flags", "number"),
    Kind.JOIN: _PLACE,
    Kind.OPEN: (*_PLACE, "flags"),
    Kind.WHO: (*_PLACE, "flags", "acknowledged", "number"),
    Kind.REFUSE: (*_PLACE, "flags", "acknowledged", "number", "generation"),
    Kind.FAIL: (*_PLACE, "flags", "acknowledged", "number", "generation"),
    Kind.LEAVE: (*_PLACE, "acknowledged", "number", "generation"),
}
"""The fields that each kind does not use; they are zero."""


class Frame(NamedTuple):
    """What a session delivers: a message's bytes, or the receipt of the other end's goodbye."""

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
        ack_every: int = ACK_EVERY_FRAMES,
    ) -> None:
        self.generation = generation
        self._ack_every = ack_every
        """At most as many frames as the other end may keep: it would otherwise stop sending until
        a heartbeat acknowledges them."""
        self.queued_bytes = 0
        """The size of all frames that are kept."""
        self.repeated = 0
        """How many frames were sent more than once."""
        self._total_max = message_bytes_max + HEADER_BYTES_MAX + 64
        self._chunk_bytes = chunk_bytes
        self._kept: deque[tuple[bytearray, int]] = deque()
        """Unacknowledged frames and their flags, oldest first."""
        self._first = 0
        """The number of the oldest frame that is kept."""
        self._sending = 0
        """The number of the frame being sent."""
        self._sent = 0
        """How many of its bytes have been sent."""
        self._sent_whole = 0
        """One more than the highest number of a frame that was sent completely, at least once. A
        `rewind` does not lower it: an acknowledgement of the first transmission may still come."""
        self._expected = 0
        """The number of the frame being received."""
        self._partial: bytearray | None = None
        """What has arrived of it, with room for more."""
        self._filled = 0
        """How many of its bytes have arrived."""
        self._total = 0
        """Its length, as its first segment claimed."""
        self._owed_frames = 0
        self._owed_bytes = 0
        """What was received and not acknowledged yet."""

    @property
    def unacknowledged(self) -> int:
        """How many frames are kept."""
        return len(self._kept)

    @property
    def newest(self) -> int:
        """The number of the frame that was put last."""
        return self._first + len(self._kept) - 1

    @property
    def begun(self) -> bool:
        """Whether any frame was sent, is queued, or has begun to arrive."""
        return bool(self._first or self._kept or self._expected or self._filled)

    @property
    def ack_due(self) -> bool:
        """Whether enough has come in to send an ACK segment for it now."""
        return self._owed_frames >= self._ack_every or self._owed_bytes >= ACK_EVERY_BYTES

    def has_room(self, size: int, limits: Limits) -> bool:
        """Whether a frame of this size may be queued.

        An empty queue takes a frame of any size: one larger than the limit could never be sent.
        """
        fits = not self.queued_bytes or self.queued_bytes + size <= limits.queue_bytes
        return fits and len(self._kept) < limits.queue_messages

    def put(self, frame: bytearray, last: bool = False) -> None:
        """Queue a frame to be sent."""
        self._kept.append((frame, LAST if last else 0))
        self.queued_bytes += len(frame)

    def next(self) -> Segment | None:
        """The next segment to send; None when everything queued has been sent."""
        place = self._sending - self._first
        if place >= len(self._kept):
            return None
        frame, flags = self._kept[place]
        number, offset, total = self._sending, self._sent, len(frame)
        if total - offset <= self._chunk_bytes:
            data: bytearray | memoryview = memoryview(frame)[offset:] if offset else frame
            self._sending, self._sent = number + 1, 0
            self._sent_whole = max(self._sent_whole, self._sending)
        else:
            data = memoryview(frame)[offset : offset + self._chunk_bytes]
            self._sent += self._chunk_bytes
        # The segment acknowledges everything that has come in, so no ACK is owed for it.
        self._owed_frames = self._owed_bytes = 0
        return Segment(
            Kind.DATA, self.generation, number, self._expected, flags, total, offset, data
        )

    def rewind(self) -> None:
        """Send everything unacknowledged again, from the oldest frame's first byte."""
        self.repeated += self._sending - self._first
        self._sending, self._sent = self._first, 0

    def acknowledge(self) -> Segment:
        """An ACK segment for everything that has come in."""
        self._owed_frames = self._owed_bytes = 0
        return Segment(Kind.ACK, self.generation, acknowledged=self._expected)

    def take(self, segment: Segment) -> list[Frame]:
        """Take in a DATA or ACK segment of this generation; return the frames it completes."""
        assert segment.generation == self.generation
        self._release(segment.acknowledged)
        if segment.kind != Kind.DATA:
            return []
        self._check(segment)
        if segment.number != self._expected:
            # A repeated frame shows that an acknowledgement was lost, a later one that a frame was:
            # either way the other end has to hear what is expected here.
            self._owed_frames = max(self._owed_frames, 1)
            return []
        if segment.offset == 0:
            # After a rewind a frame comes again from its beginning: what was here of it is dropped.
            room = min(segment.total, GROWTH * len(segment.data))
            self._partial, self._filled, self._total = bytearray(room), 0, segment.total
        elif segment.offset != self._filled or self._partial is None:
            # A segment before this one was lost; the other end sends the frame again.
            return []
        elif segment.total != self._total:
            raise WireError("a frame changed its length on the way")
        assert self._partial is not None
        end = self._filled + len(segment.data)
        if end > len(self._partial):
            self._partial += bytes(min(segment.total, GROWTH * end) - len(self._partial))
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

    def take_back(self) -> None:
        """Treat the frame that was delivered last as never received: it was no valid message."""
        self._expected -= 1
        self._owed_frames = max(0, self._owed_frames - 1)

    def _release(self, acknowledged: int) -> None:
        """Forget the frames that the other end has."""
        if acknowledged > self._sent_whole:
            raise WireError(
                f"frame {acknowledged - 1} was acknowledged, and only {self._sent_whole} were sent"
            )
        while self._first < acknowledged:
            frame, _ = self._kept.popleft()
            self.queued_bytes -= len(frame)
            self._first += 1
        # After a rewind the acknowledgement may be of a frame that is about to be sent again.
        if self._sending < self._first:
            self._sending, self._sent = self._first, 0

    def _check(self, segment: Segment) -> None:
        """Check what a segment claims, before anything is allocated for it."""
        if segment.flags > LAST:
            raise WireError(f"a DATA segment with flags {segment.flags}, which mean nothing")
        most = RECEIPT_BYTES_MAX if segment.flags & LAST else self._total_max
        if segment.total > most:
            raise WireError(
                f"a frame of {segment.total} bytes is over the limit of {most}: raise "
                "limits.message_bytes if it is meant"
            )
        end = segment.offset + len(segment.data)
        if end > segment.total or (not segment.data and segment.total):
            raise WireError("a segment that reaches beyond its frame, or is empty")
