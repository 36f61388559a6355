"""A party's session: all that happens between the first handshake of a job and the goodbye.

A party introduces itself, runs its programs one after the other, keeps what comes out of each, and
stays until nobody needs it any more. When another party has crashed and come back, all of them
shake hands again, agree on the newest checkpoint that everybody has, and go on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from colonnade.errors import BreachError, PartyError
from colonnade.party.handshake import hear, introduce, welcome
from colonnade.party.program import Program
from colonnade.party.world import Regrouped, Work, World
from colonnade.record.lineage import newest_common
from colonnade.wire.messages import Barrier, Hello, Welcome


async def run_session(world: World, programs: Sequence[Program]) -> list[Any]:
    """Take part in a job until it has ended for everybody; what came out of each program."""
    outcomes: list[Any] = []
    returns: dict[tuple[int, int], int] = {}
    before, met = world.ledger.copy(), False
    while True:
        # A party that begins again is at the first program whose outcome it has not kept. The last
        # one is not over before everybody is done.
        del outcomes[len(programs) - 1 :]
        number = len(outcomes)
        program, agreed = programs[number], False
        try:
            if not met:
                await world.begin()
                world.ledger.take(before)
                met = True
            await _shake_hands(world, program)
            agreed = True
            outcome = await program.run(world)
            await world.compute(partial(program.keep, outcome), Work.SAVE)
            outcomes.append(outcome)
            if len(outcomes) == len(programs):
                await world.part()
                return outcomes
            await _go_on(world, program, len(outcomes))
            before = world.ledger.copy()
        except (Regrouped, BreachError) as news:
            met = False
            if isinstance(news, BreachError):
                world.expel(news)
            place = number, program.start
            # Those who never came to agree have not gone back either.
            returns[place] = returns.get(place, 0) + agreed
            if returns[place] > program.restarts:
                where = f"the end of round {program.start}" if program.start else "the beginning"
                raise PartyError(
                    f"{news}: the parties have gone back to {where} {program.restarts} times "
                    "(recovery.restarts), and are given up"
                ) from None


async def _shake_hands(world: World, program: Program) -> None:
    hello = await world.compute(partial(_introduction, program), Work.SAVE)
    if program.leads:
        heard = await hear(world, hello, program)
        marks = [hello.checkpoints, *(other.checkpoints for other in heard.values())]
        answer = msgspec.structs.replace(
            program.welcome(heard),
            start=newest_common(marks),
            run=hello.run or world.token(),
            attempt=world.token(),
        )
        # Built before anything is said: what cannot be built is found out first.
        await _begin(world, program, answer)
        await welcome(world, answer)
    else:
        answer = await introduce(world, hello, program.terms)
        await _begin(world, program, answer)
    world.agree(answer.start)
    if (store := program.store) is not None and answer.start:
        await world.compute(lambda: program.restore(store.load(answer.start)), Work.SAVE)


async def _go_on(world: World, program: Program, done: int) -> None:
    """The active party is done with everybody: only then may anybody introduce itself for the next
    program, or its Hello would come in the middle of this one."""
    barrier = Barrier(done)
    with world.off_clock():
        if program.leads:
            for peer in world.peers:
                await world.send(peer, barrier)
            return
        (active,) = world.peers
        received = await world.receive(waiting_for=lambda: f"{active}: to go on")
        if received != (active, barrier):
            raise BreachError(active, f"{active} went on before the parties were done")


def _introduction(program: Program) -> Hello:
    hello, store = program.hello, program.store
    if store is None:
        return hello
    return msgspec.structs.replace(hello, run=store.run, checkpoints=store.marks())


async def _begin(world: World, program: Program, answer: Welcome) -> None:
    """Build the program, and note where it begins. Nothing is deleted for that: all have agreed for
    certain only when all go on."""
    await world.compute(partial(program.begin, world, answer), Work.SAVE)
    if program.store is not None:
        begin = partial(program.store.begin, answer.run, answer.attempt, answer.start)
        await world.compute(begin, Work.SAVE)
