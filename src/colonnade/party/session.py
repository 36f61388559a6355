"""A party's part in a job from its first word to its last, whatever happens on the way.

A party greets, runs its program, keeps the result, and stays until nobody needs it any more. When
another party has crashed and come back, all of them greet again, agree on the newest checkpoint
that everybody has, and go on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from colonnade.errors import BreachError, PartyError
from colonnade.job.bounds import WIDTH_MAX
from colonnade.party.active import Active
from colonnade.party.handshake import hear, introduce, welcome
from colonnade.party.outcome import Outcome
from colonnade.party.passive import Passive
from colonnade.party.world import Regrouped, Work, World
from colonnade.record.checkpoints import Store
from colonnade.record.lineage import newest_common
from colonnade.wire.messages import Hello, Welcome


@dataclass
class Seat:
    """A party's place in a job."""

    hello: Hello
    """How it introduces itself, but for its checkpoints."""
    terms: Mapping[str, str]
    """The job as it understands it."""
    build: Callable[[World, Welcome], Active | Passive]
    """Its program, as it is before the first round."""
    answer: Callable[[Mapping[str, Hello]], Welcome] | None = None
    """At the active party: what to tell everybody, once all have said who they are."""
    store: Store | None = None
    conclude: Callable[[Outcome], None] = lambda outcome: None
    """Keeps the result, before the party says that it needs nobody any more."""
    settled: Callable[[], None] = lambda: None
    """Notes that the job is over for everybody: nothing is left to do after a crash."""
    goes_on: Callable[[int], None] = lambda start: None
    """Hears from which checkpoint the party goes on, each time that it has greeted."""
    restarts: int = 100
    """The most returns to one and the same checkpoint."""
    width_max: int = WIDTH_MAX
    """The widest embedding that another party may announce, unless the job says how wide it is."""
    program: Active | Passive | None = None

    def seated(self, world: World, welcome: Welcome) -> Active | Passive:
        """Its program; one that has not begun if it has not come to that."""
        if self.program is None:
            self.program = self.build(world, welcome)
        return self.program

    def introduction(self) -> Hello:
        """How it introduces itself, with its checkpoints."""
        if self.store is None:
            return self.hello
        return msgspec.structs.replace(
            self.hello, run=self.store.run, checkpoints=self.store.marks()
        )


async def attend(world: World, seat: Seat) -> Outcome:
    """Take part in a job until it has ended for everybody."""
    returns: dict[int, int] = {}
    while True:
        agreed = False
        try:
            await world.begin()
            world.ledger.clear()
            program = await _greet(world, seat)
            agreed = True
            outcome = await program.run()
            await world.compute(partial(seat.conclude, outcome), Work.SAVE)
            await world.part(seat.settled)
            return outcome
        except (Regrouped, BreachError) as news:
            if isinstance(news, BreachError):
                world.expel(news)
            start = 0 if seat.program is None else seat.program.agreement.start
            # Those who never came to agree have not gone back either.
            returns[start] = returns.get(start, 0) + agreed
            if returns[start] > seat.restarts:
                where = f"the end of round {start}" if start else "the beginning"
                raise PartyError(
                    f"{news}: the parties have gone back to {where} {seat.restarts} times "
                    "(recovery.restarts), and are given up"
                ) from None


async def _greet(world: World, seat: Seat) -> Active | Passive:
    hello = await world.compute(seat.introduction, Work.SAVE)
    if seat.answer is None:
        answer = await introduce(world, hello, seat.terms)
        program = await _seated(world, seat, answer)
    else:
        heard = await hear(world, hello, seat.terms, seat.width_max)
        marks = [hello.checkpoints, *(other.checkpoints for other in heard.values())]
        answer = msgspec.structs.replace(
            seat.answer(heard),
            start=newest_common(marks),
            run=hello.run or world.token(),
            attempt=world.token(),
        )
        # Built before anything is said: what cannot be built is found out first.
        program = await _seated(world, seat, answer)
        assert isinstance(program, Active)
        await welcome(world, answer, program.learner.labels_message())
    world.agree()
    seat.goes_on(answer.start)
    if seat.store is not None and answer.start:
        restore = partial(_restore, seat.store, program, answer.start)
        await world.compute(restore, Work.SAVE)
    return program


async def _seated(world: World, seat: Seat, answer: Welcome) -> Active | Passive:
    """The program, and where it begins. Nothing is deleted for that: all have agreed for certain
    only when all go on."""
    program = await world.compute(partial(seat.build, world, answer), Work.SAVE)
    seat.program = program
    if seat.store is not None:
        begin = partial(seat.store.begin, answer.run, answer.attempt, answer.start)
        await world.compute(begin, Work.SAVE)
    return program


def _restore(store: Store, program: Active | Passive, start: int) -> None:
    program.restore(store.load(start))
