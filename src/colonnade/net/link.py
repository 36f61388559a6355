"""One connection to a peer: what goes out first, and what an emulated line makes of it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from colonnade.errors import JobError
from colonnade.net.session import Segment, Session
from colonnade.units import NS_PER, duration_ns, rate_bits


class Stream(Protocol):
    """A connection of ordered, reliable messages; gRPC's, at either end."""

    async def write(self, data: bytes) -> None:
        """Hand over; waits while the other end does not read."""
        ...

    async def read(self) -> bytes | None:
        """The next message; None at the end."""
        ...


@dataclass(frozen=True)
class Emulation:
    """A line that is slower than the true one: for demonstrations and tests on one machine."""

    latency_ns: int = 0
    """One-way."""
    rate_bits: int | None = None

    @classmethod
    def parse(cls, text: str) -> Emulation:
        """The line that `--emulate` describes.

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
    """What leaves over one connection: urgent segments first, then the session's, one at a time,
    so that nothing urgent waits for longer than one segment."""

    def __init__(self, stream: Stream, session: Session | None, emulation: Emulation | None):
        self.stream = stream
        self.session = session
        self.written_bytes = 0
        self.closing = asyncio.Event()
        """Whoever sets it ends the connection."""
        self.said_last = False
        """The peer has said why it goes; it says so once."""
        self.paused = False
        """The reader of the connection waits for room: the peer is not silent, it is not heard."""
        self.incarnation: int | None = None
        """The process of the passive party at the other end, once it has joined."""
        self.refusal: str | None = None
        """Why the peer is refused, in mid-connection."""
        self._urgent: dict[int, Segment] = {}
        """The newest of each kind: whoever sends and does not read is not answered one by one."""
        self._wakeup = asyncio.Event()
        self._emulation = emulation
        self._in_flight: deque[tuple[int, bytes]] = deque()
        self._filled = asyncio.Event()
        self._free_ns = 0

    def retire(self) -> None:
        """Send nothing more: another connection has taken the place of this one."""
        self.session = None
        self.closing.set()
        self._wakeup.set()

    def refuse(self, why: str) -> None:
        """End the connection, and let the peer know why."""
        self.refusal = why
        self.retire()

    def send_urgent(self, segment: Segment) -> None:
        """Send this before anything else; it takes the place of an earlier one of its kind."""
        self._urgent[segment.kind] = segment
        self._wakeup.set()

    def wake(self) -> None:
        """There is something to send."""
        self._wakeup.set()

    async def run(self) -> None:
        """Write until the connection is over, or ends."""
        if self._emulation is None:
            await self._pump()
            return
        async with asyncio.TaskGroup() as group:
            delivering = group.create_task(self._deliver(self._emulation.latency_ns))
            await self._pump()
            delivering.cancel()

    async def _pump(self) -> None:
        while not self.closing.is_set():
            segment = self._next()
            if segment is None:
                self._wakeup.clear()
                await self._wakeup.wait()
                continue
            data = segment.encode()
            self.written_bytes += len(data)
            if self._emulation is None:
                await self.stream.write(data)
            else:
                await self._delay(data, self._emulation)

    def _next(self) -> Segment | None:
        if self._urgent:
            return self._urgent.pop(next(iter(self._urgent)))
        return None if self.session is None else self.session.next()

    async def _delay(self, data: bytes, emulation: Emulation) -> None:
        """Wait until the emulated line has taken the data; it comes out at its end later."""
        now_ns = time.monotonic_ns()
        self._free_ns = max(now_ns, self._free_ns)
        if emulation.rate_bits is not None:
            self._free_ns += len(data) * 8 * NS_PER["s"] // emulation.rate_bits
        self._in_flight.append((self._free_ns + emulation.latency_ns, data))
        self._filled.set()
        # Short waits are left to add up: a sleep takes a millisecond longer than it should.
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
