"""A passive party that deviates is named; it harms neither the job nor any other party."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from colonnade.errors import AbsentError, PartyError
from colonnade.job.records import Timeouts
from colonnade.net import grpc as tls
from colonnade.net import server
from colonnade.net.session import PROTOCOL, Kind, Segment
from colonnade.record.chain import Chain, verify
from tests import loop
from tests.scene import case, play, scene, speak, wire

JOIN = Segment(Kind.JOIN, 0, 77, flags=PROTOCOL)


async def hear(call):
    """The next segment of a raw stream."""
    raw = await call.read()
    return None if raw is tls.secure_grpc().aio.EOF else Segment.decode(raw)


@pytest.mark.parametrize("claimed", [1 << 31, (1 << 32) - 1])
def test_a_claimed_generation_does_not_make_the_honest_ones_refused(claimed):
    async def run(s, active):
        await s.until(lambda: "p0" in active.world.connections)
        async with wire(s.address, s.known["p2"], "p1") as open_stream:
            call = open_stream()
            await call.write(JOIN.encode())
            first = (await hear(call)).acknowledged
            lie = Segment(Kind.JOIN, claimed, 77, first, PROTOCOL)
            await call.write(lie.encode())
            told = await hear(call)
            assert told.kind == Kind.REFUSE and f"generation {claimed}, which nobody" in told.text()
            await call.done_writing()
        # What an earlier process of the active party gave out cannot be known; it has no effect.
        news, *_ = await speak(
            s.address, s.known["p2"], "p1", JOIN._replace(generation=claimed), wait_s=1
        )
        assert (news.kind, news.generation) == (Kind.OPEN, first)
        await again(s, active, "p0")
        assert active.world.detector.refusals == {"p2": 1}

    play(run)


def test_a_connection_is_of_one_process():
    async def run(s, active):
        generation = active.world.roster.generation
        words = [JOIN, *(JOIN._replace(number=number) for number in range(78, 178))]
        *_, told = await speak(s.address, s.known["p2"], "p1", *words)
        assert told.kind == Kind.REFUSE and "came as another process" in told.text()
        assert active.world.roster.generation == generation, "nobody had to begin again"
        assert active.world.detector.refusals == {"p2": 1}

    play(run)


async def again(s, active, name):
    """An honest party loses its connection, and must get another."""
    before = active.world.connections[name]
    before.closing.set()
    await s.until(lambda: active.world.connections.get(name) not in (None, before))


def test_silent_streams_of_one_party_do_not_keep_another_from_joining():
    async def run(s, active):
        await s.until(lambda: "p0" in active.world.connections)
        async with AsyncExitStack() as stack:
            for _ in range(20):
                open_stream = await stack.enter_async_context(wire(s.address, s.known["p2"], "p1"))
                for _ in range(server.STREAMS_PER_CONNECTION):
                    call = open_stream()
                    with suppress(asyncio.InvalidStateError, tls.secure_grpc().aio.AioRpcError):
                        await call.wait_for_connection()
            await again(s, active, "p0")
        assert set(active.world.detector.refusals) == {"p2"}
        assert active.said("refused p2: it has 4 streams open already")

    play(run)


def descriptors():
    """How many files and connections this process has open."""
    return len(list(Path("/dev/fd").iterdir()))


def test_connections_without_a_certificate_are_bounded_and_timed_out(monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 16)
    monkeypatch.setattr(server, "HANDSHAKE_MAX_S", 1.0)
    monkeypatch.setattr(server, "HANDSHAKE_S", 1.0)

    async def run(s, active):
        await s.until(lambda: "p0" in active.world.connections)
        host, _, port = s.address.rpartition(":")
        before = descriptors()
        idle = [socket.create_connection((host, int(port))) for _ in range(150)]
        try:
            await asyncio.sleep(0.1)
            assert descriptors() <= before + len(idle) + 16 + 4
            await again(s, active, "p0")
            await s.until(lambda: active.world.detector.refusals.get(server.STRANGER, 0) >= 10)
        finally:
            for each in idle:
                each.close()

    play(run)


@pytest.mark.parametrize("kind", [Kind.LEAVE, Kind.FAIL])
def test_a_flood_of_last_words_fills_no_log(kind):
    async def run(s, active):
        flood = [Segment(kind, data=b"x" * 2000)] * 50
        for times in range(3):
            *_, told = await speak(s.address, s.known["p2"], "p1", JOIN, *flood)
            assert told.kind == Kind.REFUSE and "one is the last word" in told.text()
            assert active.world.detector.refusals == {"p2": times + 1}
        assert sum(map(len, active.report.events)) < 20_000, "of 300 kB that were sent"

    play(run)


def with_timeouts(made, **timeouts):
    return replace(made, job=msgspec.structs.replace(made.job, timeouts=Timeouts(**timeouts)))


def test_a_party_that_lives_and_sends_nothing_is_the_one_that_is_named():
    async def whole():
        async with scene(with_timeouts(case(), stall="2s")) as s:
            go_on, training = threading.Event(), s.training("p2")
            build = training.build

            def built(world, welcome):
                program = build(world, welcome)
                program.learner.forward = lambda *_: go_on.wait()
                return program

            training.build = built
            parties = [await s.start("p1"), await s.start("p0"), await s.start("p2", training)]
            try:
                active, other = [await party.end() for party in parties[:2]]
            finally:
                go_on.set()
            said = "p2 was awaited for 2 s and did not come; waited for p2: the embedding of"
            assert isinstance(active, AbsentError) and str(active).startswith(said)
            assert isinstance(other, PartyError) and said in str(other)

    loop.run(whole())


def test_what_cannot_be_written_into_the_ledger_does_not_leave(tmp_path):
    async def whole():
        async with scene(case()) as s:
            chain = Chain.open(tmp_path / "ledger.chain", "p2", "job", 0)
            write = chain.message

            def full(now_ns, direction, peer, kind, round, *rest):
                if (direction, kind, round) == ("sent", "Embedding", 3):
                    chain._fail(OSError(errno.ENOSPC, "No space left on device"))
                write(now_ns, direction, peer, kind, round, *rest)

            chain.message = full
            active, p2 = await s.start("p1"), await s.start("p2")
            p2.world.detector._chain = chain
            await s.start("p0")
            error = await p2.end()
            assert "cannot be written (no space left on device)" in str(error)
            assert "p2" in str(await active.end())
        came = active.world.ledger.entries()
        (row,) = [row for row in came if (row["peer"], row["kind"]) == ("p2", "Embedding")]
        assert row["messages"] == 3
        kept = verify(tmp_path / "ledger.chain").totals["p1", "sent", "Embedding"]
        assert kept == (row["messages"], row["bytes"])

    loop.run(whole())
