"""The first words between parties: nothing of the data leaves before both sides know that they
mean the same job, and from which round they go on. The handshake is off the clock."""

from __future__ import annotations

import re
from collections.abc import Mapping

from colonnade.errors import BreachError, RefusedError
from colonnade.job.terms import differences, shown
from colonnade.party.membership import strangers
from colonnade.party.program import Program
from colonnade.party.world import World
from colonnade.record.checkpoints import ANEW
from colonnade.wire.messages import Failure, Hello, Message, Terms, Welcome

_TOKEN = re.compile("[0-9a-f]{32}")


async def introduce(world: World, hello: Hello, terms: Mapping[str, str]) -> Welcome:
    """A passive party's part: say who one is, and hear that the job is the same."""
    (active,) = world.peers
    with world.off_clock():
        await world.send(active, hello)
        received = await world.receive(waiting_for=lambda: f"{active}: a welcome")
        assert received is not None
        message = received[1]
        if isinstance(message, Failure):
            raise RefusedError(f"{active} refused: {shown(message.reason)}")
        if isinstance(message, Terms):
            lines = differences(terms, message.fields, hello.party, active)
            sentence = f"{active} has another job: {'; '.join(lines) or 'their digests differ'}"
            await world.send(active, Failure(sentence))
            raise RefusedError(sentence)
    if not isinstance(message, Welcome):
        fault = f"{active} began with {type(message).__name__} and no welcome"
        raise BreachError(active, fault)
    if message.digest != hello.digest or message.start not in (0, *hello.checkpoints):
        fault = f"{active} has another job, or wants another start: compare the job files"
        raise BreachError(active, fault)
    if not (_TOKEN.fullmatch(message.run) and _TOKEN.fullmatch(message.attempt)):
        raise BreachError(active, f"{active} did not say which run this is")
    if hello.checkpoints and message.run != hello.run:
        raise BreachError(
            active,
            f"{active} begins another run, {message.run[:12]}, than that of which {hello.party} "
            f"has checkpoints, {hello.run[:12]}: {ANEW}",
        )
    return message


async def hear(world: World, mine: Hello, program: Program) -> dict[str, Hello]:
    """The active party's part: hear everybody. Who does not fit is told why, and may come again
    with another file, or from another folder; the others are not harmed."""
    heard: dict[str, Hello] = {}

    def missing() -> str:
        return f"{', '.join(peer for peer in world.peers if peer not in heard)}: a Hello"

    with world.off_clock():
        while len(heard) < len(world.peers):
            received = await world.receive(waiting_for=missing)
            assert received is not None
            peer, message = received
            if isinstance(message, Failure):
                world.refused(peer, shown(message.reason))
            elif isinstance(message, Hello) and message.digest != mine.digest:
                await world.send(peer, Terms(dict(program.terms)))
            elif (fault := _fault(program, peer, message)) is not None:
                await _refuse(world, peer, fault)
            else:
                assert isinstance(message, Hello)
                heard[peer] = message
            if len(heard) == len(world.peers):
                strange = strangers(mine, heard)
                if (own := strange.get(mine.party)) is not None:
                    # The others go on waiting for it: it may be started again as it should be.
                    raise RefusedError(own)
                for stranger, fault in strange.items():
                    del heard[stranger]
                    await _refuse(world, stranger, fault)
    return heard


async def _refuse(world: World, peer: str, fault: str) -> None:
    await world.send(peer, Failure(fault))
    world.refused(peer, fault)


async def welcome(world: World, message: Welcome) -> None:
    """Answer everybody."""
    with world.off_clock():
        for peer in world.peers:
            await world.send(peer, message)


def _fault(program: Program, peer: str, message: Message) -> str | None:
    if not isinstance(message, Hello) or message.party != peer:
        return f"{peer} did not introduce itself"
    if not _TOKEN.fullmatch(message.run) and (message.run or message.checkpoints):
        return f"{peer} has checkpoints of a run without a proper name"
    return program.refuse(peer, message)
