"""From a job and a party's data to a learner that is ready to train."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import lr_scheduler

from colonnade import models
from colonnade.data.batches import BatchPlan
from colonnade.data.splits import SPLITS, Split
from colonnade.data.vertical import Columns, Labels
from colonnade.errors import JobError
from colonnade.job.records import Job
from colonnade.learn.active import TorchActive
from colonnade.learn.objective import Objective
from colonnade.learn.optim import build_optimizer, build_schedule
from colonnade.learn.passive import TorchPassive
from colonnade.learn.place import Place
from colonnade.learn.snapshot import SnapshotActive, SnapshotPassive
from colonnade.learn.trainer import Trainer, evaluating
from colonnade.methods.method import Method
from colonnade.models.top import build_top
from colonnade.record.metrics import Metric

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def secret_seed(job: Job, name: str) -> int:
    """A party's own seed; derived from the job's where a party has none (simulations only)."""
    own = job.parties[name].seed
    if own is not None:
        return own
    text = f"{job.seed}/{name}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:7], "little")


@dataclass
class Bottom:
    """A party's bottom model and features on its device; both None for a label-only party."""

    build: Callable[[], nn.Module] | None
    """The bottom model with its first weights."""
    features: dict[Split, torch.Tensor] | None
    width: int
    device: torch.device


def build_bottom(job: Job, name: str, columns: Columns, module: nn.Module | None) -> Bottom:
    """Build, or copy, a party's bottom model and measure how wide its embedding is."""
    party = job.parties[name]
    device = _device(party.device, name)
    if columns.train is None or columns.test is None:
        return Bottom(None, None, 0, device)
    dtype = DTYPES[job.train.dtype]
    features: dict[Split, torch.Tensor] = {
        split: _tensor(columns.part(split), dtype, device) for split in SPLITS
    }

    def build() -> nn.Module:
        if module is not None:
            built = copy.deepcopy(module)
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(secret_seed(job, name))
                row_shape = tuple(features["train"].shape[1:])
                built = models.build(party.model, row_shape, f"parties.{name}.model")
        return built.to(device=device, dtype=dtype).train()

    width = _width(build(), features["train"][:2], name)
    if party.width not in (None, width):
        raise JobError(
            f"parties.{name}.width is {party.width} and its model gives {width}: "
            "change the width, or the model's embedding"
        )
    return Bottom(build, features, width, device)


def _tensor(array: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.as_tensor(np.ascontiguousarray(array)).to(device=device, dtype=dtype)


def _device(text: str, name: str) -> torch.device:
    try:
        device = torch.device(text)
    except RuntimeError:
        raise JobError(f"parties.{name}.device is '{text}': write 'cpu' or 'cuda:0'") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise JobError(f"parties.{name}.device is '{text}', but this machine has no CUDA device")
    return device


def _width(module: nn.Module, rows: torch.Tensor, name: str) -> int:
    try:
        with evaluating(module):
            embedding = module(rows)
    except Exception as error:  # A model of one's own may raise anything.
        raise JobError(
            f"the model of {name} cannot read rows of shape {tuple(rows.shape[1:])}: {error}"
        ) from error
    if not isinstance(embedding, torch.Tensor) or embedding.dim() != 2:
        shape = tuple(embedding.shape) if isinstance(embedding, torch.Tensor) else embedding
        raise JobError(f"the model of {name} must return [rows, width], it returned {shape}")
    return int(embedding.shape[1])


@dataclass(frozen=True)
class Ground:
    """What every learner of a job is built on."""

    job: Job
    methods: Mapping[str, Method]
    """By party; all but the step and the compression are common."""
    plan: BatchPlan
    widths: dict[str, int]
    """How wide each embedding is, of the parties that send or hold one."""
    objective: Objective
    top: nn.Module | None
    """A ready-made top model; None builds the job's."""
    spread: Callable[[str, nn.Module], nn.Module] = lambda name, module: module
    """Spreads the model of a part (`bottom`, `top`) over several processes, where there are any."""

    def place(self, name: str, bottom: Bottom) -> Place:
        """Where a party's learner computes."""
        dtype = DTYPES[self.job.train.dtype]
        seed, active = secret_seed(self.job, name), self.job.active
        evaluates = self.job.train.evaluate_plain
        return Place(name, self.job.seed, seed, bottom.device, dtype, active, evaluates)

    def build_top(self, bottom: Bottom) -> nn.Module:
        """The top model, built from the active party's seed or copied."""
        top = copy.deepcopy(self.top)
        if top is None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(secret_seed(self.job, self.job.active) + 1)
                top = build_top(self.job.top, self.widths, self.objective.outputs)
        top = top.to(device=bottom.device, dtype=DTYPES[self.job.train.dtype]).train()
        if self.top is not None or self.job.top.kind == "module":
            self._try(top, bottom.device)
        return top

    def _try(self, top: nn.Module, device: torch.device) -> None:
        """Refuse a top model of one's own that does not make predictions of embeddings."""
        dtype, wanted = DTYPES[self.job.train.dtype], (2, self.objective.outputs)
        rows = [torch.zeros(2, width, dtype=dtype, device=device) for width in self.widths.values()]
        takes = f"the list of the parties' embeddings, {', '.join(map(str, self.widths.values()))}"
        try:
            with torch.random.fork_rng(devices=[]), evaluating(top):
                prediction = top(rows)
        except Exception as error:  # It is somebody's own and may raise anything.
            raise JobError(f"the top model cannot read {takes} wide: {error}") from error
        shape = tuple(getattr(prediction, "shape", ())) or type(prediction).__name__
        if shape != wanted:
            raise JobError(
                f"the top model must return [rows, {wanted[1]}]; of 2 rows it gave {shape}"
            )


def build_passive(ground: Ground, name: str, bottom: Bottom) -> TorchPassive:
    """A passive party's learner; it knows the top model only where snapshots are exchanged."""
    assert bottom.build is not None
    modules = {"bottom": ground.spread("bottom", bottom.build())}
    common = (
        modules,
        bottom.features,
        _trainer(ground, name, modules),
        ground.methods[name],
        bottom.width,
        ground.place(name, bottom),
    )
    if not ground.methods[name].exchange.shares_labels:
        return TorchPassive(*common)
    return SnapshotPassive(
        *common,
        order=tuple(ground.widths),
        widths=ground.widths,
        objective=ground.objective,
        top=ground.build_top(bottom),
        train_count=ground.plan.rows,
    )


def build_active(
    ground: Ground, bottom: Bottom, labels: Labels, metrics: list[Metric]
) -> TorchActive:
    """The active party's learner."""
    name, objective = ground.job.active, ground.objective
    dtype = DTYPES[ground.job.train.dtype]
    modules = {"top": ground.spread("top", ground.build_top(bottom))}
    if bottom.build is not None:
        modules = {"bottom": ground.spread("bottom", bottom.build())} | modules
    weights = labels.weights
    method = ground.methods[name]
    learner = SnapshotActive if method.exchange.shares_labels else TorchActive
    return learner(
        modules,
        bottom.features,
        _trainer(ground, name, modules),
        method,
        bottom.width,
        ground.place(name, bottom),
        order=tuple(ground.widths),
        widths={party: width for party, width in ground.widths.items() if party != name},
        replies={party: own.compress.gradient for party, own in ground.methods.items()},
        objective=objective,
        labels={
            split: _labels(labels.part(split), objective, dtype, bottom.device) for split in SPLITS
        },
        sample_weights=None if weights is None else _tensor(weights, dtype, bottom.device),
        metrics=metrics,
    )


def _labels(
    array: Any, objective: Objective, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    return objective.prepare(torch.as_tensor(np.ascontiguousarray(array)), dtype).to(device)


def _trainer(ground: Ground, name: str, modules: Mapping[str, nn.Module]) -> Trainer:
    """One optimizer for the party, and one for the top model where the job gives it its own."""
    job, party = ground.job, ground.job.parties[name]
    shared = [module for part, module in modules.items() if part == "bottom"]
    groups = [(party.optimizer, f"parties.{name}.optimizer", shared)]
    if "top" in modules:
        if job.top.optimizer is None:
            shared.append(modules["top"])
        else:
            groups.append((job.top.optimizer, "top.optimizer", [modules["top"]]))
    optimizers: list[torch.optim.Optimizer] = []
    schedules: list[tuple[lr_scheduler.LRScheduler, bool]] = []
    for table, where, members in groups:
        parameters = [p for module in members for p in module.parameters()]
        optimizer = build_optimizer(table, parameters, where)
        if optimizer is not None:
            optimizers.append(optimizer)
            if party.schedule is not None:
                where = f"parties.{name}.schedule"
                schedules.append(build_schedule(party.schedule, optimizer, where))
    return Trainer(
        ground.methods[name],
        optimizers,
        schedules,
        ground.plan.per_epoch,
        len(job.parties),
        job.train.clip_norm,
    )
