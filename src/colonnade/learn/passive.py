"""The learners that train torch modules: what both roles share, and the passive party's."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from colonnade.compress import Decoder, Occasion, decoder
from colonnade.data.splits import Split
from colonnade.errors import BreachError
from colonnade.learn.agreement import Agreement
from colonnade.learn.columns import Columns
from colonnade.learn.contents import Forward
from colonnade.learn.inbound import PLAIN, Due, due, received
from colonnade.learn.learner import Reply, Rows
from colonnade.learn.outbound import Outbound, Purpose
from colonnade.learn.participant import Participant
from colonnade.learn.schedule import EVALUATION_ROWS
from colonnade.learn.trainer import Randomness, Trainer, evaluating
from colonnade.learn.weighed import quantiles
from colonnade.policies.view import MOST_MAX, Exchange
from colonnade.protect.masks import Masks
from colonnade.record.calibration import Calibration
from colonnade.record.events import Quantiles
from colonnade.record.tree import Tree, Weights, moved
from colonnade.wire.messages import Gradient, Labels, Packed

TINY = 1e-30
"""A length by which can be divided."""


class TorchLearner:
    """What both roles share: a bottom model, a trainer, remembered weights, own randomness."""

    prefetches = True
    calibration: Calibration | None = None
    weighed: Quantiles | None = None

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        trainer: Trainer,
        party: Participant,
        agreement: Agreement,
        masks: Masks | None = None,
    ) -> None:
        features = party.features
        self.width = party.width
        self.device = str(party.device)
        self._party = party
        self._modules = modules
        self._features = features
        self._columns = None if features is None else Columns(features["train"])
        self._trainer = trainer
        self._final = trainer.average.modules
        """What is evaluated, kept and handed over: the average, where the method has one."""
        self._agreement = agreement
        self._method = agreement.methods[party.me]
        self._device = party.device
        self._kept: dict[int, Weights] = {}
        self.best = -1
        self._random = Randomness(modules.values(), party.seed, party.device)
        self._recorder = party.recorder
        leaving = party.job.seed, party.me, party.secret(), self._method.protect
        self._outbound = Outbound(*leaving, party.recorder, masks)
        self._goes_again = self._method.weight.weighs_fresh or self._method.version.recomputes()
        """Whether a forward pass may be made once more, and must be like the first one."""
        self._crosses = not party.leads
        """Whether the party's own embeddings leave it."""

    def forward(
        self, rows: Rows, stash: bool = False, like: Forward | None = None
    ) -> Forward | None:
        """The bottom model on a batch, in training mode."""
        if self._columns is None:
            return None
        x, bottom = self._columns.batch(rows), self._modules["bottom"]
        drawn = self._random.state() if self._goes_again else None
        with self._random.own(None if like is None else like.drawn):
            if not stash:
                return self._passed(bottom(x), x, drawn=drawn)
            copies = {
                name: weight.detach().clone().requires_grad_(weight.requires_grad)
                for name, weight in bottom.named_parameters()
            }
            return self._passed(functional_call(bottom, copies, (x,)), x, copies, drawn)

    def _passed(
        self,
        embedding: torch.Tensor,
        x: torch.Tensor,
        stashed: dict[str, torch.Tensor] | None = None,
        drawn: list[torch.Tensor] | None = None,
    ) -> Forward:
        """A forward pass, with the embedding as its protections shape it."""
        if not (self._crosses and self._method.protect.embedding):
            return Forward(embedding, stashed, drawn=drawn)
        for protection in self._method.protect.embedding:
            embedding = protection.shape(embedding)
        return Forward(embedding, stashed, x, drawn)

    def prefetch(self, rows: Rows) -> None:
        if self._columns is not None:
            self._columns.prefetch(rows)

    @property
    def rate(self) -> float:
        return self._trainer.rate

    def rehearse(self, rows: Rows, part: str) -> None:
        """Forward and backward through a copy of a model, both under the name of the former."""
        devices = [] if self._device.type == "cpu" else [self._device]
        with torch.random.fork_rng(devices=devices):
            if part == "bottom":
                assert self._columns is not None
                embedding = copy.deepcopy(self._modules["bottom"])(self._columns.batch(rows))
                if embedding.requires_grad:
                    embedding.sum().backward()
            else:
                self._rehearse_top(copy.deepcopy(self._modules["top"]), len(rows))

    def _rehearse_top(self, top: nn.Module, rows: int) -> None:
        raise AssertionError("a passive party has no top model")

    def expect(self, updates: int) -> None:
        """Let the rate of the first round go by it."""
        self._trainer.expect(updates)

    def keep(self, round: int) -> None:
        self._kept[round] = self.weights()

    def prune(self, best: int, scored: int) -> None:
        self.best = best
        self._kept = {r: kept for r, kept in self._kept.items() if r == best or r > scored}

    def weights(self) -> Weights:
        """A copy of all parameters and buffers, named `bottom.…` and `top.…`."""
        return {
            f"{part}.{name}": tensor.detach().to("cpu", copy=True)
            for part, module in self._final.items()
            for name, tensor in module.state_dict().items()
        }

    def best_weights(self) -> Weights | None:
        return self._kept.get(self.best)

    def recall(self) -> dict[str, nn.Module]:
        """Copies of the modules, with the weights kept of the best round."""
        kept = self._kept[self.best]
        modules = {part: copy.deepcopy(module) for part, module in self._final.items()}
        for part, module in modules.items():
            own = {name: tensor for name, tensor in kept.items() if name.startswith(f"{part}.")}
            module.load_state_dict({n.removeprefix(f"{part}."): own[n] for n in own})
        return modules

    def end_round(self, round: int) -> None:
        self._trainer.end_round(round)

    def state(self) -> Tree:
        if self._recorder is not None:
            self._recorder.flush()
        return moved(self._memory(), "cpu", copy=True)

    def restore(self, state: Tree) -> None:
        self._remember(moved(state, "cpu", copy=True))

    def _memory(self) -> dict[str, Tree]:
        """All that is saved, as it lies in memory; learners of other kinds add to it."""
        return {
            "modules": {part: dict(m.state_dict()) for part, m in self._modules.items()},
            "trainer": self._trainer.state(),
            "random": self._random.state(),
            "kept": self._kept,
            "best": self.best,
        }

    def _remember(self, state: Tree) -> None:
        """The inverse of `_memory`."""
        for part, module in self._modules.items():
            module.load_state_dict(state["modules"][part])
        self._trainer.restore(state["trainer"])
        self._random.restore(state["random"])
        self._kept = state["kept"]
        self.best = state["best"]

    def _here(self, tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else tensor.to(self._device)

    def _embed(self, bottom: nn.Module, split: Split, start: int) -> torch.Tensor:
        assert self._features is not None
        with evaluating(bottom):
            embedding: torch.Tensor = bottom(self._features[split][start : start + EVALUATION_ROWS])
        return embedding

    def _received(
        self,
        packed: Packed,
        shape: tuple[int, ...],
        sender: str,
        due: Due = PLAIN,
        finite: bool = True,
    ) -> torch.Tensor:
        """A tensor from the wire, once it is what is due."""
        dtype = self._party.dtype
        return received(packed, shape, dtype, sender, due, finite=finite).to(self._device)

    def _due(self, purpose: Purpose, party: str, round: int) -> Due:
        return due(self._agreement, purpose, party, round)

    def _of_rows(
        self,
        purpose: Purpose,
        packed: Packed,
        exchange: Exchange,
        width: int,
        reader: Decoder,
        sender: str,
        of: str,
    ) -> torch.Tensor:
        """A tensor from the wire that stands for the rows of an exchange and is `of` a party."""
        whose = self._party.me if purpose == "gradient" else of
        agreed = self._due(purpose, whose, exchange.round)
        due = replace(agreed, reader=reader, rows=exchange.rows)
        tensor = self._received(packed, (len(exchange.rows), width), sender, due)
        self._note(of, purpose, exchange.round, exchange.rows, tensor)
        return tensor

    def _note(
        self,
        peer: str,
        kind: str,
        round: int,
        rows: Rows,
        tensor: torch.Tensor,
        split: Split = "train",
    ) -> None:
        """Something of these rows was received."""
        if self._recorder is not None:
            self._recorder.note("received", peer, kind, round, rows, tensor, split)


class TorchPassive(TorchLearner):
    """A passive party's bottom model."""

    def __init__(self, *common: Any) -> None:
        super().__init__(*common)
        self._out = self._outbound.stage("embedding", self._method.compress.embedding)
        self._in = decoder(self._method.compress.gradient)
        self._importance: torch.Tensor | None = None
        """How much each column of the embedding mattered when a gradient last came."""

    def _memory(self) -> dict[str, Tree]:
        coders = {"encoder": self._out.state(), "decoder": self._in.state()}
        return super()._memory() | coders | {"importance": self._importance}

    def _remember(self, state: Tree) -> None:
        super()._remember(state)
        self._out.restore(state["encoder"])
        self._in.restore(state.get("decoder"))
        self._importance = self._here(state["importance"])

    def pack(self, exchange: Exchange) -> Packed:
        use = Occasion(exchange.round, exchange.rows, self._importance)
        return self._out.pack(exchange.forward.embedding, use)

    def choose(self, bits: int) -> None:
        self._out.choose(bits)

    def unpack(self, exchange: Exchange, reply: Reply) -> None:
        assert isinstance(reply, Gradient)
        active = self._party.job.active
        exchange.gradient = self._of_rows(
            "gradient", reply.tensor, exchange, self.width, self._in, active, active
        )

    def _breach(self, what: str) -> BreachError:
        return BreachError(self._party.job.active, f"{self._party.job.active} sent {what}")

    def learn_labels(self, message: Labels) -> None:
        """A party that gets gradients has no use for labels and takes none."""
        raise self._breach("labels to a party whose method does not need them")

    def _gradient(self, exchange: Exchange, embedding: torch.Tensor) -> torch.Tensor:
        """The derivative of the loss by the embedding: as it came."""
        gradient: torch.Tensor = exchange.gradient
        return gradient

    def _bounded(self, gradient: torch.Tensor) -> torch.Tensor:
        """The gradient of a fresh update, unless a row's is longer than the policy allows: who
        chooses gradients of any length can make the embeddings as telling as it likes."""
        most = self._party.policy.gradient_norm_max
        if most is not None and gradient.numel():
            found = torch.linalg.vector_norm(gradient, dim=1).max().item()
            if not found <= most:
                raise self._breach(
                    f"what makes the gradient of a row {found:.3g} long, and "
                    f"policy.gradient_norm_max is {most:g}: nothing is updated by it"
                )
        return gradient

    @property
    def room(self) -> int:
        """As many as copies of the bottom model fit into the limit, with an embedding for each."""
        bottom, rows = self._modules["bottom"], self._party.job.train.batch_size
        one = sum(each.numel() * each.element_size() for each in bottom.parameters())
        one += rows * self.width * self._party.dtype.itemsize
        return max(1, min(self._party.job.limits.in_flight_bytes // one, MOST_MAX))

    def backward(
        self,
        exchange: Exchange,
        present: Forward | None = None,
        staleness: int = 0,
        again: bool = False,
    ) -> None:
        """θ ← θ − η (∂h/∂θ)ᵀ (w ⊙ g), with the h that was sent, or the present one."""
        then: Forward = exchange.forward
        if again:
            assert present is not None
            then.stashed = None
            exchange.forward = present
        forward: Forward = exchange.forward
        gradient = self._bounded(self._gradient(exchange, forward.embedding))
        self.weighed = None
        if present is not None and self._method.weight.weighs_fresh:
            gradient = self._weighed(gradient, then, present)
        self._trainer.begin_round()
        self._importance = gradient.sum(dim=0).abs()
        self._go_back(forward, gradient)
        if forward.stashed is not None:
            for name, weight in self._modules["bottom"].named_parameters():
                weight.grad = forward.stashed[name].grad
            forward.stashed = None
        forward.drawn = None
        if forward is not then:
            # Local updates on the exchange compare with what was sent, which the gradient is of.
            exchange.forward = Forward(then.embedding.detach())
        self._trainer.step(exchange.round, staleness)

    def local_backward(self, forward: Forward, exchange: Exchange) -> None:
        """The same with a new h and the g that came for the old one."""
        gradient = self._gradient(exchange, forward.embedding)
        if self._method.weight.weighs:
            gradient = self._weighed(gradient, exchange.forward, forward)
        self._go_back(forward, gradient)
        self._trainer.step(exchange.round)

    def _weighed(self, gradient: torch.Tensor, then: Forward, now: Forward) -> torch.Tensor:
        """The gradient that came, with each row as much as it is still worth."""
        # Of the mean loss: times the number of rows it is that of each row's own loss.
        slope = gradient * (len(gradient) * len(self._agreement.present))
        stale, current = then.embedding.detach(), now.embedding.detach()
        rows = self._method.weight.rows(stale, current, slope)
        if (most := self._party.policy.gradient_norm_max) is not None:
            # What came is within the bound; a weight above 1 must not lead beyond it.
            norms = torch.linalg.vector_norm(gradient, dim=1)
            rows = torch.minimum(rows, (most / norms.clamp_min(TINY)).clamp_min(1.0))
        self.weighed = quantiles(rows)
        return gradient * rows.view(-1, 1)

    def _go_back(self, forward: Forward, gradient: torch.Tensor) -> None:
        """Through the bottom model: the gradient, and what protections add to the loss."""
        for protection in self._method.protect.embedding:
            assert forward.columns is not None
            leaf = forward.embedding.detach().requires_grad_()
            penalty = protection.penalty(leaf, forward.columns)
            if penalty is not None:
                (more,) = torch.autograd.grad(penalty, leaf)
                gradient = gradient + more
        torch.autograd.backward(forward.embedding, gradient)

    def upload(self, start: int, rows: int) -> Packed:
        """The bottom model on some training rows, in evaluation mode."""
        assert self._features is not None
        bottom = self._modules["bottom"]
        with evaluating(bottom):
            embedding = bottom(self._features["train"][start : start + rows])
        use = Occasion(rows=np.arange(start, start + len(embedding)))
        return self._outbound.stage("upload").pack(embedding, use)

    def evaluate(self, split: Split, round: int, best: bool) -> list[tuple[int, Packed]]:
        """The bottom model on a whole split, in evaluation mode.

        In the method's encoding, but by a stage of its own for every piece, which ends with it:
        what training remembers or draws neither shows here nor is moved by it.
        """
        assert self._features is not None
        bottom = (self.recall() if best else self._final)["bottom"]
        use = Occasion(round, importance=self._importance)
        evaluates_plain = self._party.job.train.evaluate_plain
        encoding = None if evaluates_plain else self._method.compress.embedding
        pieces = []
        for start in range(0, len(self._features[split]), EVALUATION_ROWS):
            stage = self._outbound.stage("evaluation", encoding, f"{split} {start}")
            embedding = self._embed(bottom, split, start)
            part = split, np.arange(start, start + len(embedding))
            pieces.append((start, stage.pack(embedding, use, part=part)))
        return pieces
