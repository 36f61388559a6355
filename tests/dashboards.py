"""Run folders for the dashboard's tests, and a dashboard to ask."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

import colonnade as cn
from colonnade.dashboard.app import Dashboard, application
from colonnade.dashboard.starting import Starter
from colonnade.record.events import Evaluated, Event, RoundDone
from colonnade.record.live import Live, Opened
from colonnade.serve.listening import Listener
from tests.loop import run

BASE = "http://127.0.0.1:8090"


def train(folder: Path, job: str = "digits", method: str = "fedsgd", seed: int = 0) -> Path:
    """The folder of a short run."""
    loaded = cn.load(job, ["train.rounds=4", "train.evaluate_every=1 round"], method, seed)
    return cn.simulate(loaded).save(folder)


def going(folder: Path, method: str = "pasta") -> Live:
    """What writes the events of a run that goes on, as long as it is open."""
    opened = Opened("digits", method, 3, "lab", ("lab", "clinic"), "virtual", 10**18, 0.9)
    live = Live(folder, opened, now=lambda: 0)
    live.open()
    return live


def rounds(first: int, last: int) -> list[Event]:
    """The events of rounds, counted from 0, each with an evaluation."""
    found: list[Event] = []
    for each in range(first, last):
        found.append(RoundDone("lab", each * 10**9, each, 100, 1 / (each + 1)))
        measured = {"validation_loss": 1 / (each + 1), "accuracy": 1 - 1 / (each + 2)}
        best = (each + 1) * 1000
        found.append(Evaluated("lab", each * 10**9, each, measured, True, best, best))
    return found


class House:
    """A dashboard over a folder, without a port."""

    def __init__(self, root: Path, starter: Starter | None = None, **options: Any) -> None:
        self.told: list[str] = []
        self.dashboard = Dashboard(root.resolve(), starter)
        self.app = application(self.dashboard, tell=self.told.append, **options)

    def get(self, path: str, method: str = "GET", base: str = BASE, **more: Any) -> httpx.Response:
        async def whole() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url=base) as client:
                return await client.request(method, path, **more)

        return run(whole())

    def rows(self) -> dict[str, dict[str, Any]]:
        """The list, by name."""
        return {row["name"]: row for row in self.get("/api/runs").json()["rows"]}

    def id(self, name: str) -> str:
        return str(self.rows()[name]["id"])

    def hear(self, path: str, act: Any = None, count: int = 1, last: str = "") -> list[Any]:
        """The first messages of a stream: (its number, what it says); `act` is called after each
        with what was heard so far."""
        return run(self._hear(path, act, count, last))

    async def _hear(self, path: str, act: Any, count: int, last: str) -> list[Any]:
        heard: list[Any] = []
        enough, gone = asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                heard_status.append(message["status"])
                if message["status"] != 200:
                    enough.set()
            for event in message.get("body", b"").decode().split("\n\n"):
                fields = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line)
                if "data" in fields:
                    heard.append((fields.get("id", ""), json.loads(fields["data"])))
                    if act is not None:
                        act(heard)
                    if len(heard) >= count:
                        enough.set()

        heard_status: list[int] = []
        bare, _, query = path.partition("?")
        headers = [(b"host", b"127.0.0.1:8090")]
        if last:
            headers.append((b"last-event-id", last.encode()))
        scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"},
                 "http_version": "1.1", "method": "GET", "path": bare, "raw_path": bare.encode(),
                 "query_string": query.encode(), "headers": headers, "scheme": "http",
                 "server": ("127.0.0.1", 8090), "client": ("127.0.0.1", 1)}  # fmt: skip
        task = asyncio.ensure_future(self.app(scope, receive, send))
        try:
            await asyncio.wait_for(enough.wait(), 20)
        finally:
            gone.set()
            await asyncio.wait([task], timeout=60)
        return heard


@contextmanager
def served(root: Path, token: bytes | None = None, starter: Starter | None = None) -> Iterator[str]:
    """The address of a dashboard over a folder, which answers in a thread of its own."""
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        dashboard = Dashboard(root.resolve(), starter)
        app = application(dashboard, token=token, tell=mistakes.append)
        async with listener.open(app, 0.1, lambda error: mistakes.append(str(error))):
            loops.append(asyncio.get_running_loop())
            ready.set()
            await stop.wait()
            dashboard.streams.stopping.set()

    mistakes: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []
    with closing(Listener("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        assert ready.wait(120)
        try:
            yield f"http://{listener.place}"
        finally:
            loops[0].call_soon_threadsafe(stop.set)
            thread.join(20)
    assert not thread.is_alive()
    assert not mistakes, mistakes


def line(event: Event) -> str:
    """An event as a line of a live file."""
    return msgspec.json.encode(event).decode() + "\n"
