"""Axis *exchange*: what comes back to a passive party?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class ExchangePolicy(Protocol):
    """Says what the active party sends down."""

    @property
    def shares_labels(self) -> bool:
        """Whether passive parties need the labels to use what they get."""
        ...


@dataclass(frozen=True)
class Gradients:
    """The gradient of the loss with respect to the party's own embedding."""

    shares_labels = False


@dataclass(frozen=True)
class Snapshot:
    """Everybody's embeddings and the top model; the party computes the loss by itself."""

    shares_labels = True


def snapshot() -> Snapshot:
    """Each passive party gets the others' embeddings, the top model and, once, the labels."""
    return Snapshot()


def gradients() -> Gradients:
    """The neutral element: each passive party gets ∂loss/∂h of its own embedding h."""
    return Gradients()
