"""Axis *exchange*: what comes back to a passive party?"""

from __future__ import annotations

from dataclasses import dataclass


class ExchangePolicy:
    """Says what the active party sends down."""

    sends_snapshots = False
    """Whether a passive party gets what it needs to compute the loss by itself (the others'
    embeddings, the top model and, once, the labels) and not the gradient."""


@dataclass(frozen=True)
class Gradients(ExchangePolicy):
    """The gradient of the loss with respect to the party's own embedding."""


@dataclass(frozen=True)
class Snapshot(ExchangePolicy):
    """Everybody's embeddings and the top model; the party computes the loss by itself."""

    sends_snapshots = True


def snapshot() -> Snapshot:
    """Each passive party gets the others' embeddings, the top model and, once, the labels."""
    return Snapshot()


def gradients() -> Gradients:
    """The neutral element: each passive party gets ∂loss/∂h of its own embedding h."""
    return Gradients()
