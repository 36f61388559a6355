"""What a party has at the end of a job."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.policies.view import View
from colonnade.record.calibration import Calibration
from colonnade.record.history import History
from colonnade.record.tree import Weights
from colonnade.wire.fault import Fault

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
    best: int = -1
    """The best round; -1 where none was scored."""
    calibration: Calibration | None = None
    """At an active party that has scored classes: how scores become probabilities."""
