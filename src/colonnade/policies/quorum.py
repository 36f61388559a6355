"""Axis *quorum*: when does the active party aggregate, and whose embeddings are then fresh?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from colonnade.errors import RequestError
from colonnade.policies.view import View

Turn = tuple[int, tuple[str, ...]]
"""A round, and the passive parties whose embeddings of it are aggregated and answered."""


class QuorumPolicy:
    """Decides when there are enough embeddings to aggregate; by itself it waits for those of all
    passive parties."""

    remembers = False
    """Whether the active party keeps every row's last embedding, for those not in a turn."""
    in_step = True
    """Whether all parties go through the same rounds."""

    @property
    def uploads(self) -> bool:
        """Whether the passive parties begin by sending the embeddings of all training rows."""
        return False

    def per_round(self, passives: int) -> int:
        """How many aggregations make a round of the job."""
        return 1

    def turn(self, view: View) -> Turn | None:
        """What the active party can aggregate now."""
        for newest in view.arrived.values():
            if newest < view.round:
                return None
        return view.round, tuple(view.arrived)

    def expected(self, view: View) -> int | None:
        """The round of the next turn, where that is known beforehand."""
        return view.round


@dataclass(frozen=True)
class Everyone(QuorumPolicy):
    """Every passive party's embedding of the round."""


@dataclass(frozen=True)
class Anyone(QuorumPolicy):
    """The embedding of one passive party, whoever is first; for the others, what they last sent
    of the same rows."""

    start: Literal["zeros", "upload"] = "zeros"
    remembers = True
    in_step = False

    @property
    def uploads(self) -> bool:
        """The table of last embeddings begins with zeros, or with everybody's own."""
        return self.start == "upload"

    def per_round(self, passives: int) -> int:
        return passives

    def turn(self, view: View) -> Turn | None:
        for peer, round in view.waiting:
            return round, (peer,)
        return None

    def expected(self, view: View) -> int | None:
        """Known only where there is one passive party."""
        if len(view.answered) > 1:
            return None
        return next(iter(view.answered.values())) + 1


def everyone() -> Everyone:
    """The neutral element: wait for all passive parties."""
    return Everyone()


def anyone(start: Literal["zeros", "upload"] = "zeros") -> Anyone:
    """Aggregate for each passive party by itself, as VAFL does.

    >>> anyone("upload").uploads
    True
    """
    if start not in ("zeros", "upload"):
        raise RequestError(f"start is '{start}': the table begins with zeros, or with an upload")
    return Anyone(start)
