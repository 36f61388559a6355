"""A passive party that deviates is named; it harms neither the job nor any other party."""

from __future__ import annotations

import pytest

from colonnade.world import tls
from colonnade.world.segment import PROTOCOL, Kind, Segment
from tests.scene import play, speak, wire

JOIN = Segment(Kind.JOIN, 0, 77, flags=PROTOCOL)


async def hear(call):
    """The next segment of a raw stream."""
    raw = await call.read()
    return None if raw is tls.secure_grpc().aio.EOF else Segment.decode(raw)


@pytest.mark.parametrize("claimed", [1 << 31, (1 << 32) - 1])
def test_a_claimed_generation_does_not_make_the_honest_ones_refused(claimed):
    async def run(s, active):
        await s.until(lambda: "p0" in active.world.outlets)
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
        # The honest one dials again.
        before = active.world.outlets["p0"]
        before.over.set()
        await s.until(lambda: active.world.outlets.get("p0") not in (None, before))
        assert active.world.watch.refusals == {"p2": 1}

    play(run)


def test_a_connection_is_of_one_process():
    async def run(s, active):
        generation = active.world.roster.generation
        words = [JOIN, *(JOIN._replace(number=number) for number in range(78, 178))]
        *_, told = await speak(s.address, s.known["p2"], "p1", *words)
        assert told.kind == Kind.REFUSE and "came as another process" in told.text()
        assert active.world.roster.generation == generation, "nobody had to begin again"
        assert active.world.watch.refusals == {"p2": 1}

    play(run)
