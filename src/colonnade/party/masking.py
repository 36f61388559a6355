"""How parties come to masks that cancel, each time that they begin: before the first round every
passive party sends a key to all the others, through the active one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from colonnade.job.records import Job
from colonnade.methods.method import Method
from colonnade.party.world import World
from colonnade.protect.keys import Credentials, Occasion
from colonnade.protect.masks import Keys, Masks
from colonnade.protect.secret import Randomness
from colonnade.wire.messages import Welcome


def masks_of(
    job: Job,
    me: str,
    method: Method,
    welcome: Welcome,
    credentials: Credentials,
    randomness: Randomness,
) -> Masks | None:
    """A passive party's masks, before it has the others' keys; None where it sends its embeddings
    as they are."""
    if method.protect.sum is None or me == job.active:
        return None
    return Masks(method.protect.sum, me, job.passives, _occasion(welcome), credentials, randomness)


def keys_of(job: Job, method: Method, welcome: Welcome, credentials: Credentials) -> Keys | None:
    """What the active party hands on; None where there are no masks."""
    if method.protect.sum is None:
        return None
    return Keys(job.passives, _occasion(welcome), credentials)


def _occasion(welcome: Welcome) -> Occasion:
    return Occasion(welcome.digest, welcome.run, welcome.attempt)


async def hand_on(world: World, keys: Keys) -> None:
    """At the active party: all keys are here, and everybody gets those of the others."""
    for peer in world.peers:
        for party, message in keys.said.items():
            if party != peer:
                await world.send(peer, message)


@contextmanager
def counted_once(world: World, start: int) -> Iterator[None]:
    """Around an exchange of keys: after a return to a checkpoint it is not counted again, as the
    handshake is not, so that a ledger is that of a run which nothing disturbed."""
    before = world.ledger.copy()
    yield
    if start:
        world.ledger.take(before)


def awaited(keys: Keys) -> str:
    """For whose keys a party waits."""
    return f"{', '.join(keys.missing())}: a key for masks"
