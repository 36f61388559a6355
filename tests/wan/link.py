"""One direction of a line as a pure model: rate, tail-drop queue, loss, latency; time is given.

A packet first waits until those before it have left, then takes size / rate to leave, then
travels for the latency. Packets never overtake each other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from random import Random

NS_PER_SECOND = 10**9
FOR_EVER_NS = 1 << 62


@dataclass(frozen=True)
class Shape:
    """What a line does to packets."""

    latency_ns: int
    rate_bits: int
    """Bits per second, counted on whole IP packets."""
    queue_bytes: int
    """Most bytes that wait or leave at once; a packet that finds no room is dropped."""
    loss: float = 0.0
    jitter_ns: int = 0
    """Extra latency, uniform from zero to this. It spreads packets and never reorders them."""


@dataclass
class Counts:
    """What became of the packets offered so far."""

    packets: int = 0
    bytes: int = 0
    no_room: int = 0
    lost: int = 0
    cut: int = 0


class Link:
    """Packets in, the same packets out when they are due."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self.shape = shape
        self.counts = Counts()
        self.under_way: deque[tuple[int, bytes]] = deque()
        self._random = Random(seed)
        self._free_at = 0
        self._last_due = 0
        self._down_until = 0

    def offer(self, now: int, packet: bytes) -> None:
        """Take a packet, or drop it."""
        shape, size = self.shape, len(packet)
        if now < self._down_until:
            self.counts.cut += 1
            return
        start = max(now, self._free_at)
        waiting_bytes = (start - now) * shape.rate_bits // (8 * NS_PER_SECOND)
        if waiting_bytes + size > shape.queue_bytes:
            self.counts.no_room += 1
            return
        # Rounded up, so that no sum of packets is ever faster than the rate.
        self._free_at = start - (-size * 8 * NS_PER_SECOND // shape.rate_bits)
        if shape.loss and self._random.random() < shape.loss:
            self.counts.lost += 1
            return
        due = self._free_at + shape.latency_ns
        if shape.jitter_ns:
            due += self._random.randrange(shape.jitter_ns)
        self._last_due = due = max(due, self._last_due)
        self.under_way.append((due, packet))

    def next_due(self) -> int:
        """When the next packet arrives; `FOR_EVER_NS` when none is under way."""
        return self.under_way[0][0] if self.under_way else FOR_EVER_NS

    def arrived(self, now: int) -> list[bytes]:
        """The packets that are due, in order; they are off the line."""
        out, under_way, counts = [], self.under_way, self.counts
        while under_way and under_way[0][0] <= now:
            packet = under_way.popleft()[1]
            counts.packets += 1
            counts.bytes += len(packet)
            out.append(packet)
        return out

    def cut(self, until: int = FOR_EVER_NS) -> None:
        """Lose what is under way and all that is offered before the given time."""
        self.counts.cut += len(self.under_way)
        self.under_way.clear()
        self._down_until = until

    def heal(self) -> None:
        """Carry packets again."""
        self._down_until = 0
