"""What a party program asks of a model: go forward, go backward, measure, remember.

The programs decide *when*; a learner knows *how*. `TorchPassive` and `TorchActive` train torch
modules (`passive.py`, `active.py`). `NullPassive` and `NullActive` (`null.py`) send
messages of the same size and learn nothing, where only the clock or the traffic matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.data.splits import Split
from colonnade.policies.view import Exchange
from colonnade.record.calibration import Calibration
from colonnade.record.events import Quantiles
from colonnade.record.tree import Tree, Weights
from colonnade.wire.messages import Gradient, Labels, Packed, Snapshot, Upload

Rows = NDArray[np.int64]
Reply = Gradient | Snapshot


@dataclass(slots=True)
class Aggregate:
    """What comes out of the top model: the loss, and its derivatives by every embedding."""

    loss: float | None
    """None where nobody can tell it."""
    answer: Any = None
    """What the passive parties get: derivatives by party, or a snapshot; None if not wanted."""
    own: Any = None
    """By the active party's own embedding; None for a label-only party."""


class Learner(Protocol):
    """What both roles can do."""

    width: int
    """How wide this party's embedding is; 0 for a party without features."""
    device: str
    """Where its tensors lie, in torch's words."""
    best: int
    """The best round among those scored; -1 for none."""
    calibration: Calibration | None
    """At an active party that has scored classes: how the scores of the best round become
    probabilities."""

    weighed: Quantiles | None
    """Of the weights that the last update gave its rows; None where it weighed none."""

    @property
    def rate(self) -> float:
        """The learning rate of the last update."""

    def rehearse(self, rows: Rows, part: str) -> None:
        """Forward and backward through a copy of a module (`bottom`, `top`), for the time it takes:
        nothing changes."""

    def expect(self, updates: int) -> None:
        """So many updates would fit into a round, going by the rehearsal."""

    def forward(self, rows: Rows, stash: bool = False, like: Any = None) -> Any:
        """The party's embedding of a batch, ready to go backward.

        With `stash` it can go backward with these weights even after they have changed. With a
        forward pass that it is to be `like`, the same is drawn as in that one (dropout), so that
        the two differ by the weights alone.
        """

    prefetches: bool
    """Whether it gains by knowing a batch before its time."""

    def prefetch(self, rows: Rows) -> None:
        """The batch that the next forward pass is probably of; there is nothing else to do now."""

    def keep(self, round: int) -> None:
        """Remember what `weights` now gives as the weights of a round."""

    def prune(self, best: int, scored: int) -> None:
        """Of the weights remembered up to `scored`, only those of the best round still count."""

    def weights(self) -> Weights:
        """The present weights by name, averaged over the updates where the method says so."""

    def best_weights(self) -> Weights | None:
        """The weights of the best round; None when none was scored."""

    def state(self) -> Tree:
        """A copy of all that it needs to go on from here, as long as nothing is in flight."""

    def restore(self, state: Tree) -> None:
        """Go on from there, in a fresh learner of the same job and party."""


class PassiveLearner(Learner, Protocol):
    """A passive party's bottom model."""

    def pack(self, exchange: Exchange) -> Packed:
        """The embedding of an exchange as it crosses the wire."""

    def choose(self, bits: int) -> None:
        """Write embeddings with so many bits a component from now on, where the encoding has bits
        to choose."""

    def unpack(self, exchange: Exchange, reply: Reply) -> None:
        """Put what a reply says into its exchange; refuses one of the wrong shape."""

    @property
    def room(self) -> int:
        """How many exchanges may be in flight by the memory that they take."""

    def backward(self, exchange: Exchange, present: Any = None, staleness: int = 0) -> None:
        """The fresh update: the reply goes back through the forward pass that made it, or through
        one at the present weights, where the method recomputes. Where it weighs fresh updates,
        the present pass tells how much each row has changed since. `staleness` is how many own
        updates came between."""

    def local_backward(self, forward: Any, exchange: Exchange) -> None:
        """A local update: the cached reply goes back through a new forward pass."""

    def learn_labels(self, message: Labels) -> None:
        """Take the labels, where the job shares them."""

    def upload(self, start: int, rows: int) -> Packed:
        """The embeddings of so many training rows, as they are before the first round."""

    def end_round(self, round: int) -> None:
        """The updates of a round are done: learning-rate schedules move on."""

    def evaluate(self, split: Split, round: int, best: bool) -> list[tuple[int, Packed]]:
        """The embeddings of a whole split, in pieces, each with its first row: with those
        that `weights` gives, or with the best."""


class ActiveLearner(Learner, Protocol):
    """The active party's bottom model (if it has features), top model and labels."""

    has_features: bool

    def labels_message(self) -> Labels | None:
        """The labels for the passive parties, where the method needs them there."""

    def reply(self, exchange: Exchange, peer: str, signal: int) -> Reply:
        """The reply to a peer as it crosses the wire."""

    def choose(self, peer: str, bits: int) -> None:
        """Write gradients to a peer with so many bits a component from now on, where the encoding
        has bits to choose."""

    def gather(self, exchange: Exchange) -> Any:
        """Everybody's embeddings of a batch: from the wire, refusing one of the wrong shape, and
        for who is not in the turn what it last sent."""

    def take_upload(self, peer: str, message: Upload) -> None:
        """Embeddings of training rows from before the first round; which rows, was checked."""

    def aggregate(
        self, exchange: Exchange, own: Any, wanted: bool, stale: bool = False
    ) -> Aggregate:
        """Loss and derivatives at the present weights, without moving them.

        `wanted` asks for an answer to the passive parties; `stale` says that their embeddings
        are cached ones, as in a local update.
        """

    def backward(self, own: Any, aggregate: Aggregate, round: int) -> None:
        """The fresh update of the top model and the party's own bottom model."""

    def local_backward(self, own: Any, aggregate: Aggregate, round: int) -> None:
        """A local update of the top model and the party's own bottom model."""

    def end_round(self, round: int) -> None:
        """The updates of a round are done: learning-rate schedules move on."""

    def forget(self) -> None:
        """Drop the derivatives of an aggregation that is not followed by an update."""

    def capture(self) -> Any:
        """A copy of the models with what `weights` gives, to be scored when all evaluation
        embeddings are here."""

    def recall(self) -> Any:
        """The models with the weights of the best round, to be scored on the test rows."""

    def score(
        self, models: Any, split: Split, pieces: Mapping[str, Mapping[int, Packed]], round: int
    ) -> dict[str, float]:
        """Loss and metrics of captured models, from everybody's evaluation embeddings, which were
        asked for under the number of this round."""
