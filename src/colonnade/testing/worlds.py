"""What every world must pass: what party programs rely on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from colonnade.job.records import Job, Limits, Link, Network, Party
from colonnade.party.world import Work, World
from colonnade.testing.expect import expect
from colonnade.wire.messages import Failure

MS = 1_000_000
Program = Callable[[World], Awaitable[Any]]
Started = Callable[[World], Coroutine[Any, Any, Any]]
Ran = tuple[Mapping[str, Any], Mapping[str, World]]
"""What the parties returned, and their worlds."""
Runner = Callable[[Job, Mapping[str, Started]], Ran]
_Run = Callable[..., Ran]
"""Runs two programs over a link."""


def check_world(run: Runner) -> None:
    """Check a world; an `AssertionError` says what does not hold.

    `run` is given a job of two parties, `a` (active) and `b`, with their link and the bound of
    their queues, and a program for each. It runs both to their ends, and returns what they
    returned and their worlds, both by party.

    >>> from colonnade.sim.kernel import Simulator
    >>> def simulated(job, programs):
    ...     simulator = Simulator(job)
    ...     worlds = simulator.worlds
    ...     return simulator.run({name: programs[name](worlds[name]) for name in worlds}), worlds
    >>> check_world(simulated)
    """

    def both(a: Program, b: Program, queue: int = 1024, latency: str = "5ms", **link: Any) -> Ran:
        job = Job(
            parties={"a": Party(role="active"), "b": Party()},
            network=Network(link=Link(latency=latency, **link)),
            limits=Limits(queue_messages=queue),
        )
        return run(job, {"a": _whole(a), "b": _whole(b)})

    for check in (_messages, _queues, _slow_receiver, _time, _computing, _off_clock):
        check(both)


def _whole(program: Program) -> Started:
    """A program between the beginning and the goodbye, as a party's session runs one."""

    async def whole(world: World) -> Any:
        await world.begin()
        result = await program(world)
        await world.part()
        return result

    return whole


async def _send(world: World, to: str, count: int) -> None:
    for number in range(count):
        await world.send(to, Failure(str(number)))


async def _text(world: World, until: int | None = None) -> str | None:
    received = await world.receive(until=until)
    return None if received is None else getattr(received[1], "reason", None)


async def _receive(world: World, count: int) -> list[str | None]:
    return [await _text(world) for _ in range(count)]


async def _nothing(world: World) -> None:
    return None


def _messages(run: _Run) -> None:
    async def a(world: World) -> Any:
        found = await _receive(world, 50)
        await _send(world, "b", 7)
        return found, world.me, world.peers

    async def b(world: World) -> Any:
        await _send(world, "a", 50)
        await _receive(world, 7)
        return world.me, world.peers

    results, worlds = run(a, b, queue=3, jitter="9ms")
    (found, *names) = results["a"]
    expect(found == _numbers(50), f"messages come otherwise than once and in order: {found}")
    known = [tuple(names), results["b"]] == [("a", ("b",)), ("b", ("a",))]
    expect(known, f"the parties do not know who they and their peers are: {names}, {results['b']}")
    entries = {e["direction"]: e for e in worlds["a"].ledger.entries()}
    count, peer = entries["received"]["messages"], entries["received"]["peer"]
    expect((count, peer) == (50, "b"), f"of 50 messages from b, {count} were counted from {peer}")
    for one, other in ("ab", "ba"):
        sent, came = _bytes(worlds[one], "sent"), _bytes(worlds[other], "received")
        expect(sent == came > 0, f"{one} sent {sent} bytes, and {other} received {came}")


def _bytes(world: World, way: str) -> int:
    return sum(e["bytes"] for e in world.ledger.entries() if e["direction"] == way)


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _queues(run: _Run) -> None:
    """Both send far more than their queue holds before either receives anything."""
    for queue in (1, 2, 7):
        count = queue * 10

        async def both(world: World, count: int = count) -> Any:
            await _send(world, world.peers[0], count)
            return await _receive(world, count)

        results, _ = run(both, both, queue=queue)
        good = results["a"] == results["b"] == _numbers(count)
        expect(good, f"two full queues of {queue} lose or reorder messages")


def _slow_receiver(run: _Run) -> None:
    seen = []

    async def a(world: World) -> None:
        for _ in range(40):
            await world.sleep(10 * MS)
            seen.append(world.pending())
            await world.receive()

    async def b(world: World) -> int:
        await _send(world, "a", 40)
        return world.now()

    results, _ = run(a, b, queue=4)
    expect(max(seen) == 4, f"a queue of 4 held up to {max(seen)} messages")
    late = results["b"] >= 30 * 10 * MS
    expect(late, "a slow receiver does not hold the sender back")


def _time(run: _Run) -> None:
    async def a(world: World) -> Any:
        early, at = await _text(world, until=3 * MS), world.now()
        late = await _text(world, until=3000 * MS)
        return early, at >= 3 * MS, late, world.now() < 3000 * MS

    async def b(world: World) -> None:
        await world.sleep(5 * MS)
        await world.send("a", Failure("x"))

    found = run(a, b)[0]["a"]
    expect(
        found == (None, True, "x", True), "`receive` does not wait until an instant, or a message"
    )

    async def sleeps(world: World) -> Any:
        await world.sleep(20 * MS)
        return world.now() >= 20 * MS, world.pending()

    async def sends(world: World) -> None:
        await world.send("a", Failure("x"))

    found = run(sleeps, sends)[0]["a"]
    expect(found == (True, 1), "a delivery shortens a sleep, or is not there after it")


def _computing(run: _Run) -> None:
    async def a(world: World) -> Any:
        try:
            await world.compute(lambda: 1 // 0, Work.FORWARD)
        except ZeroDivisionError:
            return await world.compute(lambda: 6 * 7, Work.FORWARD)
        return "no error"

    found = run(a, _nothing)[0]["a"]
    expect(found == 42, f"`compute` returns {found}, not the work's result after the work's error")


def _off_clock(run: _Run) -> None:
    async def a(world: World) -> None:
        with world.off_clock():
            await world.send("b", Failure("x"))

    found = run(a, _text, latency="1s", bandwidth="1kbit")[0]["b"]
    expect(found == "x", "a message that is sent off the clock does not arrive")
