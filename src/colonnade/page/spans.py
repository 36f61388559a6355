"""The timeline of a run, in as few bytes as its page can be drawn from at any zoom.

From afar, a lane (a party, or one direction of a link) is drawn as shares: how much of each of many
short stretches of time it spent on each kind. That is the same for ten spans and for ten million.
Close by, the spans themselves are drawn, as long as all of them fit into the bytes that there are;
where they do not, those of the beginning, of the middle and of the end do.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.page.reading import Floats, Ints, Names

FLIGHT = "flight"
"""A message's way from when its sender is done with it until its receiver has it."""
LINK_KINDS = ("send", FLIGHT, "receive")
BUCKETS_MAX = 8192
LANES_MAX = 64
TRACKS_MAX = 8
"""The most messages that are drawn one above the other on one link."""
DETAIL_MAX = 400_000
"""The most spans that are handed on one by one."""
TEMPLATE = {"party": "name", "kind": "name", "start_ns": "int", "end_ns": "int", "round": "int",
            "bytes": "int", "peer": "name", "message": "name"}  # fmt: skip
"""The columns of a timeline that are read."""


@dataclass
class Lane:
    """What is drawn in one line: spans in the order of time, as columns."""

    name: str
    link: bool
    kind: NDArray[np.int64]
    start: Ints
    end: Ints
    round: Ints
    bytes: Ints
    message: NDArray[np.int64]
    peer: NDArray[np.int64]
    staleness: Ints
    """One more than it is; 0 where none is known."""
    track: NDArray[np.int64]
    tracks: int = 1
    party: str = ""
    to: str = ""


@dataclass
class Spans:
    """A timeline as columns, with neutral values where an older one lacks some."""

    party: Names
    kind: Names
    start: Ints
    end: Ints
    round: Ints
    bytes: Ints
    peer: Names
    message: Names
    staleness: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.start)

    @property
    def traced(self) -> bool:
        """Whether it knows of messages."""
        return bool({"send", "receive"} & set(self.kind.names))


def spans_of(columns: Mapping[str, Any]) -> Spans:
    """The spans of a table; one of four columns has no rounds, bytes and messages.

    >>> names = Names(np.zeros(1, np.int32), ["forward"])
    >>> ends = {"start_ns": np.zeros(1, np.int64), "end_ns": np.ones(1, np.int64)}
    >>> len(spans_of({"party": names, "kind": names, **ends}))
    1
    """
    count = len(columns["start_ns"])
    none, nothing = np.zeros(count, np.int64), Names(np.zeros(count, np.int32), [""])
    start = columns["start_ns"]
    # A hostile table may have anything: a span ends when it began at the earliest.
    end = np.maximum(columns["end_ns"], start)
    return Spans(
        party=columns["party"],
        kind=columns["kind"],
        start=start,
        end=end,
        round=columns.get("round", none),
        bytes=columns.get("bytes", none),
        peer=columns.get("peer", nothing),
        message=columns.get("message", nothing),
        staleness=none,
    )


def totals(spans: Spans) -> list[dict[str, Any]]:
    """For every party and kind how long it took in all, in nanoseconds, and in how many spans."""
    kinds = len(spans.kind.names)
    key = spans.party.codes.astype(np.int64) * kinds + spans.kind.codes
    found, place, counts = np.unique(key, return_inverse=True, return_counts=True)
    # Not with weights, which numpy would add up as floats: these are exact to the nanosecond.
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, place, spans.end - spans.start)
    return [
        {
            "party": spans.party.names[each // kinds],
            "kind": spans.kind.names[each % kinds],
            "ns": int(total),
            "spans": int(count),
        }
        for each, total, count in zip(found.tolist(), sums, counts, strict=True)
    ]


def timeline(spans: Spans, active: str = "", bytes_max: int = 2_000_000) -> dict[str, Any] | None:
    """All that a page needs to draw a timeline, in about so many bytes; None where there is none.

    `active` names the party whose lane comes first.
    """
    if not len(spans):
        return None
    kinds, lanes, more = _lanes(spans, active)
    if not lanes:
        return None
    first = min(int(lane.start.min()) for lane in lanes)
    last = max(int(lane.end.max()) for lane in lanes)
    duration = max(last - first, 1)
    shares = _shares(lanes, len(kinds), first, duration, bytes_max // 3)
    detail = _detail(lanes, first, duration, bytes_max - len(shares["data"]))
    return {
        "start_ns": first,
        "duration_ns": duration,
        "spans": sum(len(lane.start) for lane in lanes),
        "kinds": kinds,
        "messages": spans.message.names,
        "peers": spans.peer.names,
        "lanes": [
            {"name": lane.name, "link": lane.link, "tracks": lane.tracks, "party": lane.party,
             "to": lane.to}
            for lane in lanes
        ],
        "lanes_left_out": more,
        "traced": spans.traced,
        "shares": shares,
        "detail": detail,
    }  # fmt: skip


def _lanes(spans: Spans, active: str) -> tuple[list[str], list[Lane], int]:
    """The kinds by number, the lanes in the order in which they are drawn, and how many of them
    there are more than can be."""
    kinds = [name for name in spans.kind.names if name not in LINK_KINDS] + list(LINK_KINDS)
    number = np.array([kinds.index(name) for name in spans.kind.names] or [0])
    codes = number[spans.kind.codes] if len(spans) else np.zeros(0, np.int64)
    crossing = codes >= len(kinds) - len(LINK_KINDS)
    parties = _first(active, spans.party.names)
    lanes = []
    for name in parties:
        own = np.flatnonzero((spans.party.codes == spans.party.names.index(name)) & ~crossing)
        if len(own):
            lanes.append(_lane(name, spans, own, codes))
    links = _links(spans, codes, crossing, kinds, parties)
    found = [*lanes, *links]
    return kinds, found[:LANES_MAX], max(0, len(found) - LANES_MAX)


def _first(active: str, names: list[str]) -> list[str]:
    return sorted(dict.fromkeys(names), key=lambda name: (name != active, names.index(name)))


def _lane(name: str, spans: Spans, own: NDArray[np.int64], codes: NDArray[np.int64]) -> Lane:
    own = own[np.argsort(spans.start[own], kind="stable")]
    staleness = spans.staleness[own] if len(spans.staleness) else np.zeros(len(own), np.int64)
    return Lane(
        name=name,
        link=False,
        kind=codes[own],
        start=spans.start[own],
        end=spans.end[own],
        round=spans.round[own],
        bytes=spans.bytes[own],
        message=spans.message.codes[own].astype(np.int64),
        peer=spans.peer.codes[own].astype(np.int64),
        staleness=staleness,
        track=np.zeros(len(own), np.int64),
        party=name,
    )


def _links(
    spans: Spans,
    codes: NDArray[np.int64],
    crossing: NDArray[np.bool_],
    kinds: list[str],
    parties: list[str],
) -> list[Lane]:
    """A lane for each direction of each link over which something went."""
    sends, receives = kinds.index("send"), kinds.index("receive")
    places = {name: place for place, name in enumerate(parties)}
    names = [*dict.fromkeys([*parties, *spans.peer.names])]
    party = np.array([names.index(name) for name in spans.party.names] or [0])[spans.party.codes]
    peer = np.array([names.index(name) for name in spans.peer.names] or [0])[spans.peer.codes]
    sent = crossing & (codes == sends)
    source, target = np.where(sent, party, peer), np.where(sent, peer, party)
    pair = source * len(names) + target
    found = []
    for each in np.unique(pair[crossing]).tolist():
        here = crossing & (pair == each)
        one, other = names[each // len(names)], names[each % len(names)]
        out = np.flatnonzero(here & (codes == sends))
        into = np.flatnonzero(here & (codes == receives))
        found.append(_link(one, other, spans, out, into, kinds))
    # Both directions of a link stand together, in the order of its passive end.
    last = len(places)

    def order(lane: Lane) -> tuple[int, int]:
        ends = [places.get(lane.party, last), places.get(lane.to, last)]
        return max(ends), ends[1]

    return sorted(found, key=order)


def _link(
    one: str,
    other: str,
    spans: Spans,
    out: NDArray[np.int64],
    into: NDArray[np.int64],
    kinds: list[str],
) -> Lane:
    """The n-th message that left is the n-th that came."""
    both = min(len(out), len(into))
    sent, came = out[:both], into[:both]
    left, arrived = spans.end[sent], spans.start[came]
    flight = left < arrived
    rows = np.concatenate([out, sent[flight], into])
    start = np.concatenate([spans.start[out], left[flight], spans.start[into]])
    end = np.concatenate([spans.end[out], arrived[flight], spans.end[into]])
    kind = np.repeat(
        [kinds.index("send"), kinds.index(FLIGHT), kinds.index("receive")],
        [len(out), int(flight.sum()), len(into)],
    )
    number = np.concatenate([np.arange(len(out)), np.flatnonzero(flight), np.arange(len(into))])
    begins = spans.start[out] if len(out) else spans.start[into]
    ends = (
        np.maximum(spans.end[came], spans.end[sent])
        if both
        else spans.end[out if len(out) else into]
    )
    tracks = min(TRACKS_MAX, _together(begins[: len(ends)], ends))
    order = np.argsort(start, kind="stable")
    return Lane(
        name=f"{one} → {other}",
        link=True,
        kind=kind[order],
        start=start[order],
        end=end[order],
        round=spans.round[rows][order],
        bytes=spans.bytes[rows][order],
        message=spans.message.codes[rows][order].astype(np.int64),
        peer=np.zeros(len(rows), np.int64),
        staleness=np.zeros(len(rows), np.int64),
        # Messages of a link stay in order, so that the first of these tracks is free again.
        track=(number % tracks)[order],
        tracks=tracks,
        party=one,
        to=other,
    )


def _together(start: Ints, end: Ints) -> int:
    """The most intervals that have an instant in common; at least 1."""
    times = np.concatenate([end, start])
    steps = np.concatenate([np.full(len(end), -1), np.ones(len(start), np.int64)])
    order = np.lexsort((steps, times))
    return max(1, int(np.cumsum(steps[order]).max(initial=0)))


def shares_of(lane: Lane, kind: int, first: int, duration: int, buckets: int) -> Floats:
    """The share of each bucket that a lane spends on a kind."""
    own = lane.kind == kind
    width = duration / buckets
    start = (lane.start[own] - first) / width
    end = (lane.end[own] - first) / width
    low = np.minimum(start.astype(np.int64), buckets - 1)
    high = np.minimum(end.astype(np.int64), buckets - 1)
    filled = np.zeros(buckets + 1)
    # What begins in a bucket and ends in another fills those between them whole.
    within = low == high
    np.add.at(filled, low[within], (end - start)[within])
    np.add.at(filled, low[~within], (low + 1 - start)[~within])
    np.add.at(filled, high[~within], (end - high)[~within])
    steps = np.zeros(buckets + 1)
    np.add.at(steps, np.minimum(low[~within] + 1, buckets), 1.0)
    np.add.at(steps, high[~within], -1.0)
    return (filled + np.cumsum(steps))[:buckets] / lane.tracks


def _shares(
    lanes: list[Lane], kinds: int, first: int, duration: int, bytes_max: int
) -> dict[str, Any]:
    """The shares of all lanes, in buckets as fine as the bytes allow; 255 is a whole bucket."""
    pairs = [
        (place, kind) for place, lane in enumerate(lanes) for kind in np.unique(lane.kind).tolist()
    ]
    buckets = BUCKETS_MAX
    while True:
        planes = [
            np.clip(np.rint(shares_of(lanes[place], kind, first, duration, buckets) * 255), 0, 255)
            for place, kind in pairs
        ]
        data = _packed(np.concatenate(planes).astype(np.uint8).tobytes())
        if len(data) <= bytes_max or buckets <= 64:
            break
        buckets //= 2
    return {"buckets": buckets, "of": [list(pair) for pair in pairs], "data": data}


def _detail(lanes: list[Lane], first: int, duration: int, bytes_max: int) -> dict[str, Any]:
    """Spans one by one: all, or those of three stretches of time."""
    count = sum(len(lane.start) for lane in lanes)
    share = min(1.0, DETAIL_MAX / count)
    while True:
        windows = _windows(first, duration, share)
        data, kept = _columns(lanes, first, windows)
        if len(data) <= bytes_max or kept < 1000:
            break
        share *= 0.9 * bytes_max / len(data)
    whole = share == 1.0
    relative = [[begin - first, end - first] for begin, end in windows]
    return {"whole": whole, "windows": relative, "count": kept, "data": data}


def _windows(first: int, duration: int, share: float) -> list[tuple[int, int]]:
    """The stretches of time whose spans are kept one by one."""
    if share >= 1.0:
        return [(first, first + duration)]
    each = int(duration * share / 3)
    middle = first + (duration - each) // 2
    return [
        (first, first + each),
        (middle, middle + each),
        (first + duration - each, first + duration),
    ]


def _columns(lanes: list[Lane], first: int, windows: list[tuple[int, int]]) -> tuple[str, int]:
    """The spans that touch the windows, lane by lane, in planes of bytes, which pack well: the
    lowest byte of each number of a column, then the next, and so on."""
    chosen = []
    for lane in lanes:
        touched = np.zeros(len(lane.start), np.bool_)
        for begin, end in windows:
            touched |= (lane.start <= end) & (lane.end >= begin)
        chosen.append(np.flatnonzero(touched))
    counts = [len(own) for own in chosen]
    start = [
        np.diff(lane.start[own] - first, prepend=0) for lane, own in zip(lanes, chosen, strict=True)
    ]
    columns = [np.concatenate(start)]
    for name in ("kind", "round", "bytes", "message", "peer", "staleness", "track"):
        columns.append(
            np.concatenate(
                [getattr(lane, name)[own] for lane, own in zip(lanes, chosen, strict=True)]
            )
        )
    lengths = [(lane.end - lane.start)[own] for lane, own in zip(lanes, chosen, strict=True)]
    columns.insert(1, np.concatenate(lengths))
    header = np.array([len(counts), *counts], "<u4").tobytes()
    return _packed(header + b"".join(map(_planes, columns))), sum(counts)


def _planes(column: NDArray[np.int64]) -> bytes:
    """A byte that says how many planes there are, and the planes; 7 hold all that a number of a
    browser can."""
    whole = np.clip(column, 0, 2**53).astype("<u8")
    most = int(whole.max(initial=0))
    planes = (most.bit_length() + 7) // 8
    split = whole.view(np.uint8).reshape(-1, 8)
    return bytes([planes]) + b"".join(split[:, plane].tobytes() for plane in range(planes))


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()
