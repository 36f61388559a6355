"""The active party's learner for torch modules: bottom model, top model, labels."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from msgspec.structs import astuple
from torch import nn

from colonnade.compress import Occasion, decoder
from colonnade.data.splits import SPLITS, Split
from colonnade.learn.columns import Columns, index_of
from colonnade.learn.contents import Forward
from colonnade.learn.inbound import received_sum
from colonnade.learn.learner import Aggregate, Reply, Rows
from colonnade.learn.participant import as_tensor
from colonnade.learn.passive import TorchLearner
from colonnade.learn.schedule import EVALUATION_ROWS
from colonnade.learn.trainer import evaluating
from colonnade.policies.view import Exchange
from colonnade.policies.weight import quantiles
from colonnade.record.calibration import Calibration, fit
from colonnade.record.tree import Tree
from colonnade.wire.messages import Gradient, Labels, Packed, Upload


class TorchActive(TorchLearner):
    """The active party's models and labels."""

    def __init__(self, *common: Any) -> None:
        super().__init__(*common)
        party, agreement = self._party, self._agreement
        objective, labels = party.objective, party.data.labels
        assert objective is not None and labels is not None
        self.has_features = self._features is not None
        self._me, self._order = party.me, tuple(agreement.present)
        self._widths = {peer: w for peer, w in agreement.present.items() if peer != party.me}
        self._objective, self._metrics = objective, party.metrics
        # As the loss takes them.
        self._labels = {
            split: objective.prepare(_tensor(labels.part(split)), party.dtype).to(self._device)
            for split in SPLITS
        }
        self._targets, weights = Columns(self._labels["train"]), labels.weights
        self._sample_weights = (
            None if weights is None else as_tensor(weights, party.dtype, self._device)
        )
        rows = len(self._labels["train"])
        self._tables = {
            peer: torch.zeros(rows, width, dtype=party.dtype, device=self._device)
            for peer, width in self._widths.items()
            if self._method.quorum.remembers
        }
        """Every training row's last embedding of every passive party."""
        self._out = {
            peer: self._outbound.stage("gradient", agreement.methods[peer].compress.gradient, peer)
            for peer in self._widths
        }
        """By party, what its gradients pass."""
        self._in = {
            peer: decoder(agreement.methods[peer].compress.embedding) for peer in self._widths
        }
        """By party, what its embeddings are read with."""
        self._fitted: Calibration | None = None
        """Of the round that was scored last."""

    def _memory(self) -> dict[str, Tree]:
        encoders = {peer: stage.state() for peer, stage in self._out.items()}
        fitted = None if self.calibration is None else astuple(self.calibration)
        decoders = {peer: reader.state() for peer, reader in self._in.items()}
        own = {"tables": self._tables, "encoders": encoders, "decoders": decoders}
        return super()._memory() | own | {"calibration": fitted}

    def _remember(self, state: Tree) -> None:
        super()._remember(state)
        for peer, table in self._tables.items():
            table.copy_(state["tables"][peer])
        for peer, stage in self._out.items():
            stage.restore(state["encoders"][peer])
        decoders = state.get("decoders", {})
        for peer, reader in self._in.items():
            reader.restore(decoders.get(peer))
        fitted = state.get("calibration")
        self.calibration = None if fitted is None else Calibration(*fitted)

    def forward(
        self, rows: Rows, stash: bool = False, like: Forward | None = None
    ) -> Forward | None:
        """The same; and the labels, which are needed as soon as the others' embeddings are here."""
        self._targets.prefetch(rows)
        return super().forward(rows, stash, like)

    def _rehearse_top(self, top: nn.Module, rows: int) -> None:
        widths = {**self._widths, self._me: self.width}
        embeddings = [
            torch.zeros(
                rows, widths[name], dtype=self._party.dtype, device=self._device
            ).requires_grad_()
            for name in self._order
        ]
        top(embeddings).sum().backward()

    def labels_message(self) -> Labels | None:
        """Gradients need no labels at the other end."""
        return None

    def reply(self, exchange: Exchange, peer: str, signal: int) -> Reply:
        use, labels = Occasion(exchange.round, exchange.rows), None
        if self._method.protect.gradient is not None:
            labels = self._labels["train"].index_select(0, index_of(exchange.rows, self._device))
        packed = self._out[peer].pack(exchange.answer[peer], use, labels)
        return Gradient(exchange.round, packed, signal)

    def choose(self, peer: str, bits: int) -> None:
        self._out[peer].choose(bits)

    def gather(self, exchange: Exchange) -> dict[str, torch.Tensor]:
        """What came, decoded; and what the table has of those from whom nothing came."""
        rows = exchange.rows
        if self._method.protect.sum is not None:
            return self._added(exchange.packed, exchange.round, rows)
        came = {
            peer: self._of_rows(
                "embedding", packed, exchange, self._widths[peer], self._in[peer], peer, peer
            )
            for peer, packed in exchange.packed.items()
        }
        if not self._method.quorum.remembers:
            return came
        index = index_of(rows, self._device)
        for peer, embedding in came.items():
            self._tables[peer][index] = embedding
        return {peer: table.index_select(0, index) for peer, table in self._tables.items()}

    def _added(
        self, packed: Mapping[str, Packed], round: int, rows: Rows, split: Split = "train"
    ) -> dict[str, torch.Tensor]:
        """What came under masks: the sum stands for the first party's embedding, and zeros for the
        others'. The top model sees them added, and by each of them its derivative is the same."""
        protection = self._method.protect.sum
        assert protection is not None
        first, *others = self._widths
        shape = len(rows), self._widths[first]
        total = received_sum(packed, shape, self._party.dtype, protection).to(self._device)
        self._note("", "sum", round, rows, total, split)
        return {first: total} | {peer: torch.zeros_like(total) for peer in others}

    def take_upload(self, peer: str, message: Upload) -> None:
        rows = math.prod(message.tensor.shape[:1])
        embedding = self._received(message.tensor, (rows, self._widths[peer]), peer)
        self._tables[peer][message.start : message.start + rows] = embedding
        self._note(peer, "upload", 0, np.arange(message.start, message.start + rows), embedding)

    def aggregate(
        self, exchange: Exchange, own: Forward | None, wanted: bool, stale: bool = False
    ) -> Aggregate:
        """Top model, loss, and its derivatives by every embedding; what others get is never
        weighed."""
        factors, answer, self.weighed = None, None, None
        if stale and self._method.weight.weighs:
            answer = self._derivatives(own, exchange)
            factors = self._row_weights(exchange.answer, answer)
            self.weighed = quantiles(factors)
        leaves = self._leaves(own, exchange, wanted)
        loss = self._loss(exchange, self._predict(self._modules["top"], leaves), factors)
        if loss.requires_grad:
            torch.autograd.backward(loss)
        if wanted and answer is None:
            answer = {peer: _derivative(leaves[peer]) for peer in self._widths}
        return Aggregate(
            loss=loss.item(),
            answer=answer if wanted else None,
            own=None if own is None else _derivative(leaves[self._me]),
        )

    def _derivatives(self, own: Forward | None, exchange: Exchange) -> dict[str, torch.Tensor]:
        """Of the loss by every passive party's embedding, at the present weights."""
        leaves = self._leaves(own, exchange, True)
        loss = self._loss(exchange, self._predict(self._modules["top"], leaves))
        now = torch.autograd.grad(loss, [leaves[peer] for peer in self._widths])
        return dict(zip(self._widths, now, strict=True))

    def _row_weights(
        self, then: Mapping[str, torch.Tensor], now: Mapping[str, torch.Tensor]
    ) -> torch.Tensor:
        """How much the derivatives of an exchange still agree with those of now, row by row: those
        that were sent or, as long as the reply is owed, those of the fresh update."""
        stale, current = (
            torch.cat([of[peer] for peer in self._widths], dim=1) for of in (then, now)
        )
        return self._method.weight.rows(stale, current)

    def _leaves(
        self, own: Forward | None, exchange: Exchange, wanted: bool
    ) -> dict[str, torch.Tensor]:
        """The graph is cut at every embedding, so that derivatives stop there."""
        leaves = {
            peer: tensor.detach().requires_grad_(wanted) for peer, tensor in exchange.others.items()
        }
        if own is not None:
            leaves[self._me] = own.embedding.detach().requires_grad_()
        return leaves

    def _loss(
        self, exchange: Exchange, prediction: torch.Tensor, factors: torch.Tensor | None = None
    ) -> torch.Tensor:
        labels, weights = self._targets.batch(exchange.rows), self._sample_weights
        if weights is not None:
            weights = weights.index_select(0, index_of(exchange.rows, self._device))
        return self._objective(prediction, labels, weights, factors)

    def _predict(self, top: nn.Module, embeddings: Mapping[str, torch.Tensor]) -> torch.Tensor:
        ordered = [embeddings[name] for name in self._order if name in embeddings]
        with self._random.own():
            prediction: torch.Tensor = top(ordered)
        return prediction

    def backward(self, own: Forward | None, aggregate: Aggregate, round: int) -> None:
        """The top model has its gradients from `aggregate`; the bottom model gets them here."""
        self._trainer.begin_round()
        self.local_backward(own, aggregate, round)

    def local_backward(self, own: Forward | None, aggregate: Aggregate, round: int) -> None:
        """One step of top and bottom model."""
        if own is not None and own.embedding.requires_grad:
            torch.autograd.backward(own.embedding, aggregate.own)
        self._trainer.step(round)

    def forget(self) -> None:
        self._trainer.forget()

    def prune(self, best: int, scored: int) -> None:
        """The calibration that counts is that of the best round: the one scored last, if it is
        new."""
        if best != self.best:
            self.calibration = self._fitted
        super().prune(best, scored)

    def capture(self) -> dict[str, nn.Module]:
        return {part: copy.deepcopy(module) for part, module in self._final.items()}

    def score(
        self,
        models: dict[str, nn.Module],
        split: Split,
        pieces: Mapping[str, Mapping[int, Packed]],
        round: int,
    ) -> dict[str, float]:
        """Predict a whole split piece by piece, then measure."""
        labels = self._labels[split]
        predictions = []
        for start in range(0, len(labels), EVALUATION_ROWS):
            rows = np.arange(start, min(start + EVALUATION_ROWS, len(labels)))
            came = {peer: own[start] for peer, own in pieces.items()}
            embeddings = self._evaluated(came, round, rows, split)
            if self.has_features:
                embeddings[self._me] = self._embed(models["bottom"], split, start)
            with evaluating(models["top"]):
                predictions.append(self._predict(models["top"], embeddings))
        prediction = torch.cat(predictions)
        if split == "train":
            weights = self._sample_weights
            return {"full_loss": self._objective(prediction, labels, weights).item()}
        scores, truth = prediction.double().cpu().numpy(), labels.view(-1).cpu().numpy()
        measured = {f"{split}_loss": self._objective(prediction, labels).item()}
        if split == self._agreement.schedule.chosen_on and self._objective.task != "regression":
            self._fitted = fit(scores, truth, split)
        if np.isfinite(scores).all():
            measured |= {metric.name: metric.measure(scores, truth) for metric in self._metrics}
        return measured

    def _evaluated(
        self, packed: Mapping[str, Packed], round: int, rows: Rows, split: Split
    ) -> dict[str, torch.Tensor]:
        """A piece of everybody's answers to an evaluation."""
        if self._method.protect.sum is not None:
            return self._added(packed, round, rows, split)
        came = {}
        for peer, each in packed.items():
            due = self._due("evaluation", peer, round)
            came[peer] = self._received(each, (len(rows), self._widths[peer]), peer, due, False)
            self._note(peer, "evaluation", round, rows, came[peer], split)
        return came


def _derivative(leaf: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


def _tensor(array: Any) -> torch.Tensor:
    return torch.as_tensor(np.ascontiguousarray(array))
