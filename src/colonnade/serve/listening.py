"""The HTTP server, in the event loop of the party, with bounds on what strangers can hold open."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from colonnade.errors import ColonnadeError, FailedError, RequestError, reason

CONNECTIONS_MAX = 256
"""How many connections may be open; a proxy in front needs few."""
FIRST_S, IDLE_S = 5.0, 30
"""How long a connection may take for the header of its first request, and rest after an answer."""
LOCAL = ("127.0.0.1", "::1", "localhost")


class Connection(HttpToolsProtocol):
    """A connection, which is closed where there are too many, or where nothing comes over it."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
            return
        self._expect_header()

    def on_message_begin(self) -> None:
        """The first bytes of a request."""
        super().on_message_begin()
        self._expect_header()

    def on_headers_complete(self) -> None:
        """The header of a request is whole."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_header(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(FIRST_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class _Server(uvicorn.Server):
    """Leaves signals to the party, which stops in order."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class Listener:
    """A port at which HTTP is spoken."""

    def __init__(self, host: str, port: int, option: str = "--http") -> None:
        """`option` is where the user has named it."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # asyncio sends without delay only what it knows to be TCP.
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise RequestError(
                f"cannot listen at {option} {host}:{port}: {reason(error)}; choose another port"
            ) from None
        self.host, self.port = host, self._socket.getsockname()[1]

    @property
    def place(self) -> str:
        """As it stands in an address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOCAL

    def close(self) -> None:
        """Free the port."""
        self._socket.close()

    @asynccontextmanager
    async def open(
        self, app: ASGIApp, drain_s: float, fail: Callable[[ColonnadeError], None]
    ) -> AsyncIterator[Callable[[Callable[[], None]], None]]:
        """Inside, requests are answered. What it gives stops that when called: no more requests
        are taken, those that are open have `drain_s` to be answered, then its argument is
        called."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
        server = _Server(_config(app, drain_s))
        # From now on whoever connects waits, and is not refused.
        self._socket.listen(CONNECTIONS_MAX)
        serving = asyncio.ensure_future(server.serve([self._socket]))
        serving.add_done_callback(lambda task: _tell_fault(task, fail))

        def stop(then: Callable[[], None]) -> None:
            server.should_exit = True
            serving.add_done_callback(lambda task: then())

        try:
            yield stop
        finally:
            server.should_exit = server.force_exit = True
            await asyncio.gather(serving, return_exceptions=True)


def _config(app: ASGIApp, drain_s: float) -> uvicorn.Config:
    options: dict[str, Any] = {"http": Connection, "ws": "none", "lifespan": "off"}
    return uvicorn.Config(
        app,
        **options,
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=CONNECTIONS_MAX,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=max(1, round(drain_s)),
    )


def _tell_fault(task: asyncio.Future[None], fail: Callable[[ColonnadeError], None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        fail(FailedError(f"the HTTP server ended: {type(error).__name__}"))
