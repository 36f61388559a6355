"""The timeline of a run, in as few bytes as its page can be drawn from at any zoom.

From afar, a lane (a party, or one direction of a link) is drawn as shares: how much of each of many
short stretches of time it spent on each kind. That is the same for ten spans and for ten million.
Close by, the spans themselves are drawn, as long as all of them fit into the bytes that there are;
where they do not, those of the beginning, of the middle and of the end do.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.page.lanes import Lane, Spans, lanes_of
from colonnade.page.reading import Floats, Packed

BUCKETS_MAX = 8192
DETAIL_MAX = 400_000
"""The most spans that are handed on one by one."""
_DETAILS = ("kind", "round", "bytes", "message", "peer", "staleness", "track")


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
    kinds, lanes, more = lanes_of(spans, active)
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
    pairs = list(zip(lanes, chosen, strict=True))
    counts = [len(own) for own in chosen]
    start = [np.diff(lane.start[own] - first, prepend=0) for lane, own in pairs]
    columns = [start, [(lane.end - lane.start)[own] for lane, own in pairs]]
    columns += [[getattr(lane, name)[own] for lane, own in pairs] for name in _DETAILS]
    whole = [np.concatenate(column) for column in columns]
    header = np.array([len(counts), *counts], "<u4").tobytes()
    return _packed(header + b"".join(map(_planes, whole))), sum(counts)


def _planes(column: NDArray[np.int64]) -> bytes:
    """A byte that says how many planes there are, and the planes; 7 hold all that a number of a
    browser can."""
    whole = np.clip(column, 0, 2**53).astype("<u8")
    most = int(whole.max(initial=0))
    planes = (most.bit_length() + 7) // 8
    split = whole.view(np.uint8).reshape(-1, 8)
    return bytes([planes]) + b"".join(split[:, plane].tobytes() for plane in range(planes))


def _packed(content: bytes) -> Packed:
    return Packed(base64.b64encode(zlib.compress(content, 9)).decode())
