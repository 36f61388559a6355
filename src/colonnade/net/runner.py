"""Runs one party over its connections: endpoint, heartbeat and program, to a proper end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from colonnade.errors import ColonnadeError, RefusedError, StoppedError
from colonnade.net.client import Client
from colonnade.net.server import Server
from colonnade.net.session import Kind
from colonnade.net.signals import run_hearing
from colonnade.net.world import NetworkWorld
from colonnade.party.world import Over
from colonnade.record.events import Aborted, Listening
from colonnade.tls.keyring import Keyring

T = TypeVar("T")


Endpoint = Server | Client
"""What keeps a party connected until cancelled: the server of the active one, or a client."""


async def run_party(world: NetworkWorld, endpoint: Endpoint, program: Coroutine[Any, Any, T]) -> T:
    """Run a program to its end, and tell the peers when it ends early, and why."""
    background = [asyncio.ensure_future(world.heartbeat()), asyncio.ensure_future(endpoint.run())]
    working = asyncio.ensure_future(program)
    try:
        # An error of the endpoint or the heartbeat must end the program too.
        await asyncio.wait([working, *background], return_when=asyncio.FIRST_COMPLETED)
        for task in background:
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise task.exception() or AssertionError
        return await working
    except (ColonnadeError, Over) as end:
        # It may be what another party has said.
        world.detector.record(f"ends before the job does: {end}")
        await _tell(world, end)
        raise
    except Exception as error:
        # Only the type is sent: the text of an unexpected error may contain private data.
        await world.announce(Kind.FAIL, f"{type(error).__name__} in its own program")
        raise
    finally:
        others: list[asyncio.Future[Any]] = [working, *background]
        for other in others:
            other.cancel()
        # Wait for all of them, whatever they end with: no task may outlive the run.
        await asyncio.gather(*others, return_exceptions=True)
        world.close()


async def _tell(world: NetworkWorld, end: ColonnadeError | Over) -> None:
    """Tell the peers that this party ends, where they do not know."""
    if isinstance(end, StoppedError):
        await world.drain()
        await world.announce(Kind.LEAVE, str(end))
    elif isinstance(end, RefusedError):
        await world.drain()
    elif isinstance(end, ColonnadeError):
        await world.announce(Kind.FAIL, end.for_peers())


@dataclass(frozen=True)
class Address:
    """Where the active party listens, or a passive one connects to."""

    listen: str | None = None
    connect: str | None = None
    server_name: str | None = None
    """The name in the active party's certificate, where that comes from a company's own CA."""
    names: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By party, the names in its certificate, where that comes from a company's own CA."""


def run_connected(
    world: NetworkWorld,
    address: Address,
    keyring: Keyring,
    program: Callable[[], Coroutine[Any, Any, T]],
) -> T:
    """Connect, run the program to its end, and disconnect; Ctrl-C asks it to stop in order."""

    async def whole() -> T:
        endpoint = await _open_endpoint(world, address, keyring)
        looking = asyncio.ensure_future(keyring.run(world.detector.note))
        try:
            return await run_party(world, endpoint, program())
        finally:
            looking.cancel()

    stops = {number: partial(_stop, world, number, text) for number, text in STOPS.items()}
    return run_hearing(whole(), stops)


STOPS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "colonnade stop"}


def _stop(world: NetworkWorld, number: signal.Signals, text: str) -> None:
    """Ask the party to stop; at the second signal, let it end the process at once."""
    if world.stopping is not None:
        # Whoever shows the run gives the terminal back first: nothing else will.
        world.tell(Aborted(world.me, world.now(), f"{text} again"))
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    world.stop(text)


async def _open_endpoint(world: NetworkWorld, address: Address, keyring: Keyring) -> Endpoint:
    if world.leads:
        assert address.listen is not None
        server = Server(world, keyring, address.names)
        port = await server.open(address.listen)
        chosen = "" if address.listen.endswith(f":{port}") else f" (port {port})"
        world.tell(Listening(world.me, world.detector.time_ns(), f"{address.listen}{chosen}"))
        return server
    assert address.connect is not None
    return Client(world, keyring, address.connect, address.server_name)
