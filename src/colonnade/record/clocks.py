"""Clocks of different hosts, aligned by what both ends saw of the same messages.

A message is received after it was sent. So what the receiver's clock says at its arrival, less what
the sender's clock said when it was queued, is at least by how much the first is ahead of the
second; a message in the other direction bounds that from the other side. The closest two bounds
leave an interval as long as the shortest round trip: its middle is the offset, and half of it the
uncertainty, as in NTP. Nothing more has to cross than the messages themselves.

Clocks may drift. Where no constant offset fits between all bounds, a line is fitted, and where no
line does either (a host was suspended), one line to each stretch of time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from colonnade.record.exchanges import Exchanges
from colonnade.record.timeline import Numbers, Timeline

DRIFT_MAX = 1e-3
"""The most that a clock gains on another; those of computers stay a hundred times below."""
BINS = 2048
"""Of the messages in so many stretches of time only the closest bounds count."""
MESSAGES_MAX = 500_000
"""Of more messages in a timeline, only every second, third, … is looked at."""
PIECES_MAX = 64
STEPS = 80
SHARP_NS = 2
"""How far a reading of a clock may be off by itself."""


@dataclass(frozen=True)
class Piece:
    """How one clock relates to another in a stretch of time."""

    since_ns: int
    """From when on, by the peer's clock."""
    offset_ns: int
    """The peer's clock minus mine, at that instant."""
    uncertainty_ns: int
    """By how much the offset may be wrong, anywhere in this stretch."""
    drift_ppm: float = 0.0
    """Millionths of a second by which the offset grows in a second."""

    def offsets(self, times_ns: Numbers) -> Numbers:
        """The offset at instants of the peer's clock."""
        gained = (times_ns - self.since_ns) * (self.drift_ppm * 1e-6)
        return self.offset_ns + np.rint(gained).astype(np.int64)


@dataclass(frozen=True)
class Clock:
    """A peer's clock, as seen from mine.

    >>> clock = Clock((Piece(0, offset_ns=100, uncertainty_ns=7),), messages=12)
    >>> clock.mine(np.array([150, 250])).tolist()
    [50, 150]
    """

    pieces: tuple[Piece, ...]
    messages: int
    """How many were seen by both ends, in both directions."""

    @property
    def uncertainty_ns(self) -> int:
        """That of the least certain stretch."""
        return max(piece.uncertainty_ns for piece in self.pieces)

    def mine(self, times_ns: Numbers) -> Numbers:
        """What my clock showed when the peer's showed these times."""
        if len(self.pieces) == 1:
            return times_ns - self.pieces[0].offsets(times_ns)
        since = np.array([piece.since_ns for piece in self.pieces])
        at = np.maximum(np.searchsorted(since, times_ns, "right") - 1, 0)
        offsets = np.stack([piece.offsets(times_ns) for piece in self.pieces])
        return times_ns - offsets[at, np.arange(len(times_ns))]

    def facts(self) -> dict[str, Any]:
        """As `clocks.json` has it."""
        first = self.pieces[0]
        found = {
            "offset_ns": first.offset_ns,
            "uncertainty_ns": self.uncertainty_ns,
            "drift_ppm": first.drift_ppm,
            "messages": self.messages,
        }
        if len(self.pieces) > 1:
            found["pieces"] = [vars(piece) for piece in self.pieces]
        return found


def align(timelines: Mapping[str, Timeline], reference: str) -> dict[str, Clock]:
    """The clocks of the other parties as seen from one that has exchanged messages with each.

    A party with which there were none in one direction is left out.

    >>> bank, lab = Timeline(), Timeline()
    >>> bank.add("send", 0, 1, peer="lab")
    >>> lab.add("receive", 1005, 1006, peer="bank")
    >>> lab.add("send", 1006, 1007, peer="bank")
    >>> bank.add("receive", 15, 16, peer="lab")
    >>> align({"bank": bank, "lab": lab}, "bank")["lab"].pieces[0]
    Piece(since_ns=1005, offset_ns=998, uncertainty_ns=7, drift_ppm=0.0)
    """
    every = 1 + max((len(timeline) for timeline in timelines.values()), default=0) // MESSAGES_MAX
    mine = _messages(timelines[reference], every)
    found = {}
    for peer, timeline in timelines.items():
        if peer != reference:
            theirs = _messages(timeline, every, only=reference)
            down = _pairs(mine, theirs, peer, reference)
            up = _pairs(theirs, mine, reference, peer)
            clock = fit(down[:, 1], down[:, 1] - down[:, 0], up[:, 0], up[:, 0] - up[:, 1])
            if clock is not None:
                found[peer] = clock
    return found


Seen = dict[tuple[str, str, str], list[tuple[int, int]]]
"""By direction, peer and generation: when each message was queued or came, and its size."""


def _messages(timeline: Timeline, every: int, only: str | None = None) -> Seen:
    """What a party saw of messages; the n-th of a generation is the same at both ends."""
    found: Seen = {}
    count: dict[tuple[str, str, str], int] = {}
    generation = ""
    for words, rows in timeline.blocks():
        wanted = [
            code
            for code, each in enumerate(words)
            if each.kind == "begin"
            or (each.kind in ("send", "receive") and only in (None, each.peer))
        ]
        for code, start_ns, _, _, size in rows[np.isin(rows[:, 0], wanted)].tolist():
            kind, peer, message = words[code]
            if kind == "begin":
                generation = message
                continue
            key = (kind, peer, generation)
            number = count[key] = count.get(key, -1) + 1
            if not number % every:
                found.setdefault(key, []).append((start_ns, size))
    return found


def _pairs(senders: Seen, receivers: Seen, to: str, sender: str) -> Numbers:
    """When each message was queued, by the sender's clock, and came, by the receiver's."""
    found = [np.zeros((0, 2), np.int64)]
    for (kind, peer, generation), sent in senders.items():
        if kind == "send" and peer == to:
            got = receivers.get(("receive", sender, generation), [])
            both = np.array(list(zip(sent, got, strict=False)), np.int64).reshape(-1, 2, 2)
            # A message that is not the same at both ends, and what follows, is no pair.
            same = np.cumprod(both[:, 0, 1] == both[:, 1, 1]).astype(bool)
            found.append(both[same][:, :, 0])
    return np.concatenate(found)


def fit(upper_at: Numbers, upper: Numbers, lower_at: Numbers, lower: Numbers) -> Clock | None:
    """The offset that stays below the upper bounds and above the lower ones, each at an instant of
    the peer's clock; None where there are none on one side."""
    if not len(upper) or not len(lower):
        return None
    messages = len(upper) + len(lower)
    above, below = _closest(upper_at, upper), _closest(lower_at, -lower)
    below = np.column_stack((below[:, 0], -below[:, 1]))
    if below[:, 1].max() > above[:, 1].min():
        # Readings are rounded, and must not rule out a line for that.
        slack = np.array([0, SHARP_NS])
        above, below = above + slack, below - slack
    pieces: list[Piece] = []
    while len(above) and len(below) and len(pieces) < PIECES_MAX:
        end = _reach(above, below, last=len(pieces) == PIECES_MAX - 1)
        taken = above[above[:, 0] <= end], below[below[:, 0] <= end]
        pieces.append(_piece(*taken))
        above, below = above[above[:, 0] > end], below[below[:, 0] > end]
    return Clock(tuple(pieces), messages)


def _closest(at: Numbers, bounds: Numbers) -> Numbers:
    """The smallest bound of each stretch of time, in order."""
    order = np.argsort(at, kind="stable")
    parts = np.array_split(order, min(BINS, len(order)))
    chosen = [part[np.argmin(bounds[part])] for part in parts]
    return np.column_stack((at[chosen], bounds[chosen]))


def _reach(above: Numbers, below: Numbers, last: bool) -> int:
    """Up to which instant one line fits between the bounds, beginning with the first of both."""
    instants = np.unique(np.concatenate((above[:, 0], below[:, 0])))
    first = int(max(above[0, 0], below[0, 0]))
    if last or _fits(above, below, int(instants[-1])):
        return int(instants[-1])
    low, high = int(np.searchsorted(instants, first)), len(instants) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(above, below, int(instants[middle])):
            low = middle
        else:
            high = middle
    return int(instants[low])


def _fits(above: Numbers, below: Numbers, end: int) -> bool:
    taken = above[above[:, 0] <= end], below[below[:, 0] <= end]
    return _room(*taken, 0, 0.0) >= 0 or _steepest(*taken)[1] >= 0


def _room(above: Numbers, below: Numbers, at_ns: int, drift: float) -> float:
    """How far the bounds are apart, for lines with this drift."""
    least, most = _between(above, below, at_ns, drift)
    return most - least


def _between(above: Numbers, below: Numbers, at_ns: int, drift: float) -> tuple[float, float]:
    """Between which values at an instant a line with this drift lies."""
    most = (above[:, 1] - drift * (above[:, 0] - at_ns)).min()
    least = (below[:, 1] - drift * (below[:, 0] - at_ns)).max()
    return float(least), float(most)


def _steepest(above: Numbers, below: Numbers) -> tuple[float, float]:
    """The drift with the most room between the bounds, and that room. It is a concave function of
    the drift: a minimum of straight lines less a maximum of such."""
    at_ns = int(above[0, 0])
    drift = _maximum(lambda each: _room(above, below, at_ns, each), -DRIFT_MAX, DRIFT_MAX)
    return drift, _room(above, below, at_ns, drift)


def _piece(above: Numbers, below: Numbers) -> Piece:
    since = int(min(above[0, 0], below[0, 0]))
    lowest, highest = int(below[:, 1].max()), int(above[:, 1].min())
    if highest >= lowest:
        return Piece(since, (lowest + highest) // 2, (highest - lowest + 1) // 2)
    drift, room = _steepest(above, below)
    least, most = _between(above, below, since, drift)
    made = Piece(since, round((least + most) / 2), 0, drift * 1e6)
    ends = (since, int(max(above[-1, 0], below[-1, 0])))
    away = max(_away(above, below, at_ns, made) for at_ns in ends)
    # Without room for a line even here, how far the bounds contradict each other is uncertain.
    return Piece(since, made.offset_ns, int(np.ceil(max(away, -room))) + 2, made.drift_ppm)


def _away(above: Numbers, below: Numbers, at_ns: int, made: Piece) -> float:
    """How far from a piece, at an instant, any line between the bounds may be. The farthest lines
    bound a convex shape, so that it is most at its ends."""
    low, high = _slopes(above, below, made.drift_ppm * 1e-6)
    top = _maximum(lambda each: _between(above, below, at_ns, each)[1], low, high)
    bottom = _maximum(lambda each: -_between(above, below, at_ns, each)[0], low, high)
    most = _between(above, below, at_ns, top)[1]
    least = _between(above, below, at_ns, bottom)[0]
    value = float(made.offsets(np.array([at_ns]))[0])
    return max(most - value, value - least)


def _slopes(above: Numbers, below: Numbers, inside: float) -> tuple[float, float]:
    """The drifts that leave room, around one that does."""
    at_ns = int(above[0, 0])
    found = []
    for edge in (-DRIFT_MAX, DRIFT_MAX):
        good, bad = inside, edge
        for _ in range(STEPS):
            middle = (good + bad) / 2
            if _room(above, below, at_ns, middle) >= 0:
                good = middle
            else:
                bad = middle
        found.append(bad)
    return found[0], found[1]


def _maximum(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a concave function is largest."""
    for _ in range(STEPS):
        third = (high - low) / 3
        if of(low + third) < of(high - third):
            low += third
        else:
            high -= third
    return (low + high) / 2


def on_my_clock(timeline: Timeline, clock: Clock) -> Timeline:
    """A peer's timeline by my clock; how long its spans took stays as it is.

    >>> lab = Timeline()
    >>> lab.add("forward", 150, 160)
    >>> list(on_my_clock(lab, Clock((Piece(0, 100, 0),), 2)))[0][:3]
    ('forward', 50, 60)
    """
    made = Timeline()
    for words, rows in timeline.blocks():
        moved = rows.copy()
        moved[:, 1] = clock.mine(rows[:, 1])
        moved[:, 2] = moved[:, 1] + rows[:, 2] - rows[:, 1]
        made.extend(words, moved)
    return made


def exchanges_on_my_clock(exchanges: Exchanges, clock: Clock) -> Exchanges:
    """A peer's exchanges by my clock."""
    made = Exchanges()
    for rows in exchanges.blocks():
        moved = rows.copy()
        for name in ("sent_ns", "replied_ns", "used_ns"):
            moved[name] = clock.mine(rows[name])
        made.extend(moved)
    return made
