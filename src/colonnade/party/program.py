"""What both programs share: their state, and how it is saved and found again."""

from __future__ import annotations

from typing import Any

from colonnade.errors import StoppedError
from colonnade.learn.agreement import Agreement
from colonnade.learn.learner import Learner
from colonnade.learn.state import restore_view, view_state
from colonnade.party.checkpoint_rounds import CheckpointRounds
from colonnade.party.outcome import Outcome
from colonnade.party.world import Work, World
from colonnade.policies.view import Role
from colonnade.record.checkpoints import Store
from colonnade.record.history import History
from colonnade.wire.fault import Fault
from colonnade.wire.ledger import Ledger


class Program:
    """A party's program: what it knows, and where it rests."""

    learner: Learner
    history: History | None = None

    def __init__(self, world: World, agreement: Agreement, store: Store | None) -> None:
        self.world = world
        self.agreement = agreement
        self.store = store
        """Where to save; a party without one comes to rest all the same, since the others do."""
        self.method = agreement.method
        self.view = agreement.view(world.me)
        role = self.view.role
        self.holds = self.method.local.holds(role)
        self.closed = 0
        """The rounds whose holding updates are done."""
        every = agreement.job.train.checkpoint_every
        in_step = self.method.quorum.in_step or role is Role.ACTIVE
        self.checkpoint_rounds = CheckpointRounds(every if in_step else None, agreement.start)
        self.asked_to_leave = False

    def outcome(self, reason: str, fault: Fault | None = None) -> Outcome:
        """What the party has at this instant."""
        last, best = self.learner.weights(), self.learner.best_weights()
        return Outcome(self.view, last, best, reason, fault, self.history)

    async def end(self, best: int, reason: str, fault: Fault | None) -> Outcome:
        """What the party has when all is done; the weights of the best round are known."""

        def settled() -> Outcome:
            self.learner.prune(best, scored=self.agreement.rounds)
            return self.outcome(reason, fault)

        return await self.world.compute(settled, Work.SAVE)

    def state(self, ledger: Ledger) -> dict[str, Any]:
        """Everything the party needs to go on from here, at rest."""
        return {
            "view": view_state(self.view),
            "learner": self.learner.state(),
            "closed": self.closed,
            "ledger": [dict(entry) for entry in ledger.entries()],
        }

    def restore(self, state: Any) -> None:
        """Go back to what was saved."""
        restore_view(self.view, state["view"], self.learner.device)
        self.learner.restore(state["learner"])
        self.closed = state["closed"]
        self.world.ledger.take(Ledger.of(state["ledger"]))

    async def save(self, round: int, ledger: Ledger, leaving: str) -> None:
        """At rest: save, and stop if that was the plan."""
        store = self.store
        if store is not None:
            await self.world.compute(lambda: store.save(round, self.state(ledger)), Work.SAVE)
        if leaving == self.world.me:
            raise StoppedError(f"stopped as planned after round {round}: {self.world.stopping}")
        if leaving and self.agreement.job.recovery.on_stop == "stop":
            raise StoppedError(f"stopped after round {round}, because {leaving} stopped")
