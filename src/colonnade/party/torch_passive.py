"""The learners that train torch modules: what both roles share, and the passive party's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from colonnade.compress import decode, plain
from colonnade.errors import PartyError
from colonnade.party.learner import Rows, Split, Weights
from colonnade.party.method import Method
from colonnade.party.trainer import Randomness, Trainer, evaluating
from colonnade.policies.view import Exchange
from colonnade.wire.messages import Packed

EVALUATION_ROWS = 4096
"""Rows in one piece of an evaluation."""


@dataclass(slots=True)
class Forward:
    """A forward pass: the embedding with the graph behind it."""

    embedding: torch.Tensor


class TorchLearner:
    """What both roles share: a bottom model, a trainer, remembered weights, own randomness."""

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        features: Mapping[Split, torch.Tensor] | None,
        trainer: Trainer,
        method: Method,
        width: int,
        device: torch.device,
        seed: int,
    ) -> None:
        self.width = width
        self._modules = modules
        self._features = features
        self._trainer = trainer
        self._method = method
        self._device = device
        self._kept: dict[int, Weights] = {}
        self._best: int = -1
        self._random = Randomness(modules.values(), seed)

    def forward(self, rows: Rows) -> Forward | None:
        """The bottom model on a batch, in training mode."""
        if self._features is None:
            return None
        index = torch.from_numpy(np.ascontiguousarray(rows)).to(self._device)
        with self._random.own():
            return Forward(self._modules["bottom"](self._features["train"].index_select(0, index)))

    def keep(self, round: int) -> None:
        """Copy the weights."""
        self._kept[round] = self.weights()

    def settle(self, best: int, judged: int) -> None:
        """Drop the copies that lost."""
        self._best = best
        self._kept = {r: kept for r, kept in self._kept.items() if r == best or r > judged}

    def weights(self) -> Weights:
        """A copy of all parameters and buffers, named `bottom.…` and `top.…`."""
        return {
            f"{part}.{name}": tensor.detach().to("cpu", copy=True)
            for part, module in self._modules.items()
            for name, tensor in module.state_dict().items()
        }

    def best_weights(self) -> Weights | None:
        """The copy of the best round."""
        return self._kept.get(self._best)

    def end_round(self, round: int) -> None:
        """Move the schedules on."""
        self._trainer.end_round(round)

    def _embed(self, bottom: nn.Module, split: Split, start: int) -> torch.Tensor:
        assert self._features is not None
        with evaluating(bottom):
            embedding: torch.Tensor = bottom(self._features[split][start : start + EVALUATION_ROWS])
        return embedding

    def _received(self, packed: Packed, shape: tuple[int, int], sender: str) -> torch.Tensor:
        if packed.shape != shape:
            raise PartyError(
                f"{sender} sent a tensor of shape {packed.shape} where {shape} is due: "
                "its model or its batch differs from the job"
            )
        return decode(packed).to(self._device)


class TorchPassive(TorchLearner):
    """A passive party's bottom model."""

    def pack(self, forward: Forward) -> Packed:
        """The embedding in the method's encoding."""
        return self._method.compress.embedding.encode(forward.embedding)

    def unpack(self, packed: Packed, rows: Rows) -> torch.Tensor:
        """The gradient of a batch."""
        return self._received(packed, (len(rows), self.width), "the active party")

    def backward(self, forward: Forward, gradient: torch.Tensor, round: int) -> None:
        """θ ← θ − η (∂h/∂θ)ᵀ g, with the h that was sent."""
        self._trainer.begin_round()
        torch.autograd.backward(forward.embedding, gradient)
        self._trainer.step(round)

    def local_backward(self, forward: Forward, exchange: Exchange) -> None:
        """The same with a new h and the g that came for the old one."""
        gradient: torch.Tensor = exchange.reply
        if self._method.weight.weighs:
            stale = exchange.forward.embedding.detach()
            rows = self._method.weight.rows(stale, forward.embedding.detach())
            gradient = gradient * rows.view(-1, 1)
        torch.autograd.backward(forward.embedding, gradient)
        self._trainer.step(exchange.round)

    def evaluate(self, split: Split) -> list[tuple[int, Packed]]:
        """The bottom model on a whole split, in evaluation mode."""
        assert self._features is not None
        return [
            (start, plain().encode(self._embed(self._modules["bottom"], split, start)))
            for start in range(0, len(self._features[split]), EVALUATION_ROWS)
        ]
