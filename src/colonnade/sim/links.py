"""Simulated links: quantities that change over time, transmission queues, fault rules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from colonnade.job.records import Link, Steps
from colonnade.units import duration_ns, rate_bits

NS_PER_S = 10**9


@dataclass(frozen=True)
class Trace:
    """An integer that changes over time, in steps.

    >>> trace = Trace((0, 100), (5, 7))
    >>> trace.at(99), trace.at(100)
    (5, 7)
    """

    times_ns: tuple[int, ...]
    values: tuple[int, ...]

    @classmethod
    def of(cls, quantity: str | Steps, read: Callable[[str], int]) -> Trace:
        """A trace from the notation of a job file: one quantity, or `[[time, quantity], …]`."""
        steps = [("0s", quantity)] if isinstance(quantity, str) else quantity
        return cls(
            tuple(duration_ns(time) for time, _ in steps), tuple(read(value) for _, value in steps)
        )

    def at(self, ns: int) -> int:
        """The value at an instant."""
        if len(self.values) == 1:
            return self.values[0]
        return self.values[bisect_right(self.times_ns, ns) - 1]

    def next_change(self, ns: int) -> int | None:
        """When the value next changes after `ns`; None for never."""
        if len(self.values) == 1:
            return None
        index = bisect_right(self.times_ns, ns)
        return self.times_ns[index] if index < len(self.times_ns) else None


@dataclass(frozen=True)
class Pass:
    """The rule does not apply to this message."""


@dataclass(frozen=True)
class Deliver:
    """The message arrives after this delay, whatever the link's latency and bandwidth."""

    delay_ns: int


@dataclass(frozen=True)
class Drop:
    """The message is lost."""


@dataclass(frozen=True)
class Repeat:
    """The message arrives several times, after each of these delays."""

    delays_ns: tuple[int, ...]


Verdict = Pass | Deliver | Drop | Repeat


@dataclass(frozen=True)
class Envelope:
    """What a fault rule knows of a message."""

    sender: str
    to: str
    kind: str
    number: int
    """How many messages this sender had sent to this receiver before."""
    sent_ns: int


Rule = Callable[[Envelope], Verdict]
"""A fault: the first rule whose verdict is not `Pass` decides."""


@dataclass
class Pipe:
    """One direction of a link: latency, and a bandwidth that messages share one after another."""

    latency: Trace
    bandwidth: Trace | None
    jitter_ns: int
    random: np.random.Generator
    rules: Sequence[Rule] = ()
    _free_ns: int = 0
    begun_ns: int = 0
    """When the bits of the last message began to go onto the link."""
    left_ns: int = 0
    """When the last of them has left."""
    last_arrival_ns: int = 0
    _count: int = field(default=0)

    @classmethod
    def of(cls, link: Link, seed: Sequence[int], rules: Sequence[Rule]) -> Pipe:
        """The pipe of a link in a job."""
        return cls(
            latency=Trace.of(link.latency, duration_ns),
            bandwidth=None if link.bandwidth is None else Trace.of(link.bandwidth, rate_bits),
            jitter_ns=duration_ns(link.jitter),
            random=np.random.Generator(np.random.PCG64(list(seed))),
            rules=rules,
        )

    def arrivals(self, sender: str, to: str, kind: str, size: int, now_ns: int) -> tuple[int, ...]:
        """When a message sent now arrives: once and in order, unless a rule says otherwise."""
        envelope = Envelope(sender, to, kind, self._count, now_ns)
        self.begun_ns = self.left_ns = now_ns
        self._count += 1
        for rule in self.rules:
            match rule(envelope):
                case Drop():
                    return ()
                case Deliver(delay_ns):
                    return (now_ns + delay_ns,)
                case Repeat(delays_ns):
                    return tuple(now_ns + delay_ns for delay_ns in delays_ns)
        return (self.arrival(size, now_ns),)

    def arrival(self, size: int, now_ns: int) -> int:
        """When a message sent now arrives, if no rule applies: never before an earlier one."""
        begun_ns = left_ns = now_ns
        if self.bandwidth is not None:
            begun_ns = self._free_ns if self._free_ns > now_ns else now_ns
            left_ns = self._free_ns = self._transmitted(begun_ns, size * 8)
        self.begun_ns, self.left_ns = begun_ns, left_ns
        latency = self.latency.values
        arrival = left_ns + (latency[0] if len(latency) == 1 else self.latency.at(now_ns))
        if self.jitter_ns:
            arrival += int(self.random.integers(self.jitter_ns + 1))
        if arrival > self.last_arrival_ns:
            self.last_arrival_ns = arrival
        return self.last_arrival_ns

    def _transmitted(self, start_ns: int, bits: int) -> int:
        """When the last of so many bits is sent; the rate may change meanwhile."""
        assert self.bandwidth is not None
        if len(self.bandwidth.values) == 1:
            return start_ns + -(-bits * NS_PER_S // self.bandwidth.values[0])
        while True:
            rate = self.bandwidth.at(start_ns)
            end_ns = start_ns + -(-bits * NS_PER_S // rate)
            change_ns = self.bandwidth.next_change(start_ns)
            if change_ns is None or end_ns <= change_ns:
                return end_ns
            bits -= (change_ns - start_ns) * rate // NS_PER_S
            start_ns = change_ns
