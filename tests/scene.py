"""A live job on loopback, in this process, to whose server anybody can connect."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import torch

from colonnade import simulate
from colonnade.errors import ColonnadeError
from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.net import grpc as tls
from colonnade.net.client import Client
from colonnade.net.detector import FailureDetector
from colonnade.net.link import Emulation
from colonnade.net.proxy import proxy_option
from colonnade.net.runner import run_party
from colonnade.net.server import METHOD, SERVICE, Server
from colonnade.net.session import Segment
from colonnade.net.world import NetworkWorld
from colonnade.party.training import Training
from colonnade.run.setup import prepare
from colonnade.testing.stores import MemoryStore
from colonnade.tls.identity import Identity
from colonnade.tls.keyring import Keyring
from tests import loop
from tests.netrun import Quiet, identities, run_program
from tests.small import Small, small

PATIENCE_S = 250
_numbers = itertools.count(1000)


class Taker:
    """One start of one party: its world, what it was told, and how it ends."""

    def __init__(
        self, scene: Scene, name: str, training: Training, policy: Policy, job: Job
    ) -> None:
        self.name, self.training = name, training
        self.report = Quiet()
        self.world = NetworkWorld(
            job,
            name,
            FailureDetector(job.timeouts, name, [self.report]),
            incarnation=next(_numbers),
            emulation=scene.emulation,
            policy=policy,
        )
        self._scene = scene
        self.task: asyncio.Task[Any] | None = None

    def go(self, endpoint: Any) -> Taker:
        self.task = asyncio.ensure_future(
            run_party(self.world, endpoint, run_program(self.world, self.training))
        )
        return self

    async def end(self, patience_s: float = PATIENCE_S) -> Any:
        """Its outcome, or the error that ended it."""
        assert self.task is not None
        done, _ = await asyncio.wait([self.task], timeout=patience_s)
        assert done, (
            f"{self.name} does not end: {list(self.report.events)[-5:]}, {self.report.waits[-1:]}"
        )
        error = self.task.exception()
        assert error is None or isinstance(error, ColonnadeError), error
        return error or self.task.result()

    async def crash(self) -> None:
        """End as a killed process does: nothing is said."""
        assert self.task is not None
        self.task.cancel()
        # It may have been about to end by itself.
        with suppress(asyncio.CancelledError, ColonnadeError):
            await self.task

    def said(self, text: str) -> bool:
        return any(text in event for event in self.report.events)


class Scene:
    """The job, its server, and whoever takes part."""

    def __init__(self, case: Small, extra: Sequence[str], emulation: Emulation | None) -> None:
        self.case, self.job = case, case.job
        self.emulation = emulation
        self.known = identities((*case.job.parties, *extra))
        self.faults: list[str] = []
        """What the loop or gRPC complained of; nothing should."""
        self.takers: list[Taker] = []
        self.address = ""
        self.stores = {name: MemoryStore() for name in case.job.parties}

    def training(self, name: str, job: Job | None = None) -> Training:
        parties = prepare(job or self.job, self.case.data, self.case.modules)
        return Training.of(parties[name], self.stores[name])

    async def start(
        self,
        name: str,
        training: Training | None = None,
        policy: Policy | None = None,
        job: Job | None = None,
        identity: Identity | Keyring | None = None,
        before: Callable[[Taker], None] = lambda taker: None,
    ) -> Taker:
        """A process of a party begins; `before` may change it while it has said nothing yet."""
        job = job or self.job
        taker = Taker(self, name, training or self.training(name, job), policy or Policy(), job)
        before(taker)
        self.takers.append(taker)
        shown = identity or self.known[name]
        keyring = shown if isinstance(shown, Keyring) else Keyring(shown)
        if taker.world.leads:
            server = Server(taker.world, keyring)
            self.address = f"127.0.0.1:{await server.open('127.0.0.1:0')}"
            taker.go(server)
        else:
            taker.go(Client(taker.world, keyring, self.address))
        await asyncio.sleep(0.01)  # What has begun can be ended.
        return taker

    async def until(self, what: Callable[[], object]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(PATIENCE_S):
            while not what():
                await asyncio.sleep(0.01)

    def unharmed(self, outcomes: dict[str, Any]) -> None:
        """What was learnt is what an undisturbed run learns, bit for bit."""
        expected = simulate(self.job, self.case.data, self.case.modules)
        for name, outcome in outcomes.items():
            assert not isinstance(outcome, ColonnadeError), (name, outcome)
            assert (outcome.reason, outcome.view.round) == ("end", expected.rounds)
            for key, tensor in expected.weights[name].items():
                assert torch.equal(tensor, outcome.weights[key]), (name, key)


@asynccontextmanager
async def scene(
    case: Small, extra: Sequence[str] = (), emulation: Emulation | None = None
) -> AsyncIterator[Scene]:
    """A scene that ends whatever it began."""
    made = Scene(case, extra, emulation)
    running = asyncio.get_running_loop()
    running.set_exception_handler(lambda _, context: made.faults.append(str(context)))
    try:
        yield made
        assert made.faults == [], made.faults
    finally:
        for taker in made.takers:
            if taker.task is not None and not taker.task.done():
                await taker.crash()
        # What nobody asked for would be a fault of whichever test is next.
        tasks = [taker.task for taker in made.takers if taker.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def wire(address: str, identity: Identity, active: str) -> AsyncIterator[Callable[[], Any]]:
    """A raw connection to a server: each call opens a stream on it."""
    grpc = tls.secure_grpc()
    options = [*tls.channel_options(active), *proxy_option(address, os.environ)]
    credentials = tls.channel_credentials(identity)
    async with grpc.aio.secure_channel(address, credentials, options=options) as channel:
        calls: list[Any] = []

        def open_stream() -> Any:
            calls.append(channel.stream_stream(f"/{SERVICE}/{METHOD}")())
            return calls[-1]

        try:
            yield open_stream
        finally:
            await asyncio.gather(*(tls.cancel_call(call) for call in calls))


async def speak(
    address: str, identity: Identity, active: str, *said: Segment | bytes, wait_s: float = 10
) -> list[Segment]:
    """Send something to a server, and read the answers until the stream ends, or for a while."""
    grpc = tls.secure_grpc()
    heard: list[Segment] = []
    async with wire(address, identity, active) as open_stream:
        call = open_stream()
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError):
            async with asyncio.timeout(wait_s):
                for each in said:
                    await call.write(each.encode() if isinstance(each, Segment) else each)
                while (raw := await call.read()) is not grpc.aio.EOF:
                    heard.append(Segment.decode(raw))
    return heard


def case(**train: Any) -> Small:
    """Three parties; p1 is active, p0 is always as it should be, p2 is the one in question."""
    return small(3, rounds=12, checkpoint_every=5, **train)


def set_job(job: Job, **fields: Any) -> Job:
    """The job with some fields of [train] changed."""
    return msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, **fields))


def play(scenario: Callable[..., Any], *args: Any, extra: Sequence[str] = (), **train: Any) -> None:
    """Run a scenario; whatever happens in it, the right p2 comes in the end and all is well."""

    async def whole() -> None:
        async with scene(case(**train), extra) as s:
            active, other = await s.start("p1"), await s.start("p0")
            await scenario(s, active, *args)
            assert not active.task.done() and not other.task.done()
            right = await s.start("p2")
            s.unharmed({party.name: await party.end() for party in (active, other, right)})

    loop.run(whole())
