"""Other ways to tame staleness, tried against full pipe's: `python -m benchmarks.ideas`.

Plain loops with a fixed staleness s: the embeddings of a batch reach the active party at once, and
their gradients are used s batches later, as they are with s + 1 exchanges in flight. All have full
pipe's rate, momentum and averaged weights, each at the best of some rates:

- *weights of then*: back through the weights that made the embedding;
- *compensated*: the same, with what DC-ASGD (Zheng et al., 2017) adds for the way that the weights
  have gone since: G + λ G ⊙ G ⊙ (θ − θ_then), λ over the root mean square of G;
- *compensated at the embedding*: what full pipe has of this, `weight=compensate`: each row's
  gradient times 1 + K gᵀ(h − h_then) within 0 and 2, g of the row's own loss;
- *predicted weights*: full pipe, whose embeddings are made with the weights that are expected when
  their gradients come, θ + s Δ with Δ the mean of the last changes (SpecTrain, Chen et al., 2018;
  XPipe, Guan et al., 2019);
- *annealed*: full pipe, whose staleness falls to 3 over the first half of the training.
"""

from __future__ import annotations

import argparse
from collections import deque
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import msgspec
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.func import functional_call

from colonnade.data.batches import BatchPlan
from colonnade.job.files import load
from colonnade.job.records import Job
from colonnade.learn.average import Average
from colonnade.learn.build import build_bottom, build_top
from colonnade.learn.optim import build_optimizer
from colonnade.learn.participant import Participant
from colonnade.learn.trainer import Trainer, evaluating
from colonnade.methods.fullpipe import fullpipe
from colonnade.policies.weight import compensate
from colonnade.record.metrics import METRICS
from colonnade.run.setup import prepare
from colonnade.run.steady import steady_from

IDEAS = (
    *("full pipe", "weights of then", "compensated", "compensated at the embedding"),
    *("predicted weights", "annealed"),
)
ROUNDS_BETWEEN = 10
"""Two evaluations."""
ANNEALED_TO = 3
STEPS, SQUARES = 0.9, 0.95
"""Decay of the mean of changes, and of squared gradients."""
TINY = 1e-7
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Study:
    """A job, how long it is trained, what it must reach, and multiples of its rates."""

    job: str
    epochs: int
    target: float
    rates: tuple[int, ...]
    delays: tuple[int, ...] = (3, 7, 15)
    seeds: tuple[int, ...] = (0, 1, 2)
    ideas: tuple[str, ...] = IDEAS


STUDIES = (Study("digits", 40, 0.93, (2, 4, 8)), Study("credit", 8, 0.765, (3, 9)))
SMOKE = (Study("digits", 1, 0.05, (4,), (3,), (0,)),)


def delay_of(idea: str, delay: int, round: int, rounds: int) -> int:
    """How stale gradients are in a round.

    >>> [delay_of("annealed", 15, round, 100) for round in (0, 25, 50, 99)]
    [15, 9, 3, 3]
    """
    if idea != "annealed" or delay <= ANNEALED_TO:
        return delay
    done = min(1.0, 2 * round / rounds)
    return round_half(delay + (ANNEALED_TO - delay) * done)


def round_half(value: float) -> int:
    """To the nearest integer, halves up."""
    return int(value + 0.5)


@dataclass
class Sent:
    """An exchange whose gradient is not used yet."""

    rows: torch.Tensor
    weights: Weights
    embedding: torch.Tensor
    gradient: torch.Tensor
    updates_then: int


@dataclass
class Bottom:
    """A passive party."""

    features: torch.Tensor
    model: nn.Module
    trainer: Trainer
    idea: str
    parties: int
    updates: int = 0
    in_flight: deque[Sent] = field(default_factory=deque)
    change: Weights = field(default_factory=dict)
    squares: Weights = field(default_factory=dict)

    def weights(self) -> Weights:
        return {name: each.detach().clone() for name, each in self.model.named_parameters()}

    def embed(self, rows: torch.Tensor, delay: int) -> tuple[torch.Tensor, Weights]:
        """The embedding that is sent, and the weights that made it."""
        weights = self.weights()
        if self.idea == "predicted weights" and self.change:
            weights = {name: each + delay * self.change[name] for name, each in weights.items()}
        with torch.no_grad():
            embedding: torch.Tensor = functional_call(self.model, weights, (self.features[rows],))
        return embedding, weights

    def use(self, round: int) -> None:
        """The oldest gradient moves the weights."""
        sent = self.in_flight.popleft()
        now = dict(self.model.named_parameters())
        through = sent.weights if self.idea in ("weights of then", "compensated") else now
        leaves = {name: each.detach().requires_grad_() for name, each in through.items()}
        embedding = functional_call(self.model, leaves, (self.features[sent.rows],))
        gradient = sent.gradient
        if self.idea == "compensated at the embedding":
            slope = gradient * (len(gradient) * self.parties)
            rows = compensate().rows(sent.embedding, embedding.detach(), slope)
            gradient = gradient * rows.view(-1, 1)
        found = torch.autograd.grad(embedding, list(leaves.values()), gradient)
        for (name, weight), own in zip(now.items(), found, strict=True):
            weight.grad = own
            if self.idea == "compensated":
                mean = self.squares.get(name, own.square())
                self.squares[name] = mean = SQUARES * mean + (1 - SQUARES) * own.square()
                way = weight.detach() - sent.weights[name]
                weight.grad = own + own.square() * way / (mean.sqrt() + TINY)
        before = self.weights()
        self.trainer.begin_round()
        self.trainer.step(round, self.updates - sent.updates_then)
        self.updates += 1
        for name, each in self.weights().items():
            change = each - before[name]
            last = self.change.get(name, change)
            self.change[name] = STEPS * last + (1 - STEPS) * change


class Loop:
    """All parties of a job in one place."""

    def __init__(self, job: Job, idea: str, delay: int, rate: int) -> None:
        self.job, self.idea, self.delay = job, idea, delay
        parties = prepare(job)
        own = parties[job.active]
        widths = {name: party.width for name, party in parties.items()}
        objective = own.objective
        assert objective is not None and own.features is not None and own.data.labels is not None
        self.objective, self.own, self.features = objective, own, own.features
        dtype = own.dtype
        self.labels = objective.prepare(torch.as_tensor(own.data.labels.train), dtype)
        self.held_out = own.data.labels.validation
        self.bottom, self.top = build_bottom(own), build_top(own, widths, objective)
        self.plan = BatchPlan(own.data.train_count, job.train.batch_size, job.seed)
        self.rounds = int(job.train.epochs or 1) * self.plan.per_epoch
        modules = {"bottom": self.bottom, "top": self.top}
        self.trainer = self._trainer(own, modules, rate)
        self.others = {
            name: Bottom(
                party.features["train"],
                model := build_bottom(party),
                self._trainer(party, {"bottom": model}, rate),
                idea,
                sum(map(bool, widths.values())),
            )
            for name, party in parties.items()
            if name != job.active and party.features is not None
        }
        self.validation = {
            name: party.features["validation"]
            for name, party in parties.items()
            if party.features is not None
        }
        self.metric = METRICS[str(job.train.metric)]

    def _trainer(self, party: Participant, modules: dict[str, nn.Module], rate: int) -> Trainer:
        table = dict(self.job.parties[party.me].optimizer)
        table["lr"] = table["lr"] * rate
        parameters = [each for module in modules.values() for each in module.parameters()]
        method = fullpipe()
        average = Average(method.average, modules)
        optimizer = build_optimizer(table, parameters, party.me)
        assert optimizer is not None
        per_epoch, members = self.plan.per_epoch, len(self.job.parties)
        return Trainer(method, [optimizer], [], per_epoch, members, None, average)

    def train(self) -> list[tuple[int, float]]:
        """Rounds, and the metric on the validation rows after each of some."""
        history = []
        for round in range(self.rounds):
            self._round(round)
            if (round + 1) % ROUNDS_BETWEEN == 0:
                history.append((round + 1, self.measure()))
        return history

    def _round(self, round: int) -> None:
        rows = torch.from_numpy(self.plan.batch(round).copy())
        delay = delay_of(self.idea, self.delay, round, self.rounds)
        sent = {name: party.embed(rows, delay) for name, party in self.others.items()}
        leaves = {name: each.clone().requires_grad_() for name, (each, _) in sent.items()}
        mine = {self.own.me: self.bottom(self.features["train"][rows])}
        ordered = [(leaves | mine)[name] for name in self.job.parties]
        loss = self.objective(self.top(ordered), self.labels[rows])
        self.trainer.begin_round()
        loss.backward()
        self.trainer.step(round)
        for name, party in self.others.items():
            embedding, weights = sent[name]
            gradient = leaves[name].grad
            assert gradient is not None
            party.in_flight.append(Sent(rows, weights, embedding, gradient, party.updates))
            while len(party.in_flight) > delay:
                party.use(round)

    def measure(self) -> float:
        final = {
            name: party.trainer.average.modules["bottom"] for name, party in self.others.items()
        }
        final[self.own.me] = self.trainer.average.modules["bottom"]
        top = self.trainer.average.modules["top"]
        embeddings = []
        for name in self.job.parties:
            with evaluating(final[name]):
                embeddings.append(final[name](self.validation[name]))
        with evaluating(top):
            scores = top(embeddings).double().numpy()
        # What has diverged has learnt nothing.
        return self.metric.measure(scores, self.held_out) if np.isfinite(scores).all() else 0.0


def tried(study: Study, idea: str, delay: int, rate: int, seed: int) -> tuple[int | None, float]:
    """Rounds until the target is held, None where it never is; and the mean of the last five."""
    base = load(study.job, [f"train.epochs={study.epochs}"])
    loop = Loop(msgspec.structs.replace(base, seed=seed), idea, delay, rate)
    history = loop.train()
    values = [value for _, value in history]
    at = steady_from(values, study.target, loop.metric)
    return None if at is None else history[at][0], fmean(values[-5:])


def best(found: dict[int, list[tuple[int | None, float]]]) -> tuple[Any, ...]:
    """Of all rates the one with most hits, and of those the soonest."""

    def rank(rate: int) -> tuple[float, ...]:
        hits = [at for at, _ in found[rate] if at is not None]
        return -len(hits), fmean(hits) if hits else 0.0, -fmean(end for _, end in found[rate])

    rate = min(found, key=rank)
    hits = [at for at, _ in found[rate] if at is not None]
    return rate, hits, len(found[rate]), fmean(end for _, end in found[rate])


def measure(study: Study, console: Console) -> None:
    title = f"{study.job}: rounds to {study.target:g}, held, at each one's best rate"
    table = Table(title=title)
    for heading in ("s", "idea", "rate", "rounds", "reached", "end"):
        table.add_column(heading)
    for delay in study.delays:
        for idea in study.ideas:
            found = {
                rate: [tried(study, idea, delay, rate, seed) for seed in study.seeds]
                for rate in study.rates
            }
            rate, hits, runs, end = best(found)
            rounds = f"{fmean(hits):.0f}" if hits else "–"
            cells = (str(delay), idea, f"{rate}×", rounds, f"{len(hits)}/{runs}", f"{end:.4f}")
            console.print(*cells, sep=" | ", highlight=False)
            table.add_row(*cells)
    console.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a short form, to see that it runs")
    torch.set_num_threads(1)
    for each in SMOKE if parser.parse_args().smoke else STUDIES:
        measure(each, Console())
