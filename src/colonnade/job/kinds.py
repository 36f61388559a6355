"""Which kinds of messages cross under a method, beside those that only start and end a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from colonnade.job.train import Train
from colonnade.wire.messages import (
    MESSAGES,
    Embedding,
    Evaluate,
    EvaluationEmbedding,
    Gradient,
    Labels,
    Message,
    Snapshot,
    Status,
    Upload,
)

if TYPE_CHECKING:
    from colonnade.methods.method import Method

KNOWN = frozenset(message.__name__ for message in MESSAGES.values())
"""The names of all kinds."""
CONTROL = frozenset(
    message.__name__ for message in MESSAGES.values() if message.PURPOSE == "control"
)
"""The kinds without which no job can begin, pause or end; they carry nothing of the data."""


class Kinds(NamedTuple):
    """The kinds that passive parties send up and that the active party sends down.

    >>> Kinds(("Embedding",), ("Gradient",)).of("passive")
    (('Embedding',), ('Gradient',))
    """

    up: tuple[str, ...]
    down: tuple[str, ...]

    def of(self, role: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What a party of this role sends, and what it receives."""
        return (self.down, self.up) if role == "active" else (self.up, self.down)


def kinds(method: Method, train: Train) -> Kinds:
    """The kinds that a method needs.

    >>> from colonnade.methods import build
    >>> kinds(build({"name": "fedsgd"}), Train(evaluate_every="never"))
    Kinds(up=('Embedding',), down=('Gradient',))
    >>> kinds(build({"name": "cvfl"}), Train()).down
    ('Labels', 'Snapshot', 'Evaluate')
    """
    shares = method.exchange.sends_snapshots
    up: list[tuple[type[Message], bool]] = [
        (Upload, method.quorum.uploads),
        (Status, method.local.reports),
        (Embedding, True),
        (EvaluationEmbedding, train.evaluation_period() is not None),
    ]
    down: list[tuple[type[Message], bool]] = [
        (Labels, shares),
        (Status, method.local.reports),
        (Snapshot, shares),
        (Gradient, not shares),
        (Evaluate, train.evaluation_period() is not None),
    ]
    return Kinds(_wanted(up), _wanted(down))


def _wanted(rows: list[tuple[type[Message], bool]]) -> tuple[str, ...]:
    return tuple(message.__name__ for message, wanted in rows if wanted)
