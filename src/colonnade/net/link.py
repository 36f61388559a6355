"""One connection to a peer: the order in which segments are sent, and the emulation of a link."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from colonnade.errors import JobError
from colonnade.net.session import Segment, Session
from colonnade.units import NS_PER, duration_ns, rate_bits


class Stream(Protocol):
    """An ordered, reliable stream of byte strings: either end of a gRPC stream."""

    async def write(self, data: bytes) -> None:
        """Send; waits while the other end does not read."""

    async def read(self) -> bytes | None:
        """The next byte string; None at the end."""


@dataclass(frozen=True)
class Emulation:
    """A link slower than the real one: for demonstrations and tests on one machine."""

    latency_ns: int = 0
    """One-way."""
    rate_bits: int | None = None

    @classmethod
    def parse(cls, text: str) -> Emulation:
        """The link that `--emulate` describes.

        >>> Emulation.parse("latency=50ms,rate=300mbit")
        Emulation(latency_ns=50000000, rate_bits=300000000)
        """
        found: dict[str, int] = {}
        for piece in text.split(","):
            key, _, value = piece.partition("=")
            if key.strip() == "latency":
                found["latency_ns"] = duration_ns(value)
            elif key.strip() == "rate":
                found["rate_bits"] = rate_bits(value)
            else:
                raise JobError(
                    f"'{piece}' is nothing a line can have: write --emulate "
                    "latency=50ms,rate=300mbit"
                )
        return cls(**found)


class Connection:
    """One connection and its writer.

    Urgent segments are sent first, then the session's. Each is taken when it is written, so an
    urgent one waits for one other at most.
    """

    def __init__(self, stream: Stream, session: Session | None, emulation: Emulation | None):
        self.stream = stream
        self.session = session
        self.closing = asyncio.Event()
        """Setting it closes the connection."""
        self.said_last = False
        """The peer has sent its REFUSE, FAIL or LEAVE; it may send one."""
        self.paused = False
        """The reader waits for room in the inbox, so the peer is not read from, and not silent."""
        self.incarnation: int | None = None
        """The incarnation of the passive party at the other end, once it has joined."""
        self.written: Callable[[Session, int], None] = lambda session, number: None
        """Called when the transport has all of a frame: with its session and its number there."""
        self.refusal: str | None = None
        """Why the connection is refused after it was admitted."""
        self._urgent: dict[int, Segment] = {}
        """The newest of each kind only, so that a peer that sends and never reads cannot make the
        answers pile up."""
        self._wakeup = asyncio.Event()
        self._emulation = emulation
        self._in_flight: deque[tuple[int, bytes]] = deque()
        self._filled = asyncio.Event()
        self._free_ns = 0

    def retire(self) -> None:
        """Close the connection without sending anything more from the session."""
        self.session = None
        self.closing.set()
        self._wakeup.set()

    def refuse(self, why: str) -> None:
        """Close the connection, and let the server tell the peer why."""
        self.refusal = why
        self.retire()

    def send_urgent(self, segment: Segment) -> None:
        """Send a segment before anything else, in place of an unsent one of its kind."""
        self._urgent[segment.kind] = segment
        self._wakeup.set()

    def wake(self) -> None:
        """Let the writer look for something to send."""
        self._wakeup.set()

    async def run(self) -> None:
        """Write segments until the connection is closing, or breaks."""
        if self._emulation is None:
            await self._pump()
            return
        async with asyncio.TaskGroup() as group:
            delivering = group.create_task(self._deliver(self._emulation.latency_ns))
            await self._pump()
            delivering.cancel()

    async def _pump(self) -> None:
        while not self.closing.is_set():
            session, segment = self.session, self._next()
            if segment is None:
                self._wakeup.clear()
                await self._wakeup.wait()
                continue
            data = segment.encode()
            if self._emulation is None:
                await self.stream.write(data)
            else:
                await self._delay(data, self._emulation)
            if session is not None and segment.ends_frame:
                self.written(session, segment.number)

    def _next(self) -> Segment | None:
        if self._urgent:
            return self._urgent.pop(next(iter(self._urgent)))
        return None if self.session is None else self.session.next()

    async def _delay(self, data: bytes, emulation: Emulation) -> None:
        """Wait while the emulated link transmits the data; it arrives one latency later."""
        now_ns = time.monotonic_ns()
        self._free_ns = max(now_ns, self._free_ns)
        if emulation.rate_bits is not None:
            self._free_ns += len(data) * 8 * NS_PER["s"] // emulation.rate_bits
        self._in_flight.append((self._free_ns + emulation.latency_ns, data))
        self._filled.set()
        # Short waits are left to add up, because a sleep may last a millisecond too long.
        if self._free_ns - now_ns > 2 * NS_PER["ms"]:
            await asyncio.sleep((self._free_ns - now_ns) / NS_PER["s"])

    async def _deliver(self, latency_ns: int) -> None:
        while True:
            while not self._in_flight:
                self._filled.clear()
                await self._filled.wait()
            due_ns, data = self._in_flight.popleft()
            early_ns = due_ns - time.monotonic_ns()
            if early_ns > 0:
                await asyncio.sleep(early_ns / NS_PER["s"])
            await self.stream.write(data)
