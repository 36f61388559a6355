"""The active party's learner for torch modules: bottom model, top model, labels."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from colonnade.party.learner import Aggregate, Rows, Split
from colonnade.party.objective import Objective
from colonnade.party.torch_passive import EVALUATION_ROWS, Forward, TorchLearner
from colonnade.party.trainer import evaluating
from colonnade.policies.view import Exchange
from colonnade.track.metrics import Metric
from colonnade.wire.messages import Packed


class TorchActive(TorchLearner):
    """The active party's models and labels; `order` is the parties in the order of the job."""

    def __init__(
        self,
        *common: Any,
        order: Sequence[str],
        me: str,
        widths: Mapping[str, int],
        objective: Objective,
        labels: Mapping[Split, torch.Tensor],
        sample_weights: torch.Tensor | None,
        metrics: Sequence[Metric],
    ) -> None:
        super().__init__(*common)
        self.has_features = self._features is not None
        self._order = order
        self._me = me
        self._widths = widths
        self._objective = objective
        self._labels = labels
        self._sample_weights = sample_weights
        self._metrics = metrics

    def pack(self, gradient: torch.Tensor) -> Packed:
        """A reply in the method's encoding."""
        return self._method.compress.gradient.encode(gradient)

    def unpack(self, packed: Packed, rows: Rows, peer: str) -> torch.Tensor:
        """A peer's embedding of a batch."""
        return self._received(packed, (len(rows), self._widths[peer]), peer)

    def aggregate(
        self,
        rows: Rows,
        own: Forward | None,
        peers: Mapping[str, torch.Tensor],
        want_replies: bool,
    ) -> Aggregate:
        """Top model, loss, and its derivatives by every embedding."""
        leaves, loss = self._loss(rows, own, peers, want_replies, None)
        if loss.requires_grad:
            torch.autograd.backward(loss)
        return self._derivatives(loss, leaves, peers if want_replies else ())

    def local_aggregate(self, own: Forward | None, exchange: Exchange) -> Aggregate:
        """The same with the others' cached embeddings; rows weighed where the method does."""
        weights = None
        want_replies = not self._method.order.at_once and not self._method.order.recomputes
        if self._method.weight.weighs:
            weights = self._row_weights(own, exchange)
        leaves, loss = self._loss(exchange.rows, own, exchange.reply, want_replies, weights)
        if loss.requires_grad:
            torch.autograd.backward(loss)
        return self._derivatives(loss, leaves, self._widths if want_replies else ())

    def _row_weights(self, own: Forward | None, exchange: Exchange) -> torch.Tensor:
        """How much the derivatives that were sent still agree with those of now, row by row."""
        embeddings = exchange.reply
        leaves, loss = self._loss(exchange.rows, own, embeddings, True, None)
        now = torch.autograd.grad(loss, [leaves[peer] for peer in embeddings])
        then = [exchange.answer[peer] for peer in embeddings]
        return self._method.weight.rows(torch.cat(then, dim=1), torch.cat(now, dim=1))

    def _loss(
        self,
        rows: Rows,
        own: Forward | None,
        peers: Mapping[str, torch.Tensor],
        want_replies: bool,
        row_weights: torch.Tensor | None,
    ) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """The graph is cut at every embedding, so that derivatives stop there."""
        leaves = {
            name: tensor.detach().requires_grad_(want_replies) for name, tensor in peers.items()
        }
        if own is not None:
            leaves[self._me] = own.embedding.detach().requires_grad_()
        index = torch.from_numpy(np.ascontiguousarray(rows)).to(self._device)
        labels = self._labels["train"].index_select(0, index)
        weights = self._sample_weights
        if weights is not None:
            weights = weights.index_select(0, index)
        with self._random.own():
            prediction = self._predict(self._modules["top"], leaves)
        if row_weights is None:
            return leaves, self._objective(prediction, labels, weights)
        # Stale rows are scaled down and not made up for by the others: the divisor stays.
        losses = self._objective.rows(prediction, labels) * row_weights
        return leaves, losses.mean() if weights is None else (losses * weights).sum() / (
            weights.sum()
        )

    def _predict(self, top: nn.Module, embeddings: Mapping[str, torch.Tensor]) -> torch.Tensor:
        ordered = [embeddings[name] for name in self._order if name in embeddings]
        prediction: torch.Tensor = top(ordered)
        return prediction

    def _derivatives(
        self, loss: torch.Tensor, leaves: Mapping[str, torch.Tensor], peers: Iterable[str]
    ) -> Aggregate:
        def derivative(name: str) -> torch.Tensor:
            gradient = leaves[name].grad
            return torch.zeros_like(leaves[name]) if gradient is None else gradient

        return Aggregate(
            loss=loss.item(),
            replies={name: derivative(name) for name in peers},
            own=derivative(self._me) if self._me in leaves else None,
        )

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
        """Drop the gradients of the top model."""
        self._trainer.forget()

    def capture(self) -> dict[str, nn.Module]:
        """Copies of the models in evaluation mode."""
        return {part: copy.deepcopy(module) for part, module in self._modules.items()}

    def judge(
        self,
        models: dict[str, nn.Module],
        split: Split,
        pieces: Mapping[str, Mapping[int, Packed]],
    ) -> dict[str, float]:
        """Predict a whole split piece by piece, then measure."""
        labels = self._labels[split]
        predictions = []
        for start in range(0, len(labels), EVALUATION_ROWS):
            rows = min(EVALUATION_ROWS, len(labels) - start)
            embeddings = {
                peer: self._received(own[start], (rows, self._widths[peer]), peer)
                for peer, own in pieces.items()
            }
            if self.has_features:
                embeddings[self._me] = self._embed(models["bottom"], split, start)
            with evaluating(models["top"]):
                predictions.append(self._predict(models["top"], embeddings))
        prediction = torch.cat(predictions)
        if split == "train":
            weights = self._sample_weights
            return {"full_loss": self._objective(prediction, labels, weights).item()}
        scores, truth = prediction.double().cpu().numpy(), labels.view(-1).cpu().numpy()
        measured = {"test_loss": self._objective(prediction, labels).item()}
        if np.isfinite(scores).all():
            measured |= {metric.name: metric.measure(scores, truth) for metric in self._metrics}
        return measured
