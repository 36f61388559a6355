"""Which kinds of messages a program sends and accepts, beside those that only start and end it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from colonnade.job.train import Train
from colonnade.policies.view import Role
from colonnade.wire.messages import (
    Calibrate,
    Echo,
    Embedding,
    Evaluate,
    EvaluationEmbedding,
    Gradient,
    Labels,
    Message,
    Probe,
    Setting,
    Snapshot,
    Status,
    Upload,
)

if TYPE_CHECKING:
    from colonnade.methods.method import Method


@dataclass(frozen=True)
class Kinds:
    """What crosses in a program, as one role sees it. The dry run shows it, the policy is asked
    about it, and the program takes nothing else."""

    sends: tuple[type[Message], ...]
    accepts: tuple[type[Message], ...]

    def names(self) -> tuple[list[str], list[str]]:
        """Of the kinds that are sent, and of those that are accepted.

        >>> Kinds((Embedding,), (Gradient,)).names()
        (['Embedding'], ['Gradient'])
        """
        return [kind.__name__ for kind in self.sends], [kind.__name__ for kind in self.accepts]


def training_kinds(method: Method, train: Train, role: Role) -> Kinds:
    """The kinds that cross in a training.

    >>> from colonnade.methods import build
    >>> fedsgd, cvfl = build({"name": "fedsgd"}), build({"name": "cvfl"})
    >>> training_kinds(fedsgd, Train(evaluate_every="never"), Role.PASSIVE).names()
    (['Embedding'], ['Gradient'])
    >>> training_kinds(cvfl, Train(), Role.ACTIVE).names()[0]
    ['Labels', 'Snapshot', 'Evaluate']
    """
    snapshots, evaluates = method.exchange.sends_snapshots, train.evaluation_period() is not None
    up = (
        (Echo, method.calibrates),
        (Upload, method.quorum.uploads),
        (Status, method.local.reports),
        (Embedding, True),
        (EvaluationEmbedding, evaluates),
    )
    down = (
        (Labels, snapshots),
        (Calibrate, method.calibrates),
        (Probe, method.calibrates),
        (Setting, method.calibrates),
        (Status, method.local.reports),
        (Snapshot, snapshots),
        (Gradient, not snapshots),
        (Evaluate, evaluates),
    )
    above, below = (tuple(kind for kind, crosses in way if crosses) for way in (up, down))
    return Kinds(above, below) if role is Role.PASSIVE else Kinds(below, above)
