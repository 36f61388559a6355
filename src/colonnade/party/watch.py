"""When rounds change their pace: a sign that lines or speeds have changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf

from colonnade.planning.workload import Member

CHANGE = 1.25
"""Rounds that are slower or faster by this factor are such a sign."""
BLOCK = 4
"""How many rounds are judged together at the least; whole windows, since what is sent at once comes
back at once."""
CALM = 20
"""The fewest rounds between two measurements; after one that finds nothing new, twice as many."""


class Watch:
    """Sees when rounds change their pace.

    >>> watch = Watch(0, window=1)
    >>> next(r for r in range(60) if watch.changed(r, 10 * r if r < 40 else 20 * r))
    40
    """

    def __init__(self, round: int, window: int, calm: int = CALM) -> None:
        """The rounds from this one on are watched, with so many in flight; the first of them only
        fill windows, and the next so many say what is usual."""
        self.calm = calm
        self._from = round + 2 * window
        self._quiet = self._from + calm
        self._least, self._most = inf, 0.0
        """Of what so many rounds took while nothing had changed."""
        self._times: deque[int] = deque(maxlen=window * -(-BLOCK // window) + 1)

    def pause(self) -> None:
        """The rounds from here on say nothing, until somebody asks again."""
        self._times.clear()

    def changed(self, round: int, now_ns: int) -> bool:
        """Whether the last rounds up to this one were slower or faster than usual."""
        times = self._times
        if round < self._from:
            return False
        times.append(now_ns)
        if len(times) < (times.maxlen or 0):
            return False
        took_ns = times[-1] - times[0]
        if round < self._quiet or not self._most:
            self._least, self._most = min(took_ns, self._least), max(took_ns, self._most)
            return False
        return not self._least / CHANGE <= took_ns <= self._most * CHANGE


def _alike(one: float | None, other: float | None) -> bool:
    """Whether two quantities differ by less than a change that is worth a measurement."""
    if not one or not other:
        return bool(one) == bool(other)
    return 1 / CHANGE <= one / other <= CHANGE


def alike(one: Mapping[str, Member], other: Mapping[str, Member]) -> bool:
    """Whether two measurements show the same lines and speeds."""
    return all(
        _alike(a, b)
        for name in one
        for a, b in zip(_figures(one[name]), _figures(other[name]), strict=True)
    )


def _figures(member: Member) -> tuple[float | None, ...]:
    speeds, line = member.speeds, member.line
    busy_ns = speeds.forward_ns + speeds.backward_ns + speeds.aggregate_ns
    return busy_ns, line.latency_ns, line.up_bits, line.down_bits
