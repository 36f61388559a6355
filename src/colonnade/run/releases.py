"""How many batches of embeddings a passive party lets go, whatever makes the parties begin again.

A *release* is a message with embeddings of rows that leaves the party for the first time: of a
batch of training rows (`Embedding`, `Upload`), or an answer to an evaluation
(`EvaluationEmbedding`). Bytes that a session sends again after a reconnection are the same release.
They are counted over all attempts, restarts and processes of a run folder, in the party's own
ledger, which has a line for each before it leaves.

Batches and evaluations have a bound each. The schedule alone bounds evaluations within an attempt
only: from a checkpoint just before an evaluation, one batch is enough to be asked for it once more,
with all rows and with whatever weights the gradients of that attempt have made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from colonnade.errors import PartyError
from colonnade.learn.schedule import EVALUATION_ROWS
from colonnade.wire.messages import Embedding, EvaluationEmbedding, Message, Upload

if TYPE_CHECKING:
    from colonnade.learn.agreement import Agreement
    from colonnade.learn.participant import Participant
    from colonnade.run.accounting import Accountant

BATCHES: tuple[type[Message], ...] = (Embedding, Upload)
EVALUATIONS: tuple[type[Message], ...] = (EvaluationEmbedding,)
RETURNS = 3
"""There is room for so many returns at least, where the policy says nothing else."""


class Gate(Protocol):
    """What everything passes that is about to leave a party."""

    def release(self, message: Message) -> None:
        """Count a message, or raise what says that it may not leave."""


@dataclass(frozen=True)
class Allowance:
    """What may leave, and what that allows.

    >>> allowed = Allowance(most=120, needed=60, repeated=11, evaluations=4, reevaluated=2)
    >>> allowed.returns, allowed.evaluations_most
    (5, 14)
    """

    most: int
    """`policy.releases_max`: batches of training rows."""
    needed: int
    """What a run sends that nothing disturbs."""
    repeated: int
    """The most that a return to the newest checkpoint repeats."""
    evaluations: int = 0
    """Messages of evaluation embeddings in a run that nothing disturbs."""
    reevaluated: int = 0
    """The most of these that a return repeats."""
    evaluations_max: int | None = None
    """`policy.evaluations_max`, where the party says it."""
    active: str = "the active party"
    """To whom it leaves, and who alone can have the parties begin again."""

    @property
    def returns(self) -> int:
        """How many returns to a checkpoint fit at the least."""
        return max(0, self.most - self.needed) // self.repeated

    @property
    def evaluations_most(self) -> int:
        """What the policy says; else as many times what the schedule has as of batches, and room
        for as many returns."""
        if self.evaluations_max is not None:
            return self.evaluations_max
        in_proportion = self.evaluations * self.most // self.needed
        return max(in_proportion, self.evaluations + self.returns * self.reevaluated)

    def sentence(self) -> str:
        """For a person who wonders what would leave.

        >>> Allowance(most=120, needed=60, repeated=11).sentence()
        'policy.releases_max lets 120 batches of embeddings leave over all attempts, where an \
undisturbed run sends 60: room for 5 returns to a checkpoint, or more'
        """
        by = "" if self.evaluations_max is None else "policy.evaluations_max "
        evaluations = (
            f", and {by}{self.evaluations_most:,} messages of evaluation embeddings, where it "
            f"sends {self.evaluations:,}"
        )
        return (
            f"policy.releases_max lets {self.most:,} batches of embeddings leave over all "
            f"attempts, where an undisturbed run sends {self.needed:,}"
            f"{evaluations if self.evaluations else ''}: room for {self.returns:,} "
            f"return{'s' * (self.returns != 1)} to a checkpoint, or more"
        )


def allowance(party: Participant) -> Allowance:
    """What a passive party's policy lets it release in a job; by default twice what it needs, and
    room for a few returns at least."""
    agreement = party.agreement()
    method, plan = agreement.method, agreement.plan
    every = agreement.job.train.checkpoint_every
    rounds = agreement.view(party.me).rounds
    uploads = -(-plan.rows // plan.batch_size) if method.quorum.uploads else 0
    needed = repeated = rounds + uploads
    again = agreement.rounds
    if every is not None:
        share = rounds // agreement.rounds
        repeated = min(needed, every * share + method.window.most)
        again = every + method.window.most
    default = needed + max(needed, RETURNS * repeated)
    return Allowance(
        party.policy.releases_max or default,
        needed,
        repeated,
        *_evaluations(agreement, again),
        party.policy.evaluations_max,
        party.job.active,
    )


def _evaluations(agreement: Agreement, again: int) -> tuple[int, int]:
    """Messages of evaluation embeddings in all, and the most of them that follow so many rounds."""
    schedule = agreement.schedule
    if not len(schedule):
        return 0, 0
    assert schedule.period is not None
    one = sum(-(-schedule.rows[split] // EVALUATION_ROWS) for split in schedule.splits)
    test = -(-schedule.rows["test"] // EVALUATION_ROWS) if schedule.tests else 0
    needed = len(schedule) * one + test
    # The last round is evaluated whatever the period says.
    return needed, min(needed, (-(-again // schedule.period) + 1) * one + test)


class Counter:
    """Counts the releases of a run folder, and stops at the most."""

    def __init__(
        self,
        allowance: Allowance,
        before: Mapping[str, int] | None = None,
        accountant: Accountant | None = None,
    ) -> None:
        sent = before or {}
        self.allowance = allowance
        self.accountant = accountant
        """Of a party whose embeddings leave with noise."""
        self.count = sum(sent.get(kind.__name__, 0) for kind in BATCHES)
        """Batches, those of earlier processes too."""
        self.evaluations = sum(sent.get(kind.__name__, 0) for kind in EVALUATIONS)

    def check(self) -> None:
        """Raise what says that no more batches may leave."""
        allowed = self.allowance
        if self.count >= allowed.most:
            batches = f"{allowed.most:,}, and so many batches of embeddings"
            raise _exhausted(allowed, batches, allowed.needed)

    def release(self, message: Message) -> None:
        """A message is about to leave."""
        if self.accountant is not None:
            self.accountant.release(message)
        if isinstance(message, BATCHES):
            self.check()
            self.count += 1
        elif isinstance(message, EVALUATIONS):
            allowed = self.allowance
            if self.evaluations >= allowed.evaluations_most:
                most, field = f"{allowed.evaluations_most:,}", "evaluations_max"
                said = f"{most}, and so many messages of evaluation embeddings"
                if allowed.evaluations_max is None:
                    field = "releases_max"
                    said = f"{allowed.most:,}, which lets {most} messages of evaluation embeddings "
                    said += "leave, and so many"
                raise _exhausted(allowed, said, allowed.evaluations, field)
            self.evaluations += 1


def _exhausted(
    allowed: Allowance, what: str, needed: int, field: str = "releases_max"
) -> PartyError:
    return PartyError(
        f"policy.{field} is {what} have left over all attempts, where an undisturbed run "
        f"sends {needed:,}: find out why {allowed.active} has the parties begin again and again, "
        f"then raise policy.{field} in the party file"
    )
