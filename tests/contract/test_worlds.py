"""One body of checks that every world must pass: what party programs rely on."""

from __future__ import annotations

import random

import pytest

from colonnade import Job, Limits, Link, Network, Party
from colonnade.party.world import Work
from colonnade.sim.kernel import Simulator
from colonnade.sim.links import Drop, Pass, Repeat
from colonnade.testing.lossy import LossyWorld
from colonnade.wire.messages import Failure
from tests.netrun import run_programs

MS = 1_000_000


def simulated(job, programs):
    """Run two programs in the simulator; returns what they returned and their worlds."""
    simulator = Simulator(job)
    started = {name: program(simulator.worlds[name]) for name, program in programs.items()}
    return simulator.run(started), simulator.worlds


def lossy(job, programs):
    """The same behind sessions, on links that lose, repeat and reorder."""
    chance = random.Random(1)

    def rule(envelope):
        draw = chance.random()
        if draw < 0.1:
            return Drop()
        return Repeat((2 * MS, 9 * MS)) if draw < 0.3 else Pass()

    simulator = Simulator(job, [rule], LossyWorld, until_ns=600_000 * MS)
    return simulator.run(greeted(programs, simulator.worlds)), simulator.worlds


def networked(job, programs):
    """The same over mTLS on loopback."""
    return run_programs(job, {name: begun(program) for name, program in programs.items()})


def greeted(programs, worlds):
    return {name: begun(program)(worlds[name]) for name, program in programs.items()}


def begun(program):
    """A program between the beginning and the goodbye, as `attend` runs one."""

    async def whole(world):
        await world.begin()
        result = await program(world)
        await world.part(lambda: None)
        return result

    return whole


WORLDS = {"simulator": simulated, "lossy": lossy, "network": networked}


@pytest.fixture(params=WORLDS)
def run(request):
    def call(a, b, queue=1024, latency="5ms", **link):
        job = Job(
            parties={"a": Party(role="active"), "b": Party()},
            network=Network(link=Link(latency=latency, **link)),
            limits=Limits(queue_messages=queue),
        )
        return WORLDS[request.param](job, {"a": a, "b": b})

    return call


async def send_many(world, to, count):
    for number in range(count):
        await world.send(to, Failure(str(number)))


async def receive_many(world, count):
    return [(await world.receive())[1].reason for _ in range(count)]


async def nothing(world):
    return None


def test_messages_come_once_and_in_order(run):
    async def a(world):
        return await receive_many(world, 50)

    async def b(world):
        await send_many(world, "a", 50)

    results, worlds = run(a, b, queue=3, jitter="9ms")
    assert results["a"] == [str(i) for i in range(50)]
    (entry,) = worlds["a"].ledger.entries()
    assert (entry["messages"], entry["direction"], entry["peer"]) == (50, "received", "b")


def test_both_ends_count_the_same_bytes(run):
    async def a(world):
        await send_many(world, "b", 7)

    async def b(world):
        await receive_many(world, 7)

    _, worlds = run(a, b)
    assert worlds["a"].ledger.bytes("sent") == worlds["b"].ledger.bytes("received") > 0


@pytest.mark.parametrize("queue", [1, 2, 7])
def test_two_full_queues_do_not_block_each_other(run, queue):
    """Both send far more than their queue holds before either receives anything."""
    count = queue * 10

    async def both(world):
        await send_many(world, world.peers[0], count)
        return await receive_many(world, count)

    results, _ = run(both, both, queue=queue)
    assert results["a"] == results["b"] == [str(i) for i in range(count)]


def test_a_slow_receiver_holds_the_sender_back(run):
    seen = []

    async def a(world):
        for _ in range(40):
            await world.sleep(10 * MS)
            seen.append(world.pending())
            await world.receive()

    async def b(world):
        await send_many(world, "a", 40)
        return world.now()

    results, _ = run(a, b, queue=4)
    assert max(seen) == 4
    assert results["b"] >= 30 * 10 * MS


def test_receive_until_an_instant(run):
    async def a(world):
        early = await world.receive(until=3 * MS)
        at = world.now()
        late = await world.receive(until=3000 * MS)
        return early, at >= 3 * MS, late[1].reason, world.now() < 3000 * MS

    async def b(world):
        await world.sleep(5 * MS)
        await world.send("a", Failure("x"))

    assert run(a, b)[0]["a"] == (None, True, "x", True)


def test_a_delivery_does_not_shorten_a_sleep(run):
    async def a(world):
        await world.sleep(20 * MS)
        return world.now(), world.pending()

    async def b(world):
        await world.send("a", Failure("x"))

    now, pending = run(a, b)[0]["a"]
    assert now >= 20 * MS
    assert pending == 1


def test_compute_returns_what_the_work_returns(run):
    async def a(world):
        return await world.compute(lambda: 6 * 7, Work.FORWARD)

    assert run(a, nothing)[0]["a"] == 42


def test_an_error_in_the_work_reaches_the_program(run):
    async def a(world):
        with pytest.raises(ZeroDivisionError):
            await world.compute(lambda: 1 // 0, Work.FORWARD)
        return "went on"

    assert run(a, nothing)[0]["a"] == "went on"


def test_off_clock_messages_arrive_too(run):
    async def a(world):
        with world.off_clock():
            await world.send("b", Failure("x"))

    async def b(world):
        return (await world.receive())[1].reason

    assert run(a, b, latency="1s", bandwidth="1kbit")[0]["b"] == "x"


def test_peers_are_who_they_should_be(run):
    async def who(world):
        return world.me, world.peers

    assert run(who, who)[0] == {"a": ("a", ("b",)), "b": ("b", ("a",))}
