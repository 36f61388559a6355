"""Sessions: every message is processed exactly once and in order, whatever the link does.

A session is one end of the link between two parties. It numbers the frames it sends, keeps each
until the other end has acknowledged it, and hands over what comes in once and in order. It knows
neither clock nor connection: the world that owns it carries its segments, and tells it to
*rewind*, which sends again all that was not acknowledged, when a connection is made anew or, on a
link that loses single segments, when too much time has passed.

A large frame goes in several segments, so that what is small and urgent never waits for longer
than one of them. A session belongs to a generation; what is of an older one is dropped.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from colonnade.errors import WireError
from colonnade.job.running import Limits
from colonnade.net.segment import CHUNK_BYTES, LAST, PROTOCOL, Kind, Segment
from colonnade.wire.codec import HEADER_BYTES_MAX, MESSAGE_BYTES_MAX

__all__ = ["PROTOCOL", "Frame", "Kind", "Segment", "Session"]

RECEIPT_BYTES_MAX = 1 << 20
"""The most that a goodbye may carry."""
ACK_EVERY_FRAMES = 16
ACK_EVERY_BYTES = 1 << 20
"""How much may come in before it is acknowledged by itself, and not with what goes out anyway."""
GROWTH = 16
"""How many times what has come of a frame may be allocated for it, whatever length it claims."""


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
        ack_every: int = ACK_EVERY_FRAMES,
    ) -> None:
        self.generation = generation
        self._ack_every = ack_every
        """Not more than the other end may keep, or it would wait for a heartbeat."""
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
        self._gone = 0
        """The number after the last frame that has gone as a whole, at least once."""
        self._expected = 0
        """The number of the frame that is to come next, and how much of it is here."""
        self._partial: bytearray | None = None
        self._filled = 0
        self._total = 0
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
        return self._owed_frames >= self._ack_every or self._owed_bytes >= ACK_EVERY_BYTES

    @property
    def owes_any(self) -> bool:
        """Whether anything has come in that was not acknowledged."""
        return self._owed_frames > 0

    def has_room(self, size: int, limits: Limits) -> bool:
        """Whether it may keep so much more; one frame it always may."""
        fits = not self.queued_bytes or self.queued_bytes + size <= limits.queue_bytes
        return fits and len(self._kept) < limits.queue_messages

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
            self._gone = max(self._gone, self._sending)
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
            room = min(segment.total, GROWTH * len(segment.data))
            self._partial, self._filled, self._total = bytearray(room), 0, segment.total
        elif segment.offset != self._filled or self._partial is None:
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
        """The frame that was handed over last is not one: as if it had never come."""
        self._expected -= 1
        self._owed_frames = max(0, self._owed_frames - 1)

    def _release(self, acknowledged: int) -> None:
        if acknowledged > self._gone:
            raise WireError(
                f"frame {acknowledged - 1} was acknowledged, and only {self._gone} were sent"
            )
        while self._first < acknowledged:
            frame, _ = self._kept.popleft()
            self.queued_bytes -= len(frame)
            self._first += 1
        if self._sending < self._first:
            self._sending, self._sent = self._first, 0

    def _check(self, segment: Segment) -> None:
        """Judge what a segment claims, before anything is allocated."""
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
