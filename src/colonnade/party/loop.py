"""The training loop: what those of both roles share, and how their state is saved and restored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from colonnade.errors import BreachError, PartyError, StoppedError
from colonnade.job.terms import shown
from colonnade.learn.agreement import Agreement
from colonnade.learn.learner import Learner
from colonnade.learn.state import restore_view, view_state
from colonnade.party.checkpoint_rounds import CheckpointRounds
from colonnade.party.kinds import training_kinds
from colonnade.party.outcome import Outcome
from colonnade.party.world import FORWARD, Work, World
from colonnade.policies.view import Exchange, Role
from colonnade.record.checkpoints import Store
from colonnade.record.events import LocalDone
from colonnade.record.history import History
from colonnade.wire.fault import Fault
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import Control, Failure, Message

Handler = Callable[[str, Any], None]
"""Takes in a message of one kind, given its sender."""


class TrainingLoop(ABC):
    """A party's training from its first round, or from a checkpoint, to the end: `run`."""

    learner: Learner
    history: History | None = None

    def __init__(self, world: World, agreement: Agreement, store: Store | None) -> None:
        self.world = world
        self.agreement = agreement
        self.store = store
        """Where to save; a party without one stops at barriers all the same, since others do."""
        self.method = agreement.method
        self.view = agreement.view(world.me)
        role = self.view.role
        kinds = training_kinds(self.method, agreement.job.train, role)
        handlers = self.handlers()
        self._handlers = {
            kind: handler
            for kind, handler in handlers.items()
            if kind in kinds.accepts or issubclass(kind, Control)
        }
        assert self._handlers.keys() >= set(kinds.accepts)
        self.holds = self.method.local.holds(role)
        self.keep = self.method.local.keep
        self.closed = 0
        """The rounds whose holding updates are done."""
        every = agreement.job.train.checkpoint_every
        in_step = self.method.quorum.in_step or role is Role.ACTIVE
        self.checkpoint_rounds = CheckpointRounds(every if in_step else None, agreement.start)
        self.asked_to_leave = False

    @abstractmethod
    async def run(self) -> Outcome:
        """Train to the end."""

    @abstractmethod
    def handlers(self) -> Mapping[type[Message], Handler]:
        """By kind of message, what takes it in; of kinds that the method does not need, too."""

    @abstractmethod
    def waiting_for(self) -> str:
        """For whom the party waits, and for what."""

    async def receive(self) -> None:
        """Wait for one message and take it in."""
        self.take(await self.world.receive(waiting_for=self.waiting_for))

    async def forward(
        self,
        exchange: Exchange,
        stash: bool = False,
        like: object = None,
        kind: Work = FORWARD,
    ) -> object:
        """The own embedding of a batch, at the present weights; None for a label-only party."""
        if not self.learner.width:
            return None
        world = self.world
        began_ns = world.now()
        work = partial(self.learner.forward, exchange.rows, stash, like)
        embedding: object = await world.compute(work, kind, exchange.round)
        exchange.forward_ns = self.view.forward_ns = world.now() - began_ns
        return embedding

    def updated(self, exchange: Exchange, round: int, began_ns: int) -> None:
        """A local update on an exchange is done, which counts as one of this round."""
        world, view = self.world, self.view
        view.updated(exchange, began_ns, world.now())
        done = exchange.updates, view.local, self.learner.weighed
        world.tell(LocalDone(world.me, view.finished_ns, round, *done))

    def take(self, received: tuple[str, Message] | None) -> None:
        """Take in a message, or refuse it in a sentence that names its sender."""
        assert received is not None
        sender, message = received
        handler = self._handlers.get(type(message))
        if handler is None:
            raise not_due(sender, message)
        handler(sender, message)

    def take_failure(self, sender: str, message: Failure) -> None:
        """The sender cannot go on."""
        raise PartyError(f"{sender} failed: {shown(message.reason)}")

    def outcome(self, reason: str, fault: Fault | None = None) -> Outcome:
        """What the party has at this instant."""
        learner = self.learner
        last, best = learner.weights(), learner.best_weights()
        more = self.history, learner.best, learner.calibration
        return Outcome(self.view, last, best, reason, fault, *more)

    async def end(self, best: int, reason: str, fault: Fault | None) -> Outcome:
        """What the party has when all is done; the weights of the best round are known."""

        def pruned() -> Outcome:
            self.learner.prune(best, scored=self.agreement.rounds)
            return self.outcome(reason, fault)

        return await self.world.compute(pruned, Work.SAVE)

    def release(self) -> None:
        """Let go of what may be large. A loop and its parts refer to each other, so that it stays
        in memory until the garbage collector comes."""
        del self.learner, self.view

    def state(self, ledger: Ledger) -> dict[str, Any]:
        """Everything the party needs to go on from a barrier, with the ledger as of then."""
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
        """At a barrier: save, and stop if that was the plan."""
        store = self.store
        if store is not None:
            work = partial(self._store, store, round, ledger)
            await self.world.compute(work, Work.SAVE, round - 1)
        if leaving == self.world.me:
            raise StoppedError(f"stopped as planned after round {round}: {self.world.stopping}")
        if leaving and self.agreement.job.recovery.on_stop == "stop":
            raise StoppedError(f"stopped after round {round}, because {leaving} stopped")

    def _store(self, store: Store, round: int, ledger: Ledger) -> None:
        store.save(round, self.state(ledger))


def not_due(sender: str, message: Message) -> BreachError:
    """A message came that its sender may not send, or not now."""
    kind = type(message).__name__
    return BreachError(sender, f"{sender} sent a message that is not due, of kind {kind}")
