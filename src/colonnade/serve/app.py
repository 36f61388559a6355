"""The service over HTTP, as an ASGI application."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from colonnade.serve.answers import Reply, refusal
from colonnade.serve.metrics import CONTENT_TYPE
from colonnade.serve.page import PAGE, PAGE_HEADERS, described
from colonnade.serve.service import Service

BODY_BYTES_MAX = 8 * 2**20
BODIES_BYTES_MAX = 8 * BODY_BYTES_MAX
"""How much of unfinished bodies is kept at once, of all requests together."""
BODY_S = 10.0
"""How long a body may take to come."""
JSON = b"application/json"
_encode = msgspec.json.encode


class Predictions:
    """Answers at `/predict`; it is called for every request, and therefore reads it by itself."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reading = 0
        """How many bytes of unfinished bodies there are."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["method"] != "POST":
            await _send(send, refusal(405, "ask with POST"), (b"allow", b"POST"))
            return
        headers = dict(scope["headers"])
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON:
            # A page in somebody's browser cannot send this type to another host unasked.
            await _send(send, refusal(415, "send the header Content-Type: application/json"))
            return
        content = await self._body(headers, receive)
        if content is None:
            return
        reply = content if isinstance(content, Reply) else await self._service.predict(content)
        await _send(send, reply)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | Reply | None:
        """The body, or why it is refused; None where whoever sent it has gone."""
        size = headers.get(b"content-length", b"0")
        too_large = refusal(413, f"a body may have {BODY_BYTES_MAX:,} bytes: ask for fewer rows")
        if not size.isdigit() or int(size[:20]) > BODY_BYTES_MAX:
            return too_large
        content = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    piece = message.get("body", b"")
                    content += piece
                    self._reading += len(piece)
                    if len(content) > BODY_BYTES_MAX:
                        return too_large
                    if self._reading > BODIES_BYTES_MAX:
                        return refusal(503, "too many large requests at once", retry_s=1)
                    if not message.get("more_body", False):
                        return bytes(content)
        except TimeoutError:
            return refusal(408, f"the body did not come within {BODY_S:g} s")
        finally:
            self._reading -= len(content)


async def _send(send: Send, reply: Reply, *more: tuple[bytes, bytes]) -> None:
    body = _encode(reply.body)
    headers = [
        (b"content-type", JSON),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), value.encode()) for name, value in (reply.headers or {}).items()),
        *more,
    ]
    # Whatever else was sent of a body that was refused is not read: the connection ends.
    if reply.status in (408, 413):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Guard:
    """Lets nobody in without the token, and no traceback out."""

    def __init__(
        self,
        predictions: Predictions,
        others: ASGIApp,
        token: bytes | None,
        tell: Callable[[str], None],
    ) -> None:
        """`predictions` are what is asked for most; `others` has all other paths."""
        self._predictions, self._others, self._tell = predictions, others, tell
        self._expected = None if token is None else b"Bearer " + token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        allowed = self._expected is None or self._knows(scope)
        if not allowed and scope["path"] != "/health":
            fault = refusal(401, "send the header Authorization: Bearer TOKEN")
            await _send(send, fault, (b"www-authenticate", b"Bearer"))
            return
        scope["state"] = {"whole": allowed}
        begun = False

        async def note(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        app = self._predictions if scope["path"] == "/predict" else self._others
        try:
            await app(scope, receive, note)
        except Exception as error:  # noqa: BLE001 - whoever asks must not see our own mistakes
            self._tell(f"a request over HTTP failed here: {type(error).__name__}")
            if not begun:
                await _send(send, refusal(500, "this party made a mistake; its log has the kind"))

    def _knows(self, scope: Scope) -> bool:
        assert self._expected is not None
        said = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(said, self._expected)


def application(
    service: Service, token: bytes | None = None, tell: Callable[[str], None] = lambda said: None
) -> ASGIApp:
    """The application of a service; `token` is what whoever asks must know, if anything."""

    def health(request: Request) -> Response:
        return _response(service.health(request.scope["state"]["whole"]))

    def metrics(request: Request) -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    document = _encode(described(service))

    def openapi(request: Request) -> Response:
        return Response(document, media_type="application/json")

    def page(request: Request) -> Response:
        return Response(PAGE, media_type="text/html", headers=PAGE_HEADERS)

    routes = [
        Route(path, _asynchronous(answer), methods=["GET"])
        for path, answer in (
            ("/health", health), ("/metrics", metrics), ("/openapi.json", openapi),
            ("/docs", page), ("/", page),
        )
    ]  # fmt: skip
    app = Starlette(
        routes=routes,
        exception_handlers={
            404: lambda request, error: _response(refusal(404, "there is nothing here: see /docs")),
            405: lambda request, error: _response(refusal(405, "see /docs for what can be asked")),
        },
    )
    return Guard(Predictions(service), app, token, tell)


def _asynchronous(
    answer: Callable[[Request], Response],
) -> Callable[[Request], Awaitable[Response]]:
    # A plain function would be run in a thread.
    async def endpoint(request: Request) -> Response:
        return answer(request)

    return endpoint


def _response(reply: Reply) -> Response:
    return Response(_encode(reply.body), reply.status, reply.headers, "application/json")
