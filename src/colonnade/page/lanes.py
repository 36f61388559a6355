"""Spans as lanes: one for each party, and one for each direction of each link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.page.reading import Ints, Names

FLIGHT = "flight"
"""A message's way from when its sender is done with it until its receiver has it."""
LINK_KINDS = ("send", FLIGHT, "receive")
LANES_MAX = 64
TRACKS_MAX = 8
"""The most messages that are drawn one above the other on one link."""
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
        used = np.unique(self.kind.codes).tolist()
        return any(self.kind.names[code] in LINK_KINDS for code in used)


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


def lanes_of(spans: Spans, active: str) -> tuple[list[str], list[Lane], int]:
    """The kinds by number, the lanes in the order in which they are drawn, and how many of them
    there are more than can be."""
    kinds = [name for name in spans.kind.names if name not in LINK_KINDS] + list(LINK_KINDS)
    number = np.array([kinds.index(name) for name in spans.kind.names] or [0])
    codes = number[spans.kind.codes] if len(spans) else np.zeros(0, np.int64)
    crossing = codes >= len(kinds) - len(LINK_KINDS)
    # A marker of a party's start over the network, which takes no time.
    begins = codes == (kinds.index("begin") if "begin" in kinds else -1)
    parties = _first(active, spans.party.names)
    lanes = []
    for name in parties:
        own = np.flatnonzero(
            (spans.party.codes == spans.party.names.index(name)) & ~crossing & ~begins
        )
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
    """The n-th message of a kind that left is the n-th of that kind that came: in a simulation,
    evaluation overtakes training."""
    message = spans.message.codes.astype(np.int64)
    leaving, coming = _met(message[out], message[into])
    sent, came = out[leaving], into[coming]
    left, arrived = spans.end[sent], spans.start[came]
    flight = left < arrived
    rows = np.concatenate([out, sent[flight], into])
    start = np.concatenate([spans.start[out], left[flight], spans.start[into]])
    end = np.concatenate([spans.end[out], arrived[flight], spans.end[into]])
    kind = np.repeat(
        [kinds.index("send"), kinds.index(FLIGHT), kinds.index("receive")],
        [len(out), int(flight.sum()), len(into)],
    )
    number = np.concatenate([np.arange(len(out)), leaving[flight], np.arange(len(into))])
    begins = spans.start[out] if len(out) else spans.start[into]
    ends = (
        np.maximum(spans.end[came], spans.end[sent])
        if len(sent)
        else spans.end[out if len(out) else into]
    )
    begins = spans.start[sent] if len(sent) else begins
    tracks = min(TRACKS_MAX, _together(begins, ends))
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


def _met(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """The places of the n-th of a kind in the one and in the other, in the order of the one."""
    most = len(one) + len(other)
    here, there = one * most + _nth(one), other * most + _nth(other)
    _, places, elsewhere = np.intersect1d(here, there, assume_unique=True, return_indices=True)
    order = np.argsort(places, kind="stable")
    return places[order].astype(np.int64), elsewhere[order].astype(np.int64)


def _nth(kinds: Ints) -> Ints:
    """Of each, how many of its kind come before it."""
    order = np.argsort(kinds, kind="stable")
    ordered = kinds[order]
    _, first, counts = np.unique(ordered, return_index=True, return_counts=True)
    found = np.empty(len(kinds), np.int64)
    found[order] = np.arange(len(kinds)) - np.repeat(first, counts)
    return found


def _together(start: Ints, end: Ints) -> int:
    """The most intervals that have an instant in common; at least 1."""
    times = np.concatenate([end, start])
    steps = np.concatenate([np.full(len(end), -1), np.ones(len(start), np.int64)])
    order = np.lexsort((steps, times))
    return max(1, int(np.cumsum(steps[order]).max(initial=0)))
