"""What every bottom model must pass."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from colonnade import models
from colonnade.data.vertical import vertical
from colonnade.job.records import Job, Party, Top, Train
from colonnade.run.simulate import simulate
from colonnade.testing.expect import Given, as_table, expect, expect_same

Draw = Callable[[tuple[int, ...]], torch.Tensor]
"""Rows of a shape, the same each time."""


def check_model(
    model: Given,
    row_shape: tuple[int, ...],
    *,
    rows: Draw | None = None,
    still: Collection[str] = (),
    top: Top | None = None,
    classes: int = 2,
    in_job: bool = True,
) -> None:
    """Check a model for rows of a shape; an `AssertionError` says what does not hold.

    Args:
        model: by name, as a table, or the function, which a job must be able to name.
        row_shape: the shape of one row.
        rows: makes rows, where normal numbers are none that the model can read.
        still: parameters whose gradients are nothing but rounding, such as a bias before a norm.
        top, classes: of the short job in which it is trained; by default one linear layer.
        in_job: whether it is trained in a job; a very large model may do without.

    Example:
        >>> check_model({"name": "mlp", "embedding": 8}, (5,))
    """
    trial = _Trial(model, row_shape, rows or _normal)
    _depends_on_the_seed_alone(trial)
    _gives_a_row_for_a_row(trial)
    _learns_with_every_weight(trial, still)
    _can_be_saved_and_loaded(trial)
    for method in ("fedsgd", "pasta") if in_job else ():
        _trains(trial, method, still, top or Top(hidden=[]), classes)


def _normal(shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


class _Trial:
    def __init__(self, model: Given, row_shape: tuple[int, ...], draw: Draw) -> None:
        self.table = as_table(model, models.known(), lambda name: {"name": name})
        self.row_shape, self.draw = row_shape, draw

    def rows(self, count: int = 4) -> torch.Tensor:
        return self.draw((count, *self.row_shape))

    def built(self, seed: int = 0) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return models.build(self.table, self.row_shape, "parties.bank.model")

    def expect(self, holds: object, sentence: str) -> None:
        expect(holds, f"{self.table['name']} {sentence}")


def _depends_on_the_seed_alone(trial: _Trial) -> None:
    first, again, other = (trial.built(seed).state_dict() for seed in (0, 0, 1))
    for name, tensor in first.items():
        trial.expect(torch.equal(tensor, again[name]), f"draws {name} not from torch's generator")
    good = not first or any(not torch.equal(first[name], other[name]) for name in first)
    trial.expect(good, "begins with the same weights whatever the seed")


def _gives_a_row_for_a_row(trial: _Trial) -> None:
    model, x = trial.built(), trial.rows()
    with torch.no_grad():
        model.train()(x)
        before = copy.deepcopy(model.state_dict())
        together = model.eval()(x)
        trial.expect(together.dim() == 2 and len(together) == 4, f"gives {tuple(together.shape)}")
        width = trial.table.get("embedding", together.shape[1])
        trial.expect(together.shape[1] == width, f"gives {together.shape[1]} columns, not {width}")
        trial.expect(together.dtype is x.dtype, f"gives {together.dtype} for {x.dtype}")
        trial.expect(torch.equal(model(x), together), "is not the same each time in evaluation")
        good = torch.allclose(model(x[1:2]), together[1:2], atol=1e-4, rtol=1e-4)
        trial.expect(good, "lets rows see each other in evaluation")
    for name, tensor in model.state_dict().items():
        trial.expect(torch.equal(tensor, before[name]), f"moves {name} in evaluation")


def _learns_with_every_weight(trial: _Trial, still: Collection[str]) -> None:
    model = trial.built().train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        loss = model(trial.rows()).pow(2).sum()
    torch.autograd.backward(loss)
    for name, weight in model.named_parameters():
        grad = weight.grad
        if grad is None:
            raise AssertionError(f"{trial.table['name']}: no gradient reaches {name}")
        trial.expect(torch.isfinite(grad).all(), f"has a gradient of {name} that is not finite")
        trial.expect(name in still or grad.abs().sum() > 0, f"has a gradient of {name} that is 0")


def _can_be_saved_and_loaded(trial: _Trial) -> None:
    model, other, x = trial.built().eval(), trial.built(1).eval(), trial.rows()
    with torch.no_grad():
        wanted = model(x)
        stashed = functional_call(other, model.state_dict(), (x,))
        trial.expect(torch.equal(stashed, wanted), "keeps weights that are not in its state_dict")
        other.load_state_dict(model.state_dict())
        trial.expect(torch.equal(other(x), wanted), "is another model after load_state_dict")
        trial.expect(torch.equal(copy.deepcopy(model)(x), wanted), "is another model when copied")
        double = model.double()(x.double())
    trial.expect(double.dtype is torch.float64, f"gives {double.dtype} in double precision")
    good = torch.allclose(double.float(), wanted, atol=1e-4, rtol=1e-3)
    trial.expect(good, "computes something else in double precision")


def _trains(trial: _Trial, method: str, still: Collection[str], top: Top, classes: int) -> None:
    """`pasta` runs a model with copies of its weights, which no layer may pass by."""
    x = {name: trial.rows(24).numpy() for name in ("bank", "telco")}
    data = vertical(x, np.arange(24) % classes, test=8 / 24)

    def train(lr: float) -> Any:
        party: dict[str, Any] = {"model": trial.table, "optimizer": {"name": "sgd", "lr": lr}}
        parties = {"bank": Party(role="active", **party), "telco": Party(**party)}
        rounds = Train(rounds=2, batch_size=8, evaluate_every="1 round")
        job = Job(parties=parties, method={"name": method}, top=top, train=rounds)
        return simulate(job, data)

    run, again, unmoved = train(0.05), train(0.05), train(0.0)
    trial.expect((run.rounds, run.status) == (2, "end"), f"ends with '{run.status}' under {method}")
    good = all(np.isfinite(row["validation_loss"]) for row in run.history)
    trial.expect(good, f"has a loss under {method} that is not finite")
    expect_same(
        run.weights, again.weights, f"{trial.table['name']} trains otherwise the second time"
    )
    buffers = {name for name, _ in trial.built().named_buffers()}
    resting = {f"bottom.{name}" for name in (*still, *buffers)}
    for party, weights in run.weights.items():
        for name, tensor in weights.items():
            finite = torch.isfinite(tensor).all()
            trial.expect(finite, f"has weights under {method} that are not finite: {name}")
            moved = name in resting or not torch.equal(tensor, unmoved.weights[party][name])
            trial.expect(moved, f"does not move {name} of {party} under {method}")
