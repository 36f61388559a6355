"""Memory: flat however long a job is, and bounded however slowly a peer reads."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
import torch

from colonnade.compress import plain
from colonnade.job.records import Job, Party, Train
from colonnade.job.running import Limits
from colonnade.wire.messages import Embedding, Gradient
from tests.alliance import PARTIES, Alliance
from tests.netrun import run_programs

MB = 1 << 20


def resident_mb(pid: int | str) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / MB


@pytest.mark.parametrize(
    "rounds, growth_mb", [(1_000, 3), pytest.param(10_000, 8, marks=pytest.mark.slow)]
)
def test_a_long_job_takes_no_more_memory_than_a_short_one(tmp_path, rounds, growth_mb):
    """What is noted of a round (when what was done, its loss) takes some 200 bytes."""
    every = rounds // 20
    fields = [f"train.rounds={rounds}", f"train.evaluate_every='{every} rounds'"]
    fields += [f"train.checkpoint_every={every}", "train.batch_size=128"]
    with Alliance(tmp_path, *fields, emulate=None) as alliance:
        alliance.start()
        sizes = []
        for round in range(2 * every, rounds, every):
            alliance.wait_for_round(round)
            sizes.append([resident_mb(alliance.processes[name].pid) for name in PARTIES])
        alliance.complete()
    for name, found in zip(PARTIES, zip(*sizes, strict=True), strict=True):
        # What a single evaluation takes for a moment is no growth.
        third = len(found) // 3
        assert median(found[-third:]) - median(found[:third]) < growth_mb, (name, found)


@pytest.mark.parametrize("slow", ["p0", "p1"])
def test_a_peer_that_reads_slowly_makes_the_sender_wait(slow):
    """200 MB are sent; not more than what the queues hold is in memory at any time."""
    job = Job(
        name="slow",
        parties={"p0": Party(), "p1": Party(role="active")},
        train=Train(rounds=1, batch_size=64),
        limits=Limits(queue_bytes=4 * MB),
    )
    count, kind = 200, Gradient if slow == "p0" else Embedding
    tensor = plain().encode(torch.zeros(512, 512))
    sizes = []

    async def read(world):
        await world.begin()
        sizes.append(resident_mb("self"))
        for _ in range(count):
            await world.sleep(2_000_000)
            await world.receive()
            sizes.append(resident_mb("self"))
        await world.part()

    async def write(world):
        await world.begin()
        (peer,) = world.peers
        for round in range(count):
            await world.send(peer, kind(round, tensor))
        await world.part()

    run_programs(job, {name: read if name == slow else write for name in job.parties})
    assert max(sizes) - sizes[0] < 40, sizes
