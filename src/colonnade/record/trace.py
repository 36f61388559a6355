"""A run as a trace that Perfetto and Chrome open: a process for each party, a thread for what it
computes and one for each link, an arrow for each message, and counters for window and staleness.

Written event by event in the Trace Event Format, from files that may be larger than memory and may
have come from anybody.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from colonnade.record.chain import printable
from colonnade.record.exchanges import Exchanges
from colonnade.record.private import write_whole
from colonnade.record.timeline import Span, Timeline

Event = dict[str, Any]
COMPUTE = 1
GZIP = 31
"""For zlib: the format of gzip, without a name or a time, so that a run gives one file."""
LANES_MAX = 1000
"""The most threads of one link, for messages that are on their way at the same time."""
WORD_CHARS_MAX = 200
_MESSAGES = 2**31
"""More than a party sends of a kind to another in one generation."""


def write_trace(
    path: Path, timelines: Mapping[str, Timeline], exchanges: Mapping[str, Exchanges]
) -> int:
    """Write a trace, compressed where the name ends in `.gz`; how many events it has."""
    count = 0

    def pieces() -> Iterator[bytes]:
        nonlocal count
        yield b'{"displayTimeUnit":"ms","traceEvents":['
        for event in trace_events(timelines, exchanges):
            yield (",\n" if count else "\n").encode() + _encode(event)
            count += 1
        yield b"\n]}\n"

    write_whole(path, _compressed(pieces()) if path.suffix == ".gz" else pieces())
    return count


def _encode(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def _compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(wbits=GZIP)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def trace_events(
    timelines: Mapping[str, Timeline], exchanges: Mapping[str, Exchanges]
) -> Iterator[Event]:
    """The events of a trace, party by party.

    >>> lab = Timeline()
    >>> lab.add("forward", 5_000, 15_000, round=1)
    >>> for event in trace_events({"lab": lab}, {}):
    ...     print(event)
    {'ph': 'M', 'pid': 1, 'tid': 0, 'name': 'process_name', 'args': {'name': 'lab'}}
    {'ph': 'M', 'pid': 1, 'tid': 0, 'name': 'process_sort_index', 'args': {'sort_index': 1}}
    {'ph': 'M', 'pid': 1, 'tid': 1, 'name': 'thread_name', 'args': {'name': 'compute'}}
    {'ph': 'X', 'pid': 1, 'tid': 1, 'name': 'forward', 'cat': 'forward', 'ts': 0.0, 'dur': 10.0, \
'args': {'round': 1}}
    """
    zero_ns = min((_first(timeline) for timeline in timelines.values()), default=0)
    flows = _Flows()
    for pid, (party, timeline) in enumerate(timelines.items(), 1):
        yield from _Process(pid, party, zero_ns, flows).events(timeline)
        yield from _counters(pid, zero_ns, exchanges.get(party, ()))


def _first(timeline: Timeline) -> int:
    """When the first of its spans began."""
    return min((int(rows[:, 1].min()) for _, rows in timeline.blocks() if len(rows)), default=0)


def _counters(pid: int, zero_ns: int, rows: Iterable[Any]) -> Iterator[Event]:
    for row in rows:
        common = {"ph": "C", "pid": pid, "tid": 0, "ts": max(0, row.used_ns - zero_ns) / 1000}
        yield common | {
            "name": "window",
            "args": {"allowed": row.window, "in flight": row.in_flight},
        }
        yield common | {"name": "staleness", "args": {"updates": row.staleness}}


class _Flows:
    """The number of each message, the same at both ends: the n-th of its kind from a sender to a
    receiver, since the parties began together."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, ...], int] = {}
        self._counts: dict[tuple[str, ...], int] = {}

    def next(self, way: str, *route: str) -> int:
        """The number of the next message on a route."""
        number = self._routes.setdefault(route, len(self._routes))
        key = (way, *route)
        count = self._counts[key] = self._counts.get(key, -1) + 1
        return number * _MESSAGES + count


class _Process:
    """One party."""

    def __init__(self, pid: int, party: str, zero_ns: int, flows: _Flows) -> None:
        self._pid, self._party, self._zero_ns = pid, party, zero_ns
        self._flows = flows
        self._generation = ""
        self._lanes: dict[tuple[str, str], list[tuple[int, int]]] = {}
        """By direction and peer: threads, and until when each has something."""
        self._threads = COMPUTE

    def events(self, timeline: Timeline) -> Iterator[Event]:
        yield self._named("process_name", 0, name=_shown(self._party))
        yield self._named("process_sort_index", 0, sort_index=self._pid)
        yield self._named("thread_name", COMPUTE, name="compute")
        for span in timeline:
            if span.kind == "begin":
                self._generation = span.message
            elif span.kind in ("send", "receive"):
                yield from self._message(span)
            else:
                yield self._slice(span, COMPUTE, _shown(span.kind), _details(span))

    def _named(self, what: str, tid: int, **args: Any) -> Event:
        return {"ph": "M", "pid": self._pid, "tid": tid, "name": what, "args": args}

    def _slice(self, span: Span, tid: int, name: str, args: Event) -> Event:
        return {
            "ph": "X",
            "pid": self._pid,
            "tid": tid,
            "name": name,
            "cat": _shown(span.kind),
            "ts": (span.start_ns - self._zero_ns) / 1000,
            "dur": max(0, span.end_ns - span.start_ns) / 1000,
            "args": args,
        }

    def _message(self, span: Span) -> Iterator[Event]:
        """A slice on a thread of the link, and one end of its arrow."""
        # An arrow is held by a slice, which must not be empty.
        span = span._replace(end_ns=max(span.end_ns, span.start_ns + 1))
        tid, named = self._lane(span)
        yield from named
        yield self._slice(span, tid, _shown(span.message), _details(span))
        sends = span.kind == "send"
        ends = (self._party, span.peer) if sends else (span.peer, self._party)
        event = {
            "ph": "s" if sends else "f",
            "pid": self._pid,
            "tid": tid,
            "name": "message",
            "cat": "message",
            "ts": (span.start_ns - self._zero_ns) / 1000,
            "id": self._flows.next(span.kind, *ends, span.message, self._generation),
        }
        yield event if sends else event | {"bp": "e"}

    def _lane(self, span: Span) -> tuple[int, list[Event]]:
        """A thread of the link on which nothing else is at that time: slices of one thread must not
        overlap."""
        lanes = self._lanes.setdefault((span.kind, span.peer), [])
        for place, (tid, until_ns) in enumerate(lanes):
            if until_ns <= span.start_ns or place == LANES_MAX:
                lanes[place] = (tid, span.end_ns)
                return tid, []
        self._threads += 1
        lanes.append((self._threads, span.end_ns))
        name = f"{'to' if span.kind == 'send' else 'from'} {_shown(span.peer)}"
        if len(lanes) > 1:
            name += f" ({len(lanes)})"
        return self._threads, [self._named("thread_name", self._threads, name=name)]


def _details(span: Span) -> Event:
    found: Event = {"round": span.round} if span.round else {}
    if span.bytes:
        found["bytes"] = span.bytes
    if span.peer:
        found["peer"] = _shown(span.peer)
    return found


def _shown(text: str) -> str:
    return printable(text[:WORD_CHARS_MAX])
