"""Connections that come, go and replace each other at the worst moments, without a network."""

from __future__ import annotations

import asyncio

import pytest

from colonnade import Job, Limits, Party
from colonnade.errors import PartyError, StoppedError
from colonnade.job.records import Recovery, Timeouts
from colonnade.net import connections as connections
from colonnade.net.connections import ENDED
from colonnade.net.detector import FailureDetector
from colonnade.net.runner import run_party
from colonnade.net.session import LAST, PROTOCOL, Kind, Segment, Session
from colonnade.net.world import NetworkWorld
from colonnade.party.world import Regrouped, Work
from colonnade.record.events import RoundDone
from colonnade.record.exchanges import Exchanges
from colonnade.wire.messages import Failure
from tests import loop
from tests.netrun import Quiet

JOB = Job(parties={"a": Party(role="active"), "b": Party(), "c": Party()})


class Wire:
    """A connection as one end sees it, the other end being a test."""

    def __init__(self):
        self.coming = asyncio.Queue()
        self.went = []
        self.breaks = False

    async def read(self):
        return await self.coming.get()

    async def write(self, data):
        if self.breaks:
            raise OSError("broken")
        self.went.append(Segment.decode(bytes(data)))

    def give(self, segment):
        self.coming.put_nowait(segment.encode())

    def kinds(self):
        return [Kind(segment.kind).name for segment in self.went]

    def frames(self):
        return [bytes(segment.data) for segment in self.went if segment.kind == Kind.DATA]


class Passive:
    """What a test plays: a passive party's end of a link."""

    def __init__(self, world, name, incarnation=1):
        self.world, self.name, self.incarnation = world, name, incarnation
        self.session = None
        self.connect()

    def connect(self, generation=0):
        self.wire = Wire()
        self.join = Segment(Kind.JOIN, generation, self.incarnation, flags=PROTOCOL)
        serving = self.world.serve(self.name, self.wire, self.join)
        self.serving = asyncio.ensure_future(serving)
        return self.wire

    async def open(self):
        await turn()
        (news,) = [segment for segment in self.wire.went if segment.kind == Kind.OPEN]
        self.session = Session(news.generation)
        return self

    def say(self, *messages):
        for message in messages:
            self.session.put(self.world.codec.encode(message))
        while (segment := self.session.next()) is not None:
            self.wire.give(segment)


async def turn():
    for _ in range(20):
        await asyncio.sleep(0)


def play(scene, job=JOB, me="a", timeouts=None):
    async def whole():
        world = NetworkWorld(
            job, me, FailureDetector(timeouts or Timeouts(), me, [told := Quiet()]), incarnation=7
        )
        world.sentences = told.events
        try:
            async with asyncio.timeout(20):
                await scene(world)
        finally:
            for connection in list(world.connections.values()):
                connection.retire()
            await turn()
            world.close()

    loop.run(whole())


def test_a_new_connection_takes_over_what_the_old_one_had_under_way():
    async def scene(world):
        b = await Passive(world, "b").open()
        c = await Passive(world, "c").open()
        await world.begin()
        await world.send("b", Failure("1"))
        await turn()
        old = b.wire
        assert len(old.frames()) == 1, "it left, and nobody knows whether it arrived"
        new = b.connect(generation=1)
        # The old connection still has something to read, which must not wake its writer.
        old.give(Segment(Kind.ACK, 1))
        await world.send("b", Failure("2"))
        await turn()
        assert len(old.frames()) == 1 and len(new.frames()) == 2
        assert old.frames()[0] == new.frames()[0]
        assert world.regroup_reason is None and not c.serving.done()
        assert list(world.connections) == ["c", "b"] or list(world.connections) == ["b", "c"]

    play(scene)


def test_what_an_old_connection_brings_too_late_comes_once():
    async def scene(world):
        b = await Passive(world, "b").open()
        await Passive(world, "c").open()
        await world.begin()
        old, new = b.wire, b.connect(generation=1)
        b.wire = old
        b.say(Failure("1"))
        b.wire = new
        b.session.rewind()
        b.say(Failure("2"))
        await turn()
        heard = [(await world.receive())[1].reason for _ in range(world.pending())]
        assert heard == ["1", "2"]

    play(scene)


def test_a_party_that_starts_again_makes_all_begin_again_at_once():
    async def scene(world):
        b = await Passive(world, "b").open()
        c = await Passive(world, "c").open()
        await world.begin()
        b.say(Failure("of before"))
        await turn()
        Passive(world, "c", incarnation=2)
        await turn()
        assert b.wire.went[-1][:3] == (Kind.OPEN, 2, 1), "it is told without having to ask"
        assert world.pending() == 1 and c.serving.done()
        with pytest.raises(Regrouped, match="c started again"):
            await world.receive()
        b.say(Failure("of before, and late"))
        await world.begin()
        await turn()
        assert world.pending() == 0

    play(scene)


def test_a_connection_whose_writer_fails_is_ended():
    async def scene(world):
        b = await Passive(world, "b").open()
        b.wire.breaks = True
        world.connections["b"].send_urgent(Segment(Kind.ACK))
        await turn()
        assert b.serving.done() and "b" not in world.connections
        assert "the connection with b broke: OSError broken" in world.sentences

    play(scene)


def test_a_connection_that_is_ended_on_purpose_is_not_said_to_have_broken():
    async def scene(world):
        b = await Passive(world, "b").open()
        world.ended = "the job is complete"
        world.connections["b"].retire()
        await asyncio.wait_for(b.serving, 5)
        assert world.sentences == ["connected with b"]

    play(scene)


def test_silence_ends_a_connection_and_not_the_dialling(monkeypatch):
    monkeypatch.setattr(connections, "HEARTBEAT_S", 0.01)

    async def scene(world):
        wire = Wire()
        beating = asyncio.ensure_future(world.heartbeat())
        await asyncio.wait_for(world.serve("a", wire, None), 5)
        assert world.connections == {}
        beating.cancel()

    play(scene, me="b", timeouts=Timeouts(silence="100ms"))


def test_a_reader_that_waits_for_room_does_not_make_the_peer_silent(monkeypatch):
    monkeypatch.setattr(connections, "HEARTBEAT_S", 0.01)
    limits = Limits(queue_messages=2)

    async def scene(world):
        b = await Passive(world, "b").open()
        beating = asyncio.ensure_future(world.heartbeat())
        b.say(*(Failure(str(number)) for number in range(6)))
        await asyncio.sleep(0.4)
        assert world.pending() == 2 and not b.serving.done()
        for number in range(6):
            assert (await world.receive())[1].reason == str(number)
        beating.cancel()

    job = Job(parties=JOB.parties, limits=limits)
    play(scene, job, timeouts=Timeouts(silence="100ms"))


def test_a_failure_that_comes_while_the_program_computes_is_heard_at_its_next_wait():
    async def scene(world):
        wire = Wire()
        serving = asyncio.ensure_future(world.serve("a", wire, None))
        await turn()
        wire.give(Segment(Kind.OPEN, 1, 7))
        await turn()
        await world.begin()
        wire.give(Segment(Kind.FAIL, data=b"no disk"))
        wire.coming.put_nowait(None)
        await turn()
        assert serving.done() and world.pending() == 1
        with pytest.raises(PartyError, match="a failed: no disk"):
            await world.receive()

    play(scene, me="b")


def test_a_send_that_begins_again_does_not_leave_the_inbox_open():
    async def scene(world):
        await Passive(world, "b").open()
        c = await Passive(world, "c").open()
        await world.begin()
        await world.send("b", Failure("1"))
        sending = asyncio.ensure_future(world.send("b", Failure("2")))
        await turn()
        assert world.blocked
        c.serving.cancel()
        Passive(world, "c", incarnation=2)
        with pytest.raises(Regrouped):
            await sending
        assert not world.blocked

    play(scene, Job(parties=JOB.parties, limits=Limits(queue_messages=1)))


def goodbye(passive):
    passive.session.put(bytearray(b"{}"), last=True)
    passive.say()


async def all_say_goodbye(world):
    b, c = [await Passive(world, name).open() for name in "bc"]
    await world.begin()
    ending = asyncio.ensure_future(world.part())
    goodbye(b)
    goodbye(c)
    await turn()
    return b, c, ending


def test_who_lost_the_connection_at_the_end_still_hears_the_goodbye():
    async def scene(world):
        b, c, ending = await all_say_goodbye(world)
        assert [segment.flags for segment in b.wire.went if segment.kind == Kind.DATA] == [LAST]
        wire = b.connect(generation=1)
        await turn()
        assert Kind.LEAVE not in [segment.kind for segment in wire.went]
        assert wire.frames() == [b"goodbye"]
        for passive in (b, c):
            passive.wire.give(Segment(Kind.ACK, 1, acknowledged=1))
        await asyncio.wait_for(ending, 1)

    play(scene)


def test_who_comes_back_after_the_end_is_told_so_and_keeps_nobody_waiting():
    async def scene(world):
        _, c, ending = await all_say_goodbye(world)
        c.wire.give(Segment(Kind.ACK, 1, acknowledged=1))
        again = Passive(world, "b", incarnation=2)
        await asyncio.wait_for(ending, 1)
        (told,) = [segment for segment in again.wire.went if segment.kind == Kind.LEAVE]
        assert told.flags == ENDED and told.text() == "the job is complete"

    play(scene)


def test_a_party_that_is_to_stop_stops_at_once_before_it_has_begun():
    async def scene(world):
        beginning = asyncio.ensure_future(world.begin())
        await turn()
        world.stop("Ctrl-C")
        with pytest.raises(StoppedError, match="before a round was begun: Ctrl-C"):
            await beginning

    play(scene)


def test_a_party_that_is_to_stop_goes_on_to_its_next_rest():
    async def scene(world):
        b, c = [await Passive(world, name).open() for name in "bc"]
        await world.begin()
        await world.compute(lambda: None, Work.FORWARD)
        world.stop("Ctrl-C")
        b.say(Failure("1"))
        assert (await world.receive())[1].reason == "1"
        assert world.stopping == "Ctrl-C" and not c.serving.done()

    play(scene)


def test_all_stop_when_one_does_if_the_job_says_so():
    async def scene(world):
        b = await Passive(world, "b").open()
        b.wire.give(Segment(Kind.LEAVE, data=b"Ctrl-C"))
        with pytest.raises(StoppedError, match="b stopped"):
            await world.begin()

    play(scene, Job(parties=JOB.parties, recovery=Recovery(on_stop="stop")))


def test_who_stops_leaves_nothing_half_said():
    async def scene(world):
        b, _ = [await Passive(world, name).open() for name in "bc"]
        await world.begin()
        await world.send("b", Failure("1"))
        draining = asyncio.ensure_future(world.drain())
        await asyncio.sleep(0.05)
        assert not draining.done()
        b.wire.give(Segment(Kind.ACK, 1, acknowledged=1))
        await asyncio.wait_for(draining, 1)

    play(scene)


class Endpoint:
    """An endpoint that says whether it was ended."""

    ended = False

    async def run(self):
        try:
            await asyncio.sleep(3600)
        finally:
            await turn()
            self.ended = True


@pytest.mark.parametrize("fault", [ValueError("of ours"), PartyError("of theirs")])
def test_a_program_that_fails_leaves_nothing_running(fault):
    async def scene(world):
        async def program():
            raise fault

        endpoint, before = Endpoint(), asyncio.all_tasks()
        with pytest.raises(type(fault)):
            await run_party(world, endpoint, program())
        assert endpoint.ended and asyncio.all_tasks() == before

    play(scene)


def test_what_led_to_a_state_is_on_disk_before_the_state_is_saved(tmp_path):
    """Whoever is killed right after the save goes on from it, and would lack those rounds."""

    async def scene(world):
        world.exchanges = Exchanges(tmp_path / "exchanges")
        world.exchanges(RoundDone("a", 5, 0, 1))
        kept = await world.compute(lambda: list(Exchanges(tmp_path / "exchanges")), Work.SAVE)
        assert [row.round for row in kept] == [1]

    play(scene)
