"""The kernel: order of events, queues, faults, deadlocks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade import DeadlockError, Job, Limits, Link, Network, Party, simulate, simulate_clock
from colonnade.party.world import Work
from colonnade.sim.kernel import Interrupted, Simulator
from colonnade.sim.links import Deliver, Drop, Pass, Pipe, Trace
from colonnade.units import rate_bits
from colonnade.wire.messages import Failure
from tests.small import small

MS = 1_000_000


def two(queue=1024, latency="5ms", **link):
    return Job(
        parties={"a": Party(role="active"), "b": Party()},
        network=Network(link=Link(latency=latency, **link)),
        limits=Limits(queue_messages=queue),
    )


def run(job, a, b, rules=()):
    simulator = Simulator(job, rules)
    programs = {"a": a(simulator.worlds["a"]), "b": b(simulator.worlds["b"])}
    return simulator.run(programs), simulator


async def send_many(world, to, count):
    for number in range(count):
        await world.send(to, Failure(str(number)))


async def receive_many(world, count):
    return [(await world.receive())[1].reason for _ in range(count)]


def test_memory_stays_bounded_when_nobody_receives():
    """Sending without end to a party that sends without end is a deadlock, not a leak."""

    async def both(world):
        await send_many(world, world.peers[0], 10_000)

    with pytest.raises(DeadlockError, match="room in its queue to b"):
        run(two(queue=4), both, both)


def test_at_one_instant_deliveries_then_active_then_passive():
    acts = []

    async def b(world):
        await world.send("a", Failure("x"))
        await world.sleep(5 * MS)
        acts.append(("b", world.pending()))

    async def a(world):
        await world.send("b", Failure("y"))
        await world.sleep(5 * MS)
        acts.append(("a", world.pending()))

    run(two(), a, b)
    assert acts == [("a", 1), ("b", 1)]


def test_a_deadlock_names_everybody_and_what_they_wait_for():
    case = small(3)
    lost = [lambda e: Drop() if (e.kind, e.number, e.sender) == ("Embedding", 4, "p2") else Pass()]
    with pytest.raises(DeadlockError) as error:
        simulate(case.job, case.data, case.modules, rules=lost)
    text = str(error.value)
    assert "p1 has waited since" in text
    assert "for p2: the embedding of round 5" in text
    assert "p0 has waited" in text
    assert "for p1: the reply to round 5" in text


def test_fault_rules_first_that_is_not_pass_wins():
    async def a(world):
        got = []
        while (received := await world.receive(until=500 * MS)) is not None:
            got.append((received[1].reason, world.now()))
        return got

    async def b(world):
        await send_many(world, "a", 3)

    rules = [
        lambda e: Drop() if e.number == 1 else Pass(),
        lambda e: Deliver(100 * MS) if e.number == 0 else Pass(),
        lambda e: Drop() if e.number == 0 else Pass(),
    ]
    assert run(two(), a, b, rules)[0]["a"] == [("2", 5 * MS), ("0", 100 * MS)]


def test_delay_does_not_change_what_is_learnt():
    case = small(3)
    plain = simulate(case.job, case.data, case.modules)
    late = [lambda e: Deliver((e.number % 3) * MS) if e.kind == "Embedding" else Pass()]
    delayed = simulate(case.job, case.data, case.modules, rules=late)
    assert delayed.time_s > plain.time_s
    assert str(delayed.weights) == str(plain.weights)


def test_should_stop_ends_between_events():
    async def forever(world):
        while True:
            await world.sleep(MS)

    simulator = Simulator(two())
    calls = iter(range(1000))
    programs = {name: forever(world) for name, world in simulator.worlds.items()}
    with pytest.raises(Interrupted):
        simulator.run(programs, should_stop=lambda: next(calls) > 50)


@given(
    rates=st.lists(st.integers(1, 10**9), min_size=1, max_size=5),
    sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=20),
)
def test_a_pipe_keeps_order_and_never_beats_its_rate(rates, sizes):
    times = tuple(index * 10**7 for index in range(len(rates)))
    pipe = Pipe.of(Link(), (0,), ())
    pipe.bandwidth = Trace(times, tuple(rates))
    arrivals = [pipe.arrivals("a", "b", "x", size, 0)[0] for size in sizes]
    assert arrivals == sorted(arrivals)
    # One whole transmission of all bytes takes as long as all of them queued, but for rounding.
    whole = Pipe.of(Link(), (0,), ())
    whole.bandwidth = pipe.bandwidth
    together = whole.arrivals("a", "b", "x", sum(sizes), 0)[0]
    rounding = (len(sizes) + len(rates)) * (1 + 10**9 // min(rates))
    assert abs(arrivals[-1] - together) <= rounding


def test_jitter_comes_from_the_seed():
    def arrivals(seed):
        pipe = Pipe.of(Link(latency="5ms", jitter="5ms"), (seed,), ())
        return [pipe.arrivals("a", "b", "x", 1, i * 20 * MS)[0] for i in range(20)]

    assert arrivals(1) == arrivals(1)
    assert arrivals(1) != arrivals(2)
    delays = [arrival - i * 20 * MS for i, arrival in enumerate(arrivals(1))]
    assert all(5 * MS <= delay <= 10 * MS for delay in delays)
    assert len(set(delays)) > 10


def test_trace_holds_from_its_time_on():
    trace = Trace.of([("0s", "1mbit"), ("1s", "2mbit")], rate_bits)
    assert [trace.at(ns) for ns in (0, 999_999_999, 10**9)] == [10**6, 10**6, 2 * 10**6]
    assert trace.next_change(0) == 10**9
    assert trace.next_change(10**9) is None


def test_the_clock_alone_sends_the_same_bytes():
    """A null learner's messages are as large as those of real training."""
    case = small(3, batch_size=8, dtype="float32")
    real = simulate(case.job, case.data, case.modules)
    widths = dict.fromkeys(case.job.parties, 4)
    null = simulate_clock(case.job, case.data.train_count, widths)
    training = ("Embedding", "Gradient")
    for name in case.job.parties:
        ledgers = [
            [entry for entry in made.parties[name].ledger if entry["kind"] in training]
            for made in (real, null)
        ]
        assert ledgers[0] == ledgers[1]


@pytest.mark.parametrize(("latency", "seen"), [("0ms", 0), ("4ms", 1)])
def test_at_latency_0_a_message_arrives_as_its_sender_acts_and_the_active_party_has_acted(
    latency, seen
):
    """Both parties are free at 10 ms. What was sent before and arrives at that instant the active
    party sees before it acts; what a passive party sends at that instant, over a link without
    latency, only after it, though still at the same instant."""
    sent_ms = 10 - int(latency.removesuffix("ms"))

    async def a(world):
        await world.sleep(10 * MS)
        found = world.pending()
        await world.receive()
        return found, world.now()

    async def b(world):
        await world.sleep(sent_ms * MS)
        await world.send("a", Failure("x"))

    assert run(two(latency=latency), a, b)[0]["a"] == (seen, 10 * MS)


def test_off_clock_is_free():
    async def a(world):
        with world.off_clock():
            await world.send("b", Failure("x"))
            await world.compute(lambda: None, Work.FORWARD)
        return world.now()

    async def b(world):
        await world.receive()
        return world.now()

    assert run(two(latency="1s", bandwidth="1kbit"), a, b)[0] == {"a": 0, "b": 0}
