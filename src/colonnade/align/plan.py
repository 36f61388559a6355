"""What happens when in an alignment: it follows from the sizes of the parties' sets alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from colonnade.align.garbled import Shape

CHUNK = 8_192
"""The most points of a round."""
WINDOW = 2
"""How many rounds the leading party may be ahead of the answers."""


@dataclass(frozen=True)
class Plan:
    """Who leads, and how the work is divided into rounds.

    >>> plan = Plan({"bank": 100_000, "telco": 20_000})
    >>> plan.lead, plan.followers, plan.rounds, plan.chunk(0)
    ('telco', ('bank',), 3, (0, 6666))
    >>> [plan.tables_due("bank", rounds) for rounds in range(plan.rounds + 1)]
    [0, 0, 1, 2]

    In an update the same party leads, whoever has the fewest ids now, and only what it has added is
    evaluated:

    >>> update = Plan({"bank": 20_002, "telco": 20_005}, {"bank": 2, "telco": 5}, "telco")
    >>> update.lead, update.points, update.rounds, update.chunk(0)
    ('telco', 5, 1, (0, 5))
    """

    sizes: Mapping[str, int]
    """By party, in the order of the job."""
    added: Mapping[str, int] | None = None
    """How many of them are new, by party; all, if it is not given."""
    leading: str | None = None
    """Who leads, if it is settled."""

    @property
    def lead(self) -> str:
        """The party with the fewest ids; of several, the first."""
        return self.leading or min(self.sizes, key=lambda party: self.sizes[party])

    @property
    def points(self) -> int:
        """How many ids of the leading party are evaluated."""
        return (self.added or self.sizes)[self.lead]

    @property
    def followers(self) -> tuple[str, ...]:
        """The other parties."""
        return tuple(party for party in self.sizes if party != self.lead)

    @property
    def rounds(self) -> int:
        """As many as the points need, and at most one table of each party in a round."""
        most = max(self.shape(party).buckets for party in self.followers)
        return max(1, -(-self.points // CHUNK), most)

    def shape(self, party: str) -> Shape:
        """Of a follower's tables."""
        return Shape.of(self.sizes[party])

    def chunk(self, round: int) -> tuple[int, int]:
        """Which of the leading party's new ids a round is about: from where to where."""
        points, rounds = self.points, self.rounds
        return round * points // rounds, (round + 1) * points // rounds

    def tables_due(self, party: str, rounds: int) -> int:
        """How many tables of a follower belong to the first so many rounds."""
        return rounds * self.shape(party).buckets // self.rounds
