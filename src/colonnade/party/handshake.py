"""The first words between parties: nothing of the data leaves before both sides know that they
mean the same job, and from which round they go on. Greeting is off the clock."""

from __future__ import annotations

import re
from collections.abc import Mapping

from colonnade.errors import BreachError, RefusedError
from colonnade.job.terms import differences
from colonnade.party.membership import strangers
from colonnade.party.world import World
from colonnade.record.checkpoints import ANEW
from colonnade.wire.messages import Failure, Hello, Labels, Message, Terms, Welcome

_TOKEN = re.compile("[0-9a-f]{32}")


async def introduce(world: World, hello: Hello, terms: Mapping[str, str]) -> Welcome:
    """A passive party's greeting: say who one is, and hear that the job is the same."""
    (active,) = world.peers
    with world.off_clock():
        await world.send(active, hello)
        received = await world.receive(waiting_for=lambda: f"{active}: a welcome")
        assert received is not None
        message = received[1]
        if isinstance(message, Failure):
            raise RefusedError(f"{active} refused: {message.reason}")
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


async def hear(
    world: World, mine: Hello, terms: Mapping[str, str], width_max: int
) -> dict[str, Hello]:
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
                world.refused(peer, message.reason)
            elif isinstance(message, Hello) and message.digest != mine.digest:
                await world.send(peer, Terms(dict(terms)))
            elif (fault := _fault(mine, terms, peer, message, width_max)) is not None:
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


async def welcome(world: World, message: Welcome, labels: Labels | None) -> None:
    """Answer everybody, with the labels where the method shares them and they are not known."""
    with world.off_clock():
        for peer in world.peers:
            await world.send(peer, message)
            if labels is not None and message.start == 0:
                await world.send(peer, labels)


def _fault(
    mine: Hello, terms: Mapping[str, str], peer: str, message: Message, width_max: int
) -> str | None:
    if not isinstance(message, Hello) or message.party != peer:
        return f"{peer} did not introduce itself"
    if not _TOKEN.fullmatch(message.run) and (message.run or message.checkpoints):
        return f"{peer} has checkpoints of a run without a proper name"
    if _rows(message) != _rows(mine):
        return f"{peer} has {_rows(message)}, {mine.party} has {_rows(mine)}: align the rows first"
    if message.fingerprint != mine.fingerprint:
        return (
            f"{peer} and {mine.party} have as many rows, but other ids or another order: "
            "align the rows first"
        )
    declared = terms.get(f"parties.{peer}.width")
    if declared is not None and declared != str(message.width):
        return (
            f"the embedding of {peer} is {message.width} wide, and may be {declared}: change its "
            f"model, or parties.{peer}.width in the job"
        )
    if declared is None and not 1 <= message.width <= width_max:
        return (
            f"the embedding of {peer} is {message.width} wide, and {mine.party} takes 1 to "
            f"{width_max} (limits.message_bytes, limits.table_bytes): change its model, or raise "
            f"the limits at {mine.party}"
        )
    return None


def _rows(hello: Hello) -> str:
    counts = f"{hello.rows} training, {hello.validation_rows} validation"
    return f"{counts} and {hello.test_rows} test rows"
