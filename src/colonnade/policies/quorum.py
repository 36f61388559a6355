"""Axis *quorum*: when does the active party aggregate?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from colonnade.policies.view import View


class QuorumPolicy(Protocol):
    """Decides when there are embeddings enough."""

    def ready(self, view: View) -> bool:
        """Whether the active party can aggregate `view.round` now."""
        ...


@dataclass(frozen=True)
class Everyone:
    """Every passive party's embedding of the round."""

    def ready(self, view: View) -> bool:
        """All passives have sent this round."""
        return min(view.arrived.values()) >= view.round


def everyone() -> Everyone:
    """The neutral element: wait for all passive parties."""
    return Everyone()
