"""The first words between parties: nothing of the data leaves before both sides know that they
mean the same job. Greeting is off the clock."""

from __future__ import annotations

from colonnade.errors import PartyError
from colonnade.wire.messages import Failure, Hello, Labels, Message
from colonnade.world.base import World


async def introduce(world: World, hello: Hello) -> None:
    """A passive party's greeting: say who one is, and hear that the job is the same."""
    (active,) = world.peers
    with world.off_clock():
        await world.send(active, hello)
        received = await world.receive(waiting_for=lambda: f"{active}'s Hello")
    assert received is not None
    message = received[1]
    if isinstance(message, Failure):
        raise PartyError(f"{active} refused: {message.reason}")
    if not isinstance(message, Hello):
        raise PartyError(f"{active} began with {type(message).__name__} and no Hello")
    if message.digest != hello.digest:
        raise PartyError(f"{active} has another job: compare the job files")


async def welcome(world: World, hello: Hello, labels: Labels | None) -> None:
    """The active party's greeting: hear everybody, then answer, with the labels where the method
    shares them."""
    waiting = list(world.peers)
    with world.off_clock():
        while waiting:
            received = await world.receive(waiting_for=lambda: f"the Hello of {', '.join(waiting)}")
            assert received is not None
            peer, message = received
            fault = _fault(hello, peer, message)
            if fault is not None:
                for other in world.peers:
                    await world.send(other, Failure(fault))
                raise PartyError(fault)
            waiting.remove(peer)
        for peer in world.peers:
            await world.send(peer, hello)
            if labels is not None:
                await world.send(peer, labels)


def _fault(mine: Hello, peer: str, message: Message) -> str | None:
    if not isinstance(message, Hello) or message.party != peer:
        return f"{peer} did not introduce itself"
    if message.digest != mine.digest:
        return f"{peer} has another job than {mine.party}: compare the job files"
    if (message.rows, message.test_rows) != (mine.rows, mine.test_rows):
        return (
            f"{peer} has {message.rows} training and {message.test_rows} held-out rows, "
            f"{mine.party} has {mine.rows} and {mine.test_rows}: align the rows first"
        )
    return None
