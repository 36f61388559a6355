"""What a party program starts from and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.data.batches import BatchPlan
from colonnade.methods.method import Method
from colonnade.packed import NoList
from colonnade.party.schedule import Schedule
from colonnade.policies.view import ACTION, Role, View
from colonnade.record.checkpoints import Store
from colonnade.record.history import History
from colonnade.record.tree import Weights
from colonnade.wire.fault import Fault


@dataclass(frozen=True)
class Setup:
    """One party's part of a job, read and ready."""

    method: Method
    plan: BatchPlan
    rounds: int
    parties: int
    """How many parties hold a part of the model."""
    schedule: Schedule
    """Which evaluations there are."""
    agreed: int = 1
    """How many updates on an exchange were agreed on beforehand."""
    checkpoint_every: int | None = None
    """Rounds from one rest to the next, at which the parties save what they have."""
    store: Store | None = None
    """Where to save it; a party without one rests all the same, since the others do."""
    start: int = 0
    """The checkpoint from which the party goes on; 0 is the beginning."""
    stops_together: bool = False
    """Whether all parties stop when one does as planned."""
    logs: bool = True
    """Whether somebody asks afterwards what the party did and when."""

    def view(self, role: Role) -> View:
        """A party's state before its first round.

        Where each passive party is answered by itself, a fast one may do the rounds of others.
        """
        share = self.method.quorum.per_round(self.parties - 1)
        rounds, per_round = (
            (self.rounds, share) if role is Role.ACTIVE else (self.rounds * share, 1)
        )
        view = View(role, rounds, self.plan.per_epoch, self.parties, per_round, agreed=self.agreed)
        if not self.logs:
            view.actions = NoList(ACTION)
        return view


REASONS = ("end", "target", "patience", "diverged")
"""Why a job may end."""


@dataclass(frozen=True)
class Outcome:
    """What a party has at the end."""

    view: View
    """Its state: how far it came, what it did."""
    weights: Weights
    best_weights: Weights | None
    reason: str
    """Why the job ended: `end`, `target`, `patience` or `diverged`."""
    fault: Fault | None = None
    """What was wrong, where it diverged."""

    history: History | None = None
    """What the active party has recorded."""
