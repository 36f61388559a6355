"""Figures of a party at a port of its own, for as long as the party runs, in a thread beside it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from colonnade.errors import ColonnadeError
from colonnade.serve.listening import LOCAL, Listener
from colonnade.serve.training import CONTENT_TYPE

PATH = "/metrics"
DRAIN_S = 1.0
Text = Callable[[], bytes]


def application(text: Text, only_local: bool) -> Any:
    """What answers requests: the figures at `/metrics`, and nothing else."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        status, content, kind = _answer(scope, text, only_local)
        body = b"" if scope["method"] == "HEAD" else content
        headers = [
            (b"content-type", kind.encode()),
            (b"content-length", str(len(content)).encode()),
            (b"cache-control", b"no-store"),
            (b"x-content-type-options", b"nosniff"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer


def _answer(scope: Any, text: Text, only_local: bool) -> tuple[int, bytes, str]:
    plain = "text/plain; charset=utf-8"
    if scope["method"] not in ("GET", "HEAD"):
        return 405, b"only GET\n", plain
    # A page in a browser of this computer may call itself by any name that leads here.
    if only_local and _host(scope) not in LOCAL:
        return 403, b"this port answers to localhost only\n", plain
    if scope["path"] != PATH:
        return 404, b"the figures are at /metrics\n", plain
    return 200, text(), CONTENT_TYPE


def _host(scope: Any) -> str:
    """The name under which whoever asks knows this computer."""
    named = str(dict(scope["headers"]).get(b"host", b""), "latin-1")
    host, _, port = named.rpartition(":")
    return (host if port.isdecimal() and host else named).strip("[]").lower()


@contextmanager
def exposed(listener: Listener, text: Text, say: Callable[[str], None]) -> Iterator[None]:
    """Inside, whoever reaches the port reads the figures. If the port fails that is said, and the
    party goes on."""
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    def fail(error: ColonnadeError) -> None:
        say(f"the figures are not shown any more, and the party goes on: {error}")

    async def serve() -> None:
        async with listener.open(application(text, listener.is_local), DRAIN_S, fail):
            await over.wait()

    thread = threading.Thread(
        target=lambda: loop.run_until_complete(serve()), name="metrics", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
        listener.close()
