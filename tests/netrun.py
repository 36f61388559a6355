"""Several parties over real mTLS on loopback, all in this process: quick, and the same code."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from colonnade.job.policy import Policy
from colonnade.job.records import Job
from colonnade.net.client import Client
from colonnade.net.detector import FailureDetector
from colonnade.net.link import Emulation
from colonnade.net.runner import run_party
from colonnade.net.server import Server
from colonnade.net.world import NetworkWorld
from colonnade.party.program import Program
from colonnade.party.session import run_session
from colonnade.party.training import Training
from colonnade.party.world import World
from colonnade.record.events import Evaluated, Event, Subscriber, Tested, Waiting
from colonnade.tls.authority import create_authority, issue
from colonnade.tls.identity import Identity, load_identity
from colonnade.tls.keyring import Keyring
from tests import loop

LIMIT_S = 200


class Quiet:
    """A subscriber that only remembers."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.waits: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, Waiting):
            self.waits += [event.what] if event.what is not None else []
        elif not isinstance(event, Evaluated | Tested) and (said := event.sentence()) is not None:
            self.events.append(said)


@lru_cache
def identities(parties: tuple[str, ...]) -> dict[str, Identity]:
    """Certificates of a new authority for these parties; made once in a process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "alliance"
        create_authority(folder, 10, "tests")
        issue(folder, parties, {}, 5, False)
        return {
            party: load_identity(
                folder / party / "cert.pem",
                folder / party / "key.pem",
                folder / party / "ca.pem",
                party,
                listens=True,
            )[0]
            for party in parties
        }


Programs = dict[str, Callable[[NetworkWorld], Coroutine[Any, Any, Any]]]


def run_programs(
    job: Job,
    programs: Programs,
    emulation: Emulation | None = None,
    subscribers: Sequence[Subscriber] = (),
) -> tuple[dict[str, Any], dict[str, NetworkWorld]]:
    """Run a program for each party; what each returned, and their worlds."""

    async def whole() -> tuple[dict[str, Any], dict[str, NetworkWorld]]:
        known = identities(tuple(job.parties))
        worlds = {
            name: NetworkWorld(
                job,
                name,
                FailureDetector(job.timeouts, name, subscribers),
                incarnation=number + 1,
                emulation=emulation,
                policy=Policy(shares_labels=True),
            )
            for number, name in enumerate(job.parties)
        }
        server = Server(worlds[job.active], Keyring(known[job.active]))
        address = f"127.0.0.1:{await server.open('127.0.0.1:0')}"
        endpoints = {
            name: server if name == job.active else Client(world, Keyring(known[name]), address)
            for name, world in worlds.items()
        }
        running = [
            asyncio.ensure_future(run_party(worlds[name], endpoints[name], program(worlds[name])))
            for name, program in programs.items()
        ]
        try:
            async with asyncio.timeout(LIMIT_S):
                results = await asyncio.gather(*running)
        finally:
            # Where one has failed, the others end as well, and their server in order.
            for party in running:
                party.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        return dict(zip(programs, results, strict=True)), worlds

    return loop.run(whole())


async def run_program(world: World, program: Program) -> Any:
    """What comes out of a session of one program."""
    (outcome,) = await run_session(world, [program])
    return outcome


def run_trainings(
    job: Job, trainings: dict[str, Training], subscribers: Sequence[Subscriber] = ()
) -> tuple[dict[str, Any], dict[str, NetworkWorld]]:
    """Run whole parties; their outcomes, and their worlds."""
    programs = {
        name: (lambda world, s=training: run_program(world, s))
        for name, training in trainings.items()
    }
    return run_programs(job, programs, subscribers=subscribers)
