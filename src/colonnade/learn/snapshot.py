"""Learners for the exchange of snapshots: every party computes the loss by itself.

With the others' embeddings, the top model and the labels of a round, a party recomputes
∂ℓ/∂h_k at its own present embedding in each update, where a party that gets gradients has to
reuse the one that came. The price is that it sees the labels, and everybody's embeddings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from colonnade.compress import Occasion, decoder
from colonnade.errors import JobError
from colonnade.job.terms import shown
from colonnade.learn.active import TorchActive
from colonnade.learn.columns import index_of
from colonnade.learn.contents import Forward, Share, Shared
from colonnade.learn.inbound import received
from colonnade.learn.learner import Aggregate, Reply
from colonnade.learn.objective import Objective
from colonnade.learn.passive import TorchPassive
from colonnade.learn.trainer import Randomness
from colonnade.policies.view import Exchange
from colonnade.record.tree import Tree
from colonnade.wire.messages import Labels, Snapshot

_NAMES_CHARS_MAX = 200


def check_top(top: nn.Module) -> None:
    """A snapshot carries parameters; a top model with other state would drift apart."""
    if next(top.buffers(), None) is not None:
        raise JobError(
            "a top model with running statistics cannot be shared as a snapshot: "
            "leave batch norm out of the top, or choose exchange=gradients"
        )


class SnapshotPassive(TorchPassive):
    """A passive party with a copy of the top model and the labels."""

    def __init__(self, *common: Any, objective: Objective, top: nn.Module) -> None:
        super().__init__(*common)
        check_top(top)
        self._widths = self._agreement.present
        self._objective = objective
        self._top = top
        methods, leads = self._agreement.methods, self._party.job.active
        self._others_in = {
            name: decoder(methods[name].compress.embedding)
            for name in self._widths
            if name != self._party.me
        }
        """By party, what its embeddings are read with, as the active party hands them on."""
        self._top_in = {
            name: decoder(methods[leads].compress.top) for name, _ in top.named_parameters()
        }
        self._labels: torch.Tensor | None = None
        self._sample_weights: torch.Tensor | None = None
        # The top model's dropout is drawn here too.
        drawing = (*self._modules.values(), top)
        self._random = Randomness(drawing, self._party.seed, self._device)

    def _memory(self) -> dict[str, Tree]:
        return super()._memory() | {
            "labels": self._labels,
            "weights": self._sample_weights,
            "other_decoders": {name: each.state() for name, each in self._others_in.items()},
            "top_decoders": {name: each.state() for name, each in self._top_in.items()},
        }

    def _remember(self, state: Tree) -> None:
        super()._remember(state)
        self._labels = self._here(state["labels"])
        self._sample_weights = self._here(state["weights"])
        for part, readers in (("other_decoders", self._others_in), ("top_decoders", self._top_in)):
            saved = state.get(part, {})
            for name, reader in readers.items():
                reader.restore(saved.get(name))

    def learn_labels(self, message: Labels) -> None:
        if len(message.weights) > 1:
            raise self._breach("the weights of the rows more than once")
        due = self._objective.prepare(torch.zeros(self._party.data.train_count), self._party.dtype)
        active, objective = self._party.job.active, self._objective
        classes = None if objective.task == "regression" else objective.classes
        shape = tuple(due.shape)
        labels = received(message.labels, shape, due.dtype, active, classes=classes)
        weights = [self._received(each, (len(due),), active) for each in message.weights]
        self._labels = labels.to(self._device)
        self._note(active, "labels", 0, np.arange(len(labels)), labels)
        self._sample_weights = weights[0] if weights else None

    def unpack(self, exchange: Exchange, reply: Reply) -> None:
        """The others' embeddings and the top model of a round."""
        assert isinstance(reply, Snapshot)
        others = tuple(self._others_in)
        if reply.parties != others or len(reply.embeddings) != len(others):
            whose = shown(", ".join(reply.parties), _NAMES_CHARS_MAX)
            raise self._breach(f"a snapshot of {whose} where {', '.join(others)} is due")
        if len(reply.top) != len(self._top_in):
            raise self._breach(
                f"a top model of {len(reply.top)} tensors where {len(self._top_in)} are due"
            )
        sender = self._party.job.active
        embeddings = {
            name: self._of_rows(
                "embedding", packed, exchange, self._widths[name], reader, sender, name
            )
            for (name, reader), packed in zip(
                self._others_in.items(), reply.embeddings, strict=True
            )
        }
        shapes = {name: tuple(each.shape) for name, each in self._top.named_parameters()}
        due = self._due("top", sender, exchange.round)
        top = {
            name: self._received(packed, shapes[name], sender, replace(due, reader=reader))
            for (name, reader), packed in zip(self._top_in.items(), reply.top, strict=True)
        }
        exchange.others = Shared(embeddings, top)

    def _gradient(self, exchange: Exchange, embedding: torch.Tensor) -> torch.Tensor:
        """∂ℓ/∂h at the present h, through the top model of the round's start."""
        shared: Shared = exchange.others
        assert self._labels is not None, "the labels come before the first snapshot"
        leaf = embedding.detach().requires_grad_()
        embeddings = shared.embeddings | {self._party.me: leaf}
        ordered = [embeddings[name] for name in self._widths]
        index = index_of(exchange.rows, self._device)
        weights = self._sample_weights
        if weights is not None:
            weights = weights.index_select(0, index)
        with self._random.own():
            prediction = functional_call(self._top, shared.top, (ordered,))
        loss = self._objective(prediction, self._labels.index_select(0, index), weights)
        (gradient,) = torch.autograd.grad(loss, leaf)
        return gradient


class SnapshotActive(TorchActive):
    """The active party: its bottom model is one of the parties, its top model the server.

    The bottom model moves against the top model of the round's start, as at any other party; the
    top model moves against all embeddings of the round's start.
    """

    def __init__(self, *common: Any) -> None:
        super().__init__(*common)
        check_top(self._modules["top"])
        self._crosses = True
        compress, outbound = self._method.compress, self._outbound
        self._own_out = outbound.stage("embedding", compress.embedding)
        self._top_out = [
            outbound.stage("top", compress.top, str(number))
            for number, _ in enumerate(self._modules["top"].parameters())
        ]
        self._importance: torch.Tensor | None = None

    def _memory(self) -> dict[str, Tree]:
        return super()._memory() | {
            "own_encoder": self._own_out.state(),
            "top_encoders": [stage.state() for stage in self._top_out],
            "importance": self._importance,
        }

    def _remember(self, state: Tree) -> None:
        super()._remember(state)
        self._own_out.restore(state["own_encoder"])
        for stage, saved in zip(self._top_out, state["top_encoders"], strict=True):
            stage.restore(saved)
        self._importance = self._here(state["importance"])

    def labels_message(self) -> Labels:
        """The labels as the loss takes them, and the rows' weights."""
        out, weights = self._outbound.stage("labels"), self._sample_weights
        labels = self._labels["train"]
        return Labels(
            out.pack(labels, Occasion(rows=np.arange(len(labels)))),
            () if weights is None else (out.pack(weights),),
        )

    def reply(self, exchange: Exchange, peer: str, signal: int) -> Reply:
        share: Share = exchange.answer
        others = tuple(name for name in self._order if name != peer)
        embeddings = tuple(share.packed[name] for name in others)
        return Snapshot(exchange.round, others, embeddings, share.top_packed, signal)

    def aggregate(
        self, exchange: Exchange, own: Forward | None, wanted: bool, stale: bool = False
    ) -> Aggregate:
        """Derivatives by the top model, and by the own embedding against the shared top."""
        share: Share = exchange.answer or self._share(exchange, own)
        top = self._modules["top"]
        loss = self._loss(exchange, self._predict(top, share.read.embeddings))
        if loss.requires_grad:
            torch.autograd.backward(loss)
        derivative = None
        if own is not None:
            leaf = own.embedding.detach().requires_grad_()
            embeddings = share.read.embeddings | {self._me: leaf}
            ordered = [embeddings[name] for name in self._order]
            with self._random.own():
                prediction = functional_call(top, share.read.top, (ordered,))
            (derivative,) = torch.autograd.grad(self._loss(exchange, prediction), leaf)
            if not stale:
                self._importance = derivative.sum(dim=0).abs()
        return Aggregate(loss.item(), share, derivative)

    def _share(self, exchange: Exchange, own: Forward | None) -> Share:
        packed = dict(exchange.packed)
        embeddings = dict(exchange.others)
        if own is not None:
            use = Occasion(exchange.round, exchange.rows, self._importance)
            packed[self._me], embeddings[self._me] = self._own_out.pack_shown(own.embedding, use)
        parameters = dict(self._modules["top"].named_parameters())
        use = Occasion(exchange.round)
        # The top model is about to move.
        sent = [
            stage.pack_frozen(parameter, use)
            for stage, parameter in zip(self._top_out, parameters.values(), strict=True)
        ]
        top = {name: read for name, (_, read) in zip(parameters, sent, strict=True)}
        return Share(packed, tuple(one for one, _ in sent), Shared(embeddings, top))
