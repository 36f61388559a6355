"""The dashboard from its start until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from pathlib import Path

from starlette.types import ASGIApp

from colonnade.dashboard.app import Dashboard, application
from colonnade.dashboard.starting import Starter
from colonnade.errors import ColonnadeError
from colonnade.net.signals import run_hearing
from colonnade.serve.listening import Listener

DRAIN_S = 1.0
"""How long answers that are under way may take when it ends."""


def serve(
    root: Path,
    listener: Listener,
    *,
    token: bytes | None = None,
    names: Collection[str] = (),
    starts: bool = False,
    tell: Callable[[str], None] = lambda said: None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Answer until somebody stops it; `ready` is called when it answers. With `starts`, runs can be
    started from the browser; they end with it."""
    starter = Starter(root) if starts else None
    dashboard = Dashboard(root, starter)
    app = application(dashboard, local=listener.is_local, token=token, names=names, tell=tell)
    stop = dashboard.streams.stopping.set
    with ExitStack() as ending:
        if starter is not None:
            ending.callback(starter.close)
        run_hearing(
            _serve(dashboard, app, listener, ready), {signal.SIGINT: stop, signal.SIGTERM: stop}
        )


async def _serve(
    dashboard: Dashboard, app: ASGIApp, listener: Listener, ready: Callable[[], None]
) -> None:
    stopping = dashboard.streams.stopping
    faults: list[ColonnadeError] = []

    def fail(error: ColonnadeError) -> None:
        faults.append(error)
        stopping.set()

    async with listener.open(app, DRAIN_S, fail) as stop:
        ready()
        await stopping.wait()
        drained = asyncio.Event()
        stop(drained.set)
        with suppress(TimeoutError):
            await asyncio.wait_for(drained.wait(), DRAIN_S + 1)
    if faults:
        raise faults[0]
