"""Learners that learn nothing: their messages have the size of real ones, and that is all.

With them a job shows its clock and its traffic without any data. And a training whose weights do
not depend on the clock can be *clocked again*: what it measured is read from its record, what it
costs on another network is found out anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from colonnade.compress import Occasion, without_memory
from colonnade.data.splits import Split
from colonnade.learn.learner import Aggregate, Reply
from colonnade.learn.outbound import Outbound
from colonnade.learn.schedule import EVALUATION_ROWS
from colonnade.learn.template import Template, some_values
from colonnade.methods.method import Method
from colonnade.policies.view import MOST_MAX, Exchange
from colonnade.protect.secret import KEY_BYTES, Secret
from colonnade.record.calibration import Calibration
from colonnade.record.sizes import Sizes
from colonnade.record.tree import Tree, moved
from colonnade.wire.messages import Gradient, Labels, Packed, Snapshot

TEST = -1
"""Stands for the models that are tried on the test rows."""


@dataclass(frozen=True)
class Record:
    """What a training measured: the loss of every round, and the figures of every evaluation."""

    losses: Sequence[float] = ()
    evaluations: Sequence[Mapping[str, float]] = ()
    test: Mapping[str, float] = field(default_factory=dict)
    """Those of the test rows, at the end."""


class NullLearner:
    """What both roles share: an embedding of the right size, and nothing learnt."""

    rate = 0.0
    device = "cpu"
    prefetches = False
    best = -1
    calibration: Calibration | None = None
    weighed = None

    def __init__(self, me: str, method: Method, sizes: Sizes) -> None:
        self.width = sizes.widths.get(me, 0)
        self.applied: list[int] = []
        """The rounds whose fresh update is done, in that order."""
        self._sizes = sizes
        self._me = me
        self._importance = torch.ones(self.width)
        # Its tensors are the same each time, so that their differences would be nothing.
        self._encoding = without_memory(method.compress.embedding)
        self._protect = method.protect
        self._outbound = Outbound(0, me, Secret(bytes(KEY_BYTES)))
        out = self._outbound.stage("embedding", self._encoding)
        self._embedding = Template(out, self.width, sizes.dtype, method.protect)

    def _nothing(self, *_: Any, **__: Any) -> None:
        """There is nothing to compute, to learn or to remember."""

    rehearse = expect = forward = prefetch = local_backward = end_round = _nothing
    keep = prune = best_weights = _nothing

    def pack(self, exchange: Exchange) -> Packed:
        """An embedding of the right size; which columns matter is known from the first reply on."""
        return self._embedding.packed(exchange, self._importance if self.applied else None)

    def weights(self) -> dict[str, Any]:
        return {}

    def state(self) -> Tree:
        return moved(self._memory(), "cpu", copy=True)

    def restore(self, state: Tree) -> None:
        self._remember(moved(state, "cpu", copy=True))

    def _memory(self) -> dict[str, Tree]:
        applied = np.array(self.applied, np.int64)
        return {"applied": applied, "embedding": self._embedding.state()}

    def _remember(self, state: Tree) -> None:
        self.applied = state["applied"].tolist()
        self._embedding.restore(state["embedding"])


class NullPassive(NullLearner):
    """Sends embeddings of the right size and learns nothing."""

    unpack = learn_labels = NullLearner._nothing

    def choose(self, bits: int) -> None:
        self._embedding.choose(bits)

    def upload(self, start: int, rows: int) -> Packed:
        some = min(rows, self._sizes.rows["train"] - start)
        embedding = torch.zeros(some, self.width, dtype=self._sizes.dtype)
        return self._outbound.stage("upload").pack(embedding)

    room = MOST_MAX

    def backward(self, exchange: Exchange, present: None = None, staleness: int = 0) -> None:
        self.applied.append(exchange.round)

    def evaluate(self, split: Split, round: int, best: bool) -> list[tuple[int, Packed]]:
        rows, encoding = self._sizes.rows[split], self._encoding
        out = self._outbound.stage("evaluation", None if self._sizes.evaluates_plain else encoding)
        template = Template(out, self.width, self._sizes.dtype, self._protect)
        return [
            (start, template.piece(min(EVALUATION_ROWS, rows - start), round))
            for start in range(0, rows, EVALUATION_ROWS)
        ]


class NullActive(NullLearner):
    """Answers with replies of the right size and learns nothing; what it is to have measured is
    in the record."""

    gather = forget = take_upload = NullLearner._nothing

    def __init__(
        self,
        me: str,
        methods: Mapping[str, Method],
        sizes: Sizes,
        record: Record | None = None,
    ) -> None:
        super().__init__(me, methods[me], sizes)
        self._snapshots = methods[me].exchange.sends_snapshots
        self.has_features = self.width > 0
        self._record = record or Record()
        self._captured = -1
        self._gradients = {
            peer: Template(
                self._outbound.stage(
                    "gradient", without_memory(methods[peer].compress.gradient), peer
                ),
                width,
                sizes.dtype,
                self._protect,
            )
            for peer, width in sizes.widths.items()
        }
        self._top = [
            (
                self._outbound.stage("top", without_memory(methods[me].compress.top), str(number)),
                some_values(shape, sizes.dtype),
            )
            for number, shape in enumerate(sizes.top)
        ]

    def labels_message(self) -> Labels | None:
        """Labels of the right size, where the method shares them."""
        if not self._snapshots:
            return None
        rows = self._sizes.rows["train"]
        shape = (rows, 1) if self._sizes.labels.is_floating_point else (rows,)
        out = self._outbound.stage("labels")
        labels = out.pack(torch.zeros(shape, dtype=self._sizes.labels))
        weights = out.pack(torch.zeros(rows, dtype=self._sizes.dtype))
        return Labels(labels, (weights,) if self._sizes.weighted else ())

    def choose(self, peer: str, bits: int) -> None:
        self._gradients[peer].choose(bits)

    def reply(self, exchange: Exchange, peer: str, signal: int) -> Reply:
        if not self._snapshots:
            return Gradient(exchange.round, self._gradients[peer].packed(exchange), signal)
        embeddings, top = exchange.answer
        others = tuple(name for name in self._sizes.widths if name != peer)
        tensors = tuple(embeddings[name] for name in others)
        return Snapshot(exchange.round, others, tensors, top, signal)

    def aggregate(
        self, exchange: Exchange, own: Any, wanted: bool, stale: bool = False
    ) -> Aggregate:
        """The loss on record."""
        losses = self._record.losses
        loss: float | None = losses[exchange.round] if losses else 0.0
        if self._protect.cipher is not None:
            loss = None
        if not self._snapshots or stale:
            return Aggregate(loss)
        embeddings = dict(exchange.packed)
        if self.has_features:
            embeddings[self._me] = self.pack(exchange)
        top = tuple(stage.pack(values, Occasion(exchange.round)) for stage, values in self._top)
        return Aggregate(loss, (embeddings, top))

    def backward(self, own: None, aggregate: Aggregate, round: int) -> None:
        self.applied.append(round)

    def _memory(self) -> dict[str, Tree]:
        return super()._memory() | {
            "captured": self._captured,
            "gradients": {peer: template.state() for peer, template in self._gradients.items()},
            "top": [stage.state() for stage, _ in self._top],
        }

    def _remember(self, state: Tree) -> None:
        super()._remember(state)
        self._captured = state["captured"]
        for peer, template in self._gradients.items():
            template.restore(state["gradients"][peer])
        for (stage, _), saved in zip(self._top, state["top"], strict=True):
            stage.restore(saved)

    def capture(self) -> int:
        """Which evaluation of the record this is."""
        self._captured += 1
        return self._captured

    def recall(self) -> int:
        """The figures of the test rows."""
        return TEST

    def score(
        self, models: int, split: Split, pieces: Mapping[str, Mapping[int, Packed]], round: int
    ) -> dict[str, float]:
        """The figures on record."""
        figures = self._record.test if models == TEST else self._record.evaluations[models]
        wanted = {"full_loss"} if split == "train" else figures.keys() - {"full_loss"}
        return {name: value for name, value in figures.items() if name in wanted}
