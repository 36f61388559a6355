"""How parties come to masks that cancel, and to a key for ciphertexts, each time that they begin:
before the first round every passive party sends a key to all the others, through the active one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from colonnade.job.records import Job
from colonnade.methods.method import Method
from colonnade.party.world import Work, World
from colonnade.protect.keys import Credentials, Occasion
from colonnade.protect.masks import Keys, Masks
from colonnade.protect.secret import Randomness
from colonnade.protect.shared_key import PrivateHalf, PublicHalf
from colonnade.wire.messages import Message, Welcome


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
    protect = method.protect
    if protect.sum is None or me == job.active:
        return None
    cipher = None
    if protect.scheme is not None:
        cipher = PrivateHalf(protect.scheme, protect.sum, me, job.passives, randomness)
    common = _occasion(welcome), credentials, randomness, cipher
    return Masks(protect.sum, me, job.passives, *common)


def keys_of(job: Job, method: Method, welcome: Welcome, credentials: Credentials) -> Keys | None:
    """What the active party hands on; None where there are no masks."""
    if method.protect.sum is None:
        return None
    scheme = method.protect.scheme
    cipher = None if scheme is None else PublicHalf(scheme, job.passives)
    return Keys(job.passives, _occasion(welcome), credentials, cipher)


def _occasion(welcome: Welcome) -> Occasion:
    return Occasion(welcome.digest, welcome.run, welcome.attempt)


async def hand_on(world: World, keys: Keys, receive: Callable[[], Awaitable[None]]) -> None:
    """At the active party: when all keys are here, everybody gets those of the others."""
    while keys.missing():
        await receive()
    for party, message in keys.said.items():
        await _to_others(world, party, message)
    cipher = keys.cipher
    if cipher is not None:
        while cipher.said is None:
            await receive()
        await _to_others(world, cipher.first, cipher.said)


async def _to_others(world: World, party: str, message: Message) -> None:
    for peer in world.peers:
        if peer != party:
            await world.send(peer, message)


async def exchange_keys(
    world: World, active: str, masks: Masks, receive: Callable[[], Awaitable[None]]
) -> None:
    """At a passive party: send the own key, and wait for those of the others."""
    await world.send(active, masks.mine)
    while masks.missing():
        await receive()
    cipher = masks.private
    if cipher is not None and cipher.draws:
        await world.send(active, await world.compute(cipher.drawn, Work.ALIGN))
    while cipher is not None and cipher.said is None:
        await receive()


@contextmanager
def counted_once(world: World, start: int) -> Iterator[None]:
    """Around an exchange of keys: after a return to a checkpoint it is not counted again, as the
    handshake is not, so that a ledger is that of a run which nothing disturbed."""
    before = world.ledger.copy()
    yield
    if start:
        world.ledger.take(before)


def awaited(keys: Keys) -> str | None:
    """For whose keys a party waits; None where all are here."""
    if late := keys.missing():
        return f"{', '.join(late)}: a key for masks"
    cipher = keys.cipher
    if cipher is not None and cipher.said is None:
        return f"{cipher.first}: a key for ciphertexts"
    return None
