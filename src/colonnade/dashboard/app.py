"""The dashboard over HTTP, as an ASGI application."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Collection
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from colonnade.dashboard import plans
from colonnade.dashboard.catalogue import Catalogue
from colonnade.dashboard.finding import Place
from colonnade.dashboard.guard import CHANGES_NOTHING, Guard, Names
from colonnade.dashboard.reports import report
from colonnade.dashboard.starting import Offer, Starter, Wish
from colonnade.dashboard.streams import RUNS_MAX, FullError, Streams
from colonnade.dashboard.threads import BusyError, Workers
from colonnade.errors import ColonnadeError, RequestError
from colonnade.page.html import LIBRARY, SCRIPTS
from colonnade.page.reading import clean_text

THREADS, WAITING_MAX = 4, 64
"""How much is read at once, and how much may wait for that."""
PLANS_WAITING_MAX = 4
START = "/api/start"
WISH_BYTES_MAX = 4096
MISTAKE = "the dashboard made a mistake; its terminal says which"
KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
PAGES = ("/", "/run/{id}", "/compare", "/plan")
FILES = (
    ("page", "vendor", LIBRARY),
    *(("page", "static", name) for name in (*SCRIPTS, "page.css")),
    *(
        ("dashboard", "static", f"{name}.js")
        for name in ("common", "dashboard", "events", "list", "login", "plan", "run")
    ),
    ("dashboard", "static", "dashboard.css"),
)
"""Everything that a browser may load: the room, the folder and the name."""
_encode = msgspec.json.encode


class Dashboard:
    """What is answered, by path."""

    def __init__(self, root: Path, starter: Starter | None = None) -> None:
        """`starter` starts runs; without one, nothing is started."""
        self.starter = starter
        self.workers = Workers(THREADS, WAITING_MAX)
        # Planning takes seconds of computing: one at a time, and nothing else waits for it.
        self._planning = Workers(1, PLANS_WAITING_MAX)
        self.catalogue = Catalogue(root, self.workers)
        self.streams = Streams(self.catalogue, self.workers)
        self._shell = _resource("dashboard", "static", "index.html")
        self._files = {name: _resource(room, folder, name) for room, folder, name in FILES}
        self._tags = {
            name: f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            for name, content in self._files.items()
        }

    async def page(self, request: Request) -> Response:
        """Every page is the same shell; its script draws what the address names."""
        return Response(self._shell, media_type="text/html")

    async def static(self, request: Request) -> Response:
        """A script or a style sheet, of those that there are."""
        name = request.path_params["name"]
        if name not in self._files:
            return refusal(404, "there is no such file")
        headers = {"etag": self._tags[name], "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == self._tags[name]:
            return Response(status_code=304, headers=headers)
        kind = KINDS[name.rpartition(".")[2]]
        return Response(self._files[name], headers=headers, media_type=kind)

    async def runs(self, request: Request) -> Response:
        """The list."""
        found = await self.catalogue.snapshot()
        told = {
            "root": clean_text(self.catalogue.root.name, 200),
            "now_s": time.time(),
            "rows": list(found.rows.values()),
            "notes": found.findings.notes,
        }
        return _json(told)

    async def report(self, request: Request) -> Response:
        """All that is known of some runs, side by side, in the order in which they are named."""
        places, missing = await self._places(request)
        if not places:
            return missing or refusal(400, "name runs, as in ?run=ID")
        body = await self.workers.run(lambda: report(places))
        return Response(body, media_type="application/json")

    async def live(self, request: Request) -> Response:
        """Events of runs as they happen."""
        places, missing = await self._places(request)
        if not places:
            return missing or refusal(400, "name runs, as in ?run=ID")
        return self.streams.live(request, places)

    async def changes(self, request: Request) -> Response:
        """Rows of the list as they change."""
        return self.streams.changes(request)

    async def jobs(self, request: Request) -> Response:
        """Jobs to plan for."""
        places = (await self.catalogue.snapshot()).findings.jobs
        return _json({"jobs": await self.workers.run(lambda: plans.jobs(places))})

    async def plan(self, request: Request) -> Response:
        """What a job would cost with each method."""
        places = (await self.catalogue.snapshot()).findings.jobs
        id_, rows = request.query_params.get("job", ""), request.query_params.get("rows")
        count = plans.read_rows(rows)
        told = await self._planning.run(lambda: plans.planned(id_, places, count))
        if self.starter is not None:
            methods = frozenset(line["method"] for line in told["methods"])
            offer = Offer(told["job"], told["source"], told["own"], methods)
            self.starter.offer(id_, offer)
        return _json({**told, "starts": self.starter is not None})

    async def start(self, request: Request) -> Response:
        """Start a run of a job that was planned."""
        assert self.starter is not None
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > WISH_BYTES_MAX:
                return refusal(413, "say the job and the method, and nothing else")
        try:
            wish = msgspec.json.decode(body, type=Wish)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise RequestError('say {"job": …, "method": …}') from None
        return _json({"name": self.starter.start(wish)})

    async def started(self, request: Request) -> Response:
        """What has become of the runs that were started here."""
        assert self.starter is not None
        known = (await self.catalogue.snapshot()).rows
        ids = {row.name: id_ for id_, row in known.items()}
        return _json({"runs": [run | {"id": ids.get(run["name"])} for run in self.starter.told()]})

    async def _places(self, request: Request) -> tuple[list[Place], Response | None]:
        """The runs that a request names; all of them must be there."""
        known = (await self.catalogue.snapshot()).findings.runs
        ids = list(dict.fromkeys(request.query_params.getlist("run")))
        if len(ids) > RUNS_MAX:
            return [], refusal(400, f"name {RUNS_MAX} runs at most")
        if any(id_ not in known for id_ in ids):
            said = "there is no such run: it may have been moved or deleted"
            return [], refusal(404, said)
        return [known[id_] for id_ in ids], None


def application(
    dashboard: Dashboard,
    *,
    local: bool = True,
    token: bytes | None = None,
    names: Collection[str] = (),
    tell: Callable[[str], None] = lambda said: None,
) -> ASGIApp:
    """The application; `local` says that only this machine can reach it, `names` by which others it
    may be called, `token` what whoever asks must know, if anything."""
    own = [Route(path, dashboard.page, methods=["GET"]) for path in PAGES]
    own.append(Route("/static/{name}", dashboard.static, methods=["GET"]))
    own += [
        Route(f"/api/{endpoint.__name__}", _careful(endpoint), methods=["GET"])
        for endpoint in (
            dashboard.runs,
            dashboard.report,
            dashboard.live,
            dashboard.changes,
            dashboard.jobs,
            dashboard.plan,
        )
    ]
    if dashboard.starter is not None:
        own.append(Route("/api/started", _careful(dashboard.started), methods=["GET"]))
        own.append(Route(START, _careful(dashboard.start), methods=["POST"]))
    handlers: Any = {
        404: lambda request, error: refusal(404, "there is nothing here"),
        405: lambda request, error: refusal(405, CHANGES_NOTHING),
        500: lambda request, error: refusal(500, MISTAKE),
    }
    app = Starlette(routes=own, exception_handlers=handlers)
    login = _resource("dashboard", "static", "login.html")
    posts = () if dashboard.starter is None else (START,)
    return Guard(app, Names(local, names), token, login, tell, posts)


Endpoint = Callable[[Request], Awaitable[Response]]


def _careful(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose refusals are sentences."""

    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ColonnadeError as error:
            return refusal(422, clean_text(str(error), 2000))
        except BusyError:
            return refusal(503, "too many requests wait already: ask again later", retry_s=1)
        except FullError:
            said = "too many pages follow runs already: close some, or wait"
            return refusal(503, said, retry_s=5)

    return answered


def refusal(status: int, sentence: str, retry_s: int | None = None) -> Response:
    """One sentence that says what is wrong.

    >>> refusal(404, "there is nothing here").body
    b'{"error":"there is nothing here"}'
    """
    headers = None if retry_s is None else {"retry-after": str(retry_s)}
    return Response(_encode({"error": sentence}), status, headers, "application/json")


def _json(value: Any) -> Response:
    return Response(_encode(value), media_type="application/json")


def _resource(room: str, folder: str, name: str) -> bytes:
    return (resources.files("colonnade") / room / folder / name).read_bytes()
