"""Who may ask, by which name, and what a browser is told to make of the answers."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Collection
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from colonnade.record.chain import printable

Header = tuple[bytes, bytes]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
INTENT = b"x-colonnade-start"
CHANGES_NOTHING = "the dashboard changes nothing here: ask with GET"
OPEN = ("/static/", "/session")
"""What is there for whoever has no token yet: nothing of any run."""
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.%]+\]|[^\s:/\[\]@]+)(:[0-9]{1,5})?", re.ASCII)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Names:
    """The names by which the dashboard may be called.

    A page of anybody's may let its own name lead to this host once it is loaded, and would then
    be of one origin with us. So a name that is not ours is refused; an address cannot be made to
    lead elsewhere.

    >>> names = Names(local=True)
    >>> names.admit("localhost:8090"), names.admit("[::1]:8090"), names.admit("evil.example")
    (True, True, False)
    >>> Names(local=False, more=["runs.bank.example"]).admit("runs.bank.example:443")
    True
    """

    def __init__(self, local: bool, more: Collection[str] = ()) -> None:
        """`local`: only this machine can reach it."""
        self._local = local
        self._known = {*LOOPBACK, *(name.lower() for name in more)}

    def admit(self, host: str) -> bool:
        """Whether a request to this host, as its header has it, is meant for us."""
        split = _HOST.fullmatch(host.lower())
        if split is None:
            return False
        name = split["name"].strip("[]")
        if name.rstrip(".") in self._known:
            return True
        if self._local:
            return False
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


class Guard:
    """Lets nobody in who may not come, and no traceback out."""

    def __init__(
        self,
        app: ASGIApp,
        names: Names,
        token: bytes | None,
        login: bytes,
        tell: Callable[[str], None] = lambda said: None,
        posts: Collection[str] = (),
    ) -> None:
        """`login` is the page that asks for the token, `posts` the paths that change something."""
        self._app, self._names, self._token, self._login = app, names, token, login
        self._tell, self._posts = tell, frozenset(posts)
        # The token itself is kept in no browser.
        self._session = secrets.token_urlsafe(32)
        self._cookie = f"colonnade-{secrets.token_hex(4)}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        begun = False

        async def sealed(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                own = {name for name, _ in message.get("headers", ())}
                more = [header for header in HEADERS if header[0] not in own]
                if b"cache-control" not in own:
                    more.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        headers = dict(scope["headers"])
        refused = self._refusal(scope, headers)
        if refused is not None:
            await answer(sealed, *refused)
        elif scope["path"] == "/session":
            await self._open_session(headers, sealed)
        else:
            try:
                await self._app(scope, receive, sealed)
            except Exception as error:  # noqa: BLE001 - whoever asks must not see our own mistakes
                self._tell(f"a request failed here: {type(error).__name__}: {error}")
                if not begun:
                    await answer(sealed, 500, "the dashboard made a mistake; its terminal says it")

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[Any, ...] | None:
        """Status and sentence, or a page, and further headers; None for what is let in."""
        wanted = b"POST" if scope["path"] in self._posts else b"GET"
        if scope["method"] != wanted.decode():
            said = "start a run with POST" if wanted == b"POST" else CHANGES_NOTHING
            return 405, said, ((b"allow", wanted),)
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._names.admit(host):
            named = printable(host)[:100]
            return 421, f"nothing here is called {named!r}: name it with --allow-host, if it is"
        fetched, mode = headers.get(b"sec-fetch-site"), headers.get(b"sec-fetch-mode")
        if fetched in (b"cross-site", b"same-site") and mode != b"navigate":
            return 403, "no other page may ask this one"
        if wanted == b"POST" and headers.get(INTENT) != b"yes":
            # A page of another host can send no such header without asking us first, and is told
            # no; a browser that does not say where a request comes from asks too.
            return 403, f"send the header {INTENT.decode()}: yes", ()
        if self._token is None or scope["path"].startswith(OPEN) or self._knows(headers):
            return None
        asks = (b"www-authenticate", b"Bearer")
        if scope["path"].startswith("/api/"):
            return 401, "send the header Authorization: Bearer TOKEN", (asks,)
        return 401, self._login, (asks,)

    def _knows(self, headers: dict[bytes, bytes]) -> bool:
        if self._has_token(headers):
            return True
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return False
        found = cookies.get(self._cookie)
        said = "" if found is None else found.value
        return hmac.compare_digest(said.encode("utf-8", "replace"), self._session.encode())

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        expected = b"Bearer " + (self._token or b"")
        said = headers.get(b"authorization", b"")
        return self._token is not None and hmac.compare_digest(said, expected)

    async def _open_session(self, headers: dict[bytes, bytes], send: Send) -> None:
        """Whoever knows the token gets a cookie for this process, which no script can read."""
        if not self._has_token(headers):
            await answer(send, 401, "this is not the token", ((b"www-authenticate", b"Bearer"),))
            return
        cookie = f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        await answer(send, 200, "welcome", ((b"set-cookie", cookie.encode()),), key="said")


async def answer(
    send: Send, status: int, said: str | bytes, more: tuple[Header, ...] = (), key: str = "error"
) -> None:
    """A sentence as JSON, or a page."""
    if isinstance(said, bytes):
        body, kind = said, b"text/html; charset=utf-8"
    else:
        body, kind = msgspec.json.encode({key: said}), b"application/json"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
