"""Numbers from the wire that would decide how much is allocated or computed are bounded, and the
party that sends them is named."""

from __future__ import annotations

import math

import msgspec
import pytest
import torch

from colonnade.compress import plain
from colonnade.errors import RefusedError
from colonnade.job.policy import Policy
from colonnade.job.records import Limits
from colonnade.run.setup import prepare
from colonnade.wire.messages import Finish, Status
from tests import loop
from tests.e2e.test_breaches import spoil
from tests.scene import case, scene
from tests.small import small

LABELS = Policy(shares_labels=True)


def overheard(training, change):
    """A training whose program sends something else in the place of some messages."""
    build = training.build

    def built(world, welcome):
        send = world.send

        async def changed(to, message):
            await send(to, change(message))

        world.send = changed
        return build(world, welcome)

    training.build = built
    return training


def test_a_width_that_would_fill_the_memory_is_refused_with_its_partys_name():
    c = case(method={"name": "vafl"})
    c.job = msgspec.structs.replace(c.job, limits=Limits(table_bytes=10**6))

    async def whole():
        async with scene(c) as s:
            active, training = await s.start("p1"), s.training("p2")
            await s.start("p0")
            training.hello = msgspec.structs.replace(training.hello, width=1 << 20)
            error = await (await s.start("p2", training)).end()
            assert isinstance(error, RefusedError)
            assert "the embedding of p2 is 1048576 wide, and p1 takes 1 to" in str(error)
            assert active.said("refused p2: the embedding of p2 is 1048576 wide")

    loop.run(whole())


def test_a_table_of_all_rows_must_fit_its_limit():
    c = case(method={"name": "vafl"})
    job = msgspec.structs.replace(c.job, limits=Limits(table_bytes=64 * 8 * 100))
    agreed = prepare(job, c.data, c.modules)["p1"].agreement()
    rows = agreed.plan.rows
    assert agreed.width_max == 64 * 100 // rows


@pytest.mark.parametrize("guilty", ["p2", "p1"])
def test_a_status_of_more_updates_than_fit_is_refused_with_its_partys_name(guilty):
    def exaggerated(message):
        return Status(message.round, 100_000) if isinstance(message, Status) else message

    method = {"name": "sync_max", "timeout": "1ms"}

    async def whole():
        async with scene(small(3, rounds=12, method=method, labels="shared")) as s:
            parties = {}
            for name in ("p1", "p0", "p2"):
                training = s.training(name)
                training = overheard(training, exaggerated) if name == guilty else training
                parties[name] = await s.start(name, training, policy=LABELS)
            error = await parties["p2" if guilty == "p2" else "p0"].end()
            said = "reported 100000 updates" if guilty == "p2" else "wants 100000 updates"
            assert f"{guilty} {said}" in str(error) and "at most 10 fit" in str(error)

    loop.run(whole())


@pytest.mark.parametrize("sign", [1, -1])
def test_embeddings_too_large_for_a_loss_end_the_job_with_their_senders_name(sign):
    def huge(exchange):
        most = math.sqrt(torch.finfo(torch.float64).max)
        value = torch.full((8, 4), 10 * most, dtype=torch.float64)
        value[::2] *= sign  # where they are of both signs, a sum shows nothing
        return plain().encode(value)

    async def whole():
        async with scene(case()) as s:
            bad = spoil(s.training("p2"), 3, huge)
            for party in [await s.start("p1"), await s.start("p0"), await s.start("p2", bad)]:
                outcome = await party.end()
                assert outcome.reason == "diverged"
                assert str(outcome.fault).startswith("p2 sent a tensor with components as large as")

    loop.run(whole())


def test_an_end_after_a_round_that_was_never_sent_is_refused():
    def never(message):
        return (
            msgspec.structs.replace(message, round=10**9)
            if isinstance(message, Finish)
            else message
        )

    async def whole():
        async with scene(case()) as s:
            await s.start("p1", overheard(s.training("p1"), never))
            await s.start("p0")
            error = await (await s.start("p2")).end()
            assert "p1 ends the job after round 1000000001, which was not sent" in str(error)

    loop.run(whole())
