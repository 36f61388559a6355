"""One party that learns nothing, over the true transport: `python -m benchmarks.wan_party …`.

    line      keeps so many exchanges in flight and does nothing else
    clock     the party's program with a null learner whose work is as long as the job says, asleep

The active party writes when each round was aggregated, in seconds, to `--out`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import torch

from colonnade.compress import plain
from colonnade.job.files import load
from colonnade.job.records import Costs, Job
from colonnade.learn.agreement import Agreement
from colonnade.learn.null import Record
from colonnade.learn.participant import DTYPES
from colonnade.net.detector import FailureDetector, new_incarnation
from colonnade.net.runner import Address, run_connected
from colonnade.net.world import NetworkWorld
from colonnade.party.session import run_session
from colonnade.party.world import COSTS, Work
from colonnade.record.metrics import METRICS
from colonnade.record.sizes import Sizes
from colonnade.run.clock import null_trainings
from colonnade.tls.identity import load_identity
from colonnade.tls.keyring import Keyring
from colonnade.units import duration_ns
from colonnade.wire.messages import Embedding, Gradient

T = TypeVar("T")


class Sleeping(NetworkWorld):
    """The network world, in which work takes the time that the job says, and no processor."""

    costs: Costs
    in_flight_max = 0

    async def compute(self, work: Callable[[], T], kind: Work, round: int = -1) -> T:
        cost = getattr(self.costs, COSTS[kind]) if kind in COSTS else "0s"
        seconds = duration_ns(cost) / 1e9

        def sleep_and_work() -> T:
            time.sleep(seconds)
            return work()

        return await super().compute(sleep_and_work if seconds else work, kind, round)


async def line(world: NetworkWorld, job: Job, width: int, window: int) -> list[float]:
    """Exchanges of one size, `window` of them in flight."""
    tensor = plain().encode(torch.randn(job.train.batch_size, width))
    rounds, came = job.train.rounds or 0, []
    await world.begin()
    if world.leads:
        for _ in range(rounds):
            received = await world.receive()
            assert received is not None and isinstance(received[1], Embedding)
            came.append(world.now() / 1e9)
            await world.send(received[0], Gradient(received[1].round, tensor))
    else:
        for round in range(rounds + window):
            if round >= window:
                assert await world.receive() is not None
            if round < rounds:
                await world.send(job.active, Embedding(round, tensor))
    await world.part()
    return came


async def clock(world: NetworkWorld, job: Job, width: int, window: int) -> list[float]:
    """The job's own programs."""
    counts = {"train": rows(job), "validation": 0, "test": 0}
    sizes = Sizes(dict.fromkeys(job.parties, width), counts, DTYPES[job.train.dtype])
    agreement = Agreement.of(job, sizes.rows, sizes.widths)
    trainings = null_trainings(agreement, sizes, METRICS["accuracy"], Record())
    (outcome,) = await run_session(world, [trainings[world.me]])
    world.in_flight_max = outcome.view.in_flight_max
    history = outcome.history
    return [] if history is None else [row["time_s"] for row in history.rounds]


def rows(job: Job) -> int:
    """So many that all rounds are one epoch, in which PASTA's budget stays what it is."""
    assert job.train.rounds is not None
    return job.train.rounds * job.train.batch_size


PROGRAMS: dict[str, Callable[..., Awaitable[list[float]]]] = {"line": line, "clock": clock}


def ask(parser: argparse.ArgumentParser) -> tuple[argparse.Namespace, Job, Keyring]:
    """What `join_all` says to a party, beside the parser's own: all of it, the job, and whose
    certificate it has."""
    parser.add_argument("job", type=Path)
    parser.add_argument("--me", required=True)
    parser.add_argument("--listen")
    parser.add_argument("--connect")
    parser.add_argument("--keys", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    job = load(asked.job)
    files = [asked.keys / name for name in ("cert.pem", "key.pem", "ca.pem")]
    identity, _ = load_identity(*files, asked.me, (), listens=asked.me == job.active)
    return asked, job, Keyring(identity)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--window", type=int, default=0)
    asked, job, keyring = ask(parser)
    world = Sleeping(
        job, asked.me, FailureDetector(job.timeouts, asked.me), incarnation=new_incarnation()
    )
    world.costs = job.compute.of(asked.me)
    came = run_connected(
        world,
        Address(asked.listen, asked.connect),
        keyring,
        lambda: PROGRAMS[asked.program](world, job, asked.width, asked.window),
    )
    asked.out.mkdir(parents=True, exist_ok=True)
    idle_s, busy_s = world.timeline.total_ns("wait") / 1e9, world.timeline.busy_ns() / 1e9
    facts = {"in_flight_max": world.in_flight_max, "idle_s": idle_s, "busy_s": busy_s}
    (asked.out / "facts.json").write_text(json.dumps(facts))
    if world.leads:
        (asked.out / "rounds.json").write_text(json.dumps(came))


if __name__ == "__main__":
    main()
