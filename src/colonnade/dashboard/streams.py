"""Server-sent events: the runs that go on, and the list as it changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse

from colonnade.dashboard.catalogue import Catalogue
from colonnade.dashboard.finding import Place, still_there
from colonnade.dashboard.rows import Row
from colonnade.dashboard.tail import Piece, Position, read_piece
from colonnade.dashboard.threads import BusyError, Workers
from colonnade.record.live import FILE as LIVE
from colonnade.record.live import is_followed

STREAMS_MAX = 32
"""How many pages may follow at once."""
RUNS_MAX = 12
"""How many runs one page may follow."""
LOOK_S = 0.5
LIST_S = 2.0
HEARTBEAT_S = 15.0
RETRY_MS = 2000
"""After how long a browser that lost the connection comes again."""
_encode = msgspec.json.encode


class FullError(Exception):
    """As many streams are open as may be."""


class Streams:
    """What browsers keep open."""

    def __init__(self, catalogue: Catalogue, workers: Workers) -> None:
        self._catalogue, self._workers = catalogue, workers
        self._open = 0
        self.stopping = asyncio.Event()
        """Set when the dashboard ends."""

    def live(self, request: Request, places: Sequence[Place]) -> StreamingResponse:
        """The events of runs from where the browser was, and as they come."""
        last = request.headers.get("last-event-id", "") or request.query_params.get("from", "")
        return self._response(self._follow(places, _positions(last)))

    def changes(self, request: Request) -> StreamingResponse:
        """The rows of the list: all of them, then those that change."""
        return self._response(self._list())

    def _response(self, events: AsyncIterator[bytes]) -> StreamingResponse:
        if self._open >= STREAMS_MAX:
            raise FullError
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(
            self._counted(events), media_type="text/event-stream", headers=headers
        )

    async def _counted(self, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        with self._counting():
            yield b"retry: %d\n\n" % RETRY_MS
            async for event in events:
                yield event

    @contextmanager
    def _counting(self) -> Iterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def _follow(
        self, places: Sequence[Place], positions: Mapping[str, Position]
    ) -> AsyncIterator[bytes]:
        followed = [_Followed(place, positions.get(place.id, Position())) for place in places]
        silent_s = 0.0
        while not self.stopping.is_set():
            said = False
            for each in followed:
                with suppress(BusyError):
                    for event in await self._workers.run(each.look):
                        said = True
                        where = ",".join(f"{one.place.id}:{one.position}" for one in followed)
                        yield b"id: %s\ndata: %s\n\n" % (where.encode(), _encode(event))
            silent_s = 0.0 if said else silent_s + LOOK_S
            if silent_s >= HEARTBEAT_S:
                silent_s = 0.0
                yield b": still here\n\n"
            if not any(each.more for each in followed):
                await self._rest(LOOK_S)

    async def _list(self) -> AsyncIterator[bytes]:
        before: Mapping[str, Row] | None = None
        silent_s = 0.0
        while not self.stopping.is_set():
            with suppress(BusyError):
                found = await self._catalogue.snapshot()
                changed = [row for id_, row in found.rows.items() if (before or {}).get(id_) != row]
                gone = [id_ for id_ in before or {} if id_ not in found.rows]
                if changed or gone or before is None:
                    silent_s = 0.0
                    told = {"rows": changed, "gone": gone, "notes": found.findings.notes}
                    yield b"data: %s\n\n" % _encode(told)
                before = found.rows
            if silent_s >= HEARTBEAT_S:
                silent_s = 0.0
                yield b": still here\n\n"
            await self._rest(LIST_S)
            silent_s += LIST_S

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)


class _Followed:
    """One run of a stream."""

    def __init__(self, place: Place, position: Position) -> None:
        self.place, self.position = place, position
        self.more = False
        self._goes_on: bool | None = None

    def look(self) -> list[dict[str, Any]]:
        """What is new, as the browser is told it; called in a thread."""
        path = self.place.path / LIVE
        # First, so that nothing is missed of a process that ends between the two.
        goes_on = is_followed(path)
        piece = read_piece(path, self.position) if still_there(self.place) else None
        found = [] if piece is None else self._read(piece)
        self.more = piece is not None and piece.more
        if goes_on != self._goes_on and not self.more:
            self._goes_on = goes_on
            found.append({"run": self.place.id, "goes_on": goes_on, "kept": piece is not None})
        return found

    def _read(self, piece: Piece) -> list[dict[str, Any]]:
        anew = piece.anew
        self.position = piece.position
        if not piece.said and not anew:
            return []
        return [{"run": self.place.id, "anew": anew, "events": piece.said}]


def _positions(last: str) -> dict[str, Position]:
    """Where a browser was, as the number of the last event says."""
    found = {}
    for part in last[:2048].split(","):
        id_, _, position = part.partition(":")
        found[id_] = Position.parse(position)
    return found
