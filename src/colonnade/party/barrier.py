"""The barrier at which all parties save, led by the active party.

Where all go through the same rounds, a barrier needs no message: nobody sends a batch beyond it
until its own state is saved, and what the active party gets of such batches before it has saved
itself is not counted. Where rounds are each party's own, the active party calls: passive parties
answer when nothing of theirs is in flight, and save when it calls again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.errors import BreachError
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import Barrier, Message

if TYPE_CHECKING:
    from colonnade.party.active import Active


class CheckpointBarrier:
    """The active party's side of the barrier."""

    def __init__(self, program: Active) -> None:
        self._program = program
        self._marks: dict[str, Ledger] = {}
        """The ledger before the first message of each party that belongs after the barrier."""
        self._called = False
        self._answered: set[str] = set()
        self.leaving: list[str] = []
        """Who wants to leave and has no barrier planned for it yet."""

    def mark(self, sender: str, message: Message) -> None:
        """A message of a round beyond the barrier was received: note what the ledger was before it,
        if it is the sender's first."""
        program = self._program
        if sender not in self._marks and program.method.quorum.in_step:
            self._marks[sender] = program.world.ledger.before(sender, type(message))

    def accept(self, sender: str) -> None:
        """A party says that nothing of its own is in flight."""
        if not self._called or sender in self._answered:
            raise BreachError(sender, f"{sender} came to a barrier that nobody had called for")
        self._answered.add(sender)

    async def plan(self) -> None:
        """Plan a barrier for whoever wants to leave.

        Not once the next one is reached: its state is being saved, and who leaves is part of that.
        """
        program = self._program
        if program.view.round >= program.checkpoint_rounds.next:
            return
        if program.world.stopping is not None and not program.asked_to_leave:
            program.asked_to_leave = True
            await self._plan_for(program.world.me)
        elif self.leaving:
            await self._plan_for(self.leaving.pop(0))

    async def _plan_for(self, leaving: str) -> None:
        """Add a barrier that nobody can have passed: as many rounds ahead as may be in flight."""
        program = self._program
        newest = max(program.view.answered.values())
        in_step = program.method.quorum.in_step
        round = newest + 1 + program.method.window.most if in_step else program.view.round + 1
        if round < program.view.rounds:
            program.checkpoint_rounds.add(round, leaving)
            if in_step:
                await self._call(Barrier(round, leaving))

    async def _call(self, barrier: Barrier) -> None:
        for peer in self._program.world.peers:
            await self._program.world.send(peer, barrier)

    def can_advance(self) -> bool:
        """Whether something can be done for the barrier before anything else; where parties are
        still busy with batches of before it, those come first."""
        return not (self._incomplete() and self._program.inbox)

    def missing(self) -> list[str]:
        """Who was called and has not answered."""
        called = self._program.world.peers if self._called else ()
        return [peer for peer in called if peer not in self._answered]

    def _incomplete(self) -> bool:
        return self._called and len(self._answered) < len(self._program.world.peers)

    async def advance(self) -> None:
        """Do the next thing for the barrier: call, wait, or save."""
        program = self._program
        round = program.checkpoint_rounds.next
        if not program.method.quorum.in_step and not self._called:
            # Where rounds are a party's own no number names one instant for all. So they are called
            # twice: to let nothing be in flight, and, when all have said so, to save.
            self._called = True
            await self._call(Barrier(round))
        elif self._incomplete() or program.evaluations.open:
            await program.receive()
        else:
            leaving = program.checkpoint_rounds.advance()
            if self._called:
                await self._call(Barrier(round, leaving))
            await program.save(round, self._ledger(), leaving)
            self._marks.clear()
            self._answered.clear()
            self._called = False

    def _ledger(self) -> Ledger:
        """Without what belongs after the barrier: after a crash it is sent, and counted, again."""
        ledger = self._program.world.ledger.copy()
        for peer, before in self._marks.items():
            ledger.take(before, peer)
        return ledger
