"""How many batches of embeddings a passive party lets go, whatever makes the parties begin again.

A *release* is a message with the embeddings of a batch of training rows (`Embedding`, `Upload`)
that leaves the party for the first time; bytes that a session sends again after a reconnection are
the same release. They are counted over all attempts, restarts and processes of a run folder, in
the party's own ledger, which has a line for each before it leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.errors import PartyError
from colonnade.job.policy import Policy
from colonnade.party.setup import Setup
from colonnade.policies.view import Role
from colonnade.wire.messages import Embedding, Message, Upload

RELEASES: tuple[type[Message], ...] = (Embedding, Upload)
RETURNS = 3
"""There is room for so many returns at least, where the policy says nothing else."""


@dataclass(frozen=True)
class Allowance:
    """What may leave, and what that allows.

    >>> Allowance(most=120, needed=60, repeated=11).returns
    5
    """

    most: int
    """`policy.releases_max`."""
    needed: int
    """What a run sends that nothing disturbs."""
    repeated: int
    """The most that a return to the newest checkpoint repeats."""

    @property
    def returns(self) -> int:
        """How many returns to a checkpoint fit at the least."""
        return max(0, self.most - self.needed) // self.repeated

    def sentence(self) -> str:
        """For a person who wonders what would leave.

        >>> Allowance(most=120, needed=60, repeated=11).sentence()
        'policy.releases_max lets 120 batches of embeddings leave over all attempts, where an \
undisturbed run sends 60: room for 5 returns to a checkpoint, or more'
        """
        return (
            f"policy.releases_max lets {self.most:,} batches of embeddings leave over all "
            f"attempts, where an undisturbed run sends {self.needed:,}: room for {self.returns:,} "
            "returns to a checkpoint, or more"
        )


def allowance(setup: Setup, policy: Policy) -> Allowance:
    """What a passive party's policy lets it release in a job; by default twice what it needs, and
    room for a few returns at least."""
    method, plan = setup.method, setup.plan
    rounds = setup.view(Role.PASSIVE).rounds
    uploads = -(-plan.rows // plan.batch_size) if method.quorum.uploads else 0
    needed = repeated = rounds + uploads
    if setup.checkpoint_every is not None:
        share = rounds // setup.rounds
        repeated = min(needed, setup.checkpoint_every * share + method.window.most)
    default = needed + max(needed, RETURNS * repeated)
    return Allowance(policy.releases_max or default, needed, repeated)


class Counter:
    """Counts the releases of a run folder, and stops at the most."""

    def __init__(self, allowance: Allowance, before: int = 0) -> None:
        self.allowance = allowance
        self.count = before
        """Those of earlier processes too."""

    def check(self) -> None:
        """Raise what says that no more may leave."""
        if self.count >= self.allowance.most:
            raise PartyError(
                f"policy.releases_max is {self.allowance.most:,}, and so many batches of "
                f"embeddings have left over all attempts, where an undisturbed run sends "
                f"{self.allowance.needed:,}: find out why the parties begin again and again, then "
                "raise policy.releases_max in the party file"
            )

    def release(self, message: Message) -> None:
        """A message is about to leave."""
        if isinstance(message, RELEASES):
            self.check()
            self.count += 1
