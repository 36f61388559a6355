"""How the active party brings everybody to rest, so that all can save at one point.

Where all go through the same rounds, a rest needs no message: nobody sends a batch beyond it
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


class Rest:
    """The active party's part in a rest."""

    def __init__(self, program: Active) -> None:
        self._program = program
        self._marks: dict[str, Ledger] = {}
        """The ledger before the first message of each party that belongs after the rest."""
        self._called = False
        self._answered: set[str] = set()
        self.leaving: list[str] = []
        """Who wants to leave and has no rest planned for it yet."""

    def mark(self, sender: str, message: Message) -> None:
        """The message just received is of a round beyond the next rest."""
        program = self._program
        if sender not in self._marks and program.method.quorum.in_step:
            self._marks[sender] = program.world.ledger.before(sender, type(message))

    def accept(self, sender: str) -> None:
        """A party says that it has come to rest."""
        if not self._called or sender in self._answered:
            raise BreachError(sender, f"{sender} came to rest, and nobody had called for it")
        self._answered.add(sender)

    async def heed(self) -> None:
        """Plan a rest for whoever wants to leave; not within a rest, whose state is being cut."""
        program = self._program
        if program.view.round >= program.checkpoint_rounds.next:
            return
        if program.world.stopping is not None and not program.asked_to_leave:
            program.asked_to_leave = True
            await self._plan(program.world.me)
        elif self.leaving:
            await self._plan(self.leaving.pop(0))

    async def _plan(self, leaving: str) -> None:
        """Order a rest that nobody can have passed."""
        program = self._program
        newest = max(program.view.answered.values())
        in_step = program.method.quorum.in_step
        round = newest + 1 + program.method.window.most if in_step else program.view.round + 1
        if round < program.view.rounds:
            program.checkpoint_rounds.order(round, leaving)
            if in_step:
                await self._call(Barrier(round, leaving))

    async def _call(self, barrier: Barrier) -> None:
        for peer in self._program.world.peers:
            await self._program.world.send(peer, barrier)

    def comes(self) -> bool:
        """Whether there is something to do for the rest before anything else; where parties are
        still busy with batches of before, those come first."""
        return not (self._lacking() and self._program.inbox)

    def missing(self) -> list[str]:
        """Who was called to rest and has not answered."""
        called = self._program.world.peers if self._called else ()
        return [peer for peer in called if peer not in self._answered]

    def _lacking(self) -> bool:
        return self._called and len(self._answered) < len(self._program.world.peers)

    async def come(self) -> None:
        """Do the next thing for the rest: call, wait, or save."""
        program = self._program
        round = program.checkpoint_rounds.next
        if not program.method.quorum.in_step and not self._called:
            self._called = True
            await self._call(Barrier(round))
        elif self._lacking() or program.evaluations.pending:
            await program.receive()
        else:
            leaving = program.checkpoint_rounds.passed()
            if self._called:
                await self._call(Barrier(round, leaving))
            await program.save(round, self._ledger(), leaving)
            self._marks.clear()
            self._answered.clear()
            self._called = False

    def _ledger(self) -> Ledger:
        ledger = self._program.world.ledger.copy()
        for peer, before in self._marks.items():
            ledger.take(before, peer)
        return ledger
