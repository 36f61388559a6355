"""From a party that is ready, and what all have agreed on, to a learner."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import nn
from torch.optim import lr_scheduler

from colonnade.errors import JobError
from colonnade.learn.active import TorchActive
from colonnade.learn.agreement import Agreement
from colonnade.learn.average import Average
from colonnade.learn.encrypted import EncryptedActive, EncryptedPassive
from colonnade.learn.objective import Objective
from colonnade.learn.optim import build_optimizer, build_schedule
from colonnade.learn.participant import Participant, secret_seed
from colonnade.learn.passive import TorchPassive
from colonnade.learn.snapshot import SnapshotActive, SnapshotPassive
from colonnade.learn.trainer import Trainer, evaluating
from colonnade.models import top as tops
from colonnade.protect.masks import Keys, Masks


def build_top(party: Participant, widths: Mapping[str, int], objective: Objective) -> nn.Module:
    """The top model, built from the active party's seed or copied."""
    job, top = party.job, copy.deepcopy(party.top)
    if top is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(secret_seed(job, job.active) + 1)
            top = tops.build_top(job.top, dict(widths), objective.outputs)
    top = top.to(device=party.device, dtype=party.dtype).train()
    if party.top is not None or job.top.kind == "module":
        _try(top, party, widths, objective)
    return top


def _try(
    top: nn.Module, party: Participant, widths: Mapping[str, int], objective: Objective
) -> None:
    """Refuse a top model of one's own that does not make predictions of embeddings."""
    wanted = (2, objective.outputs)
    rows = [torch.zeros(2, w, dtype=party.dtype, device=party.device) for w in widths.values()]
    takes = f"the list of the parties' embeddings, {', '.join(map(str, widths.values()))}"
    try:
        with torch.random.fork_rng(devices=[]), evaluating(top):
            prediction = top(rows)
    except Exception as error:  # It is somebody's own and may raise anything.
        raise JobError(f"the top model cannot read {takes} wide: {error}") from error
    shape = tuple(getattr(prediction, "shape", ())) or type(prediction).__name__
    if shape != wanted:
        raise JobError(f"the top model must return [rows, {wanted[1]}]; of 2 rows it gave {shape}")


def build_bottom(party: Participant) -> nn.Module:
    """A party's bottom model before its first round."""
    assert party.model is not None
    model = party.model()
    return model if party.origin is None else party.origin.load(model, "bottom")


def begun_top(party: Participant, widths: Mapping[str, int], objective: Objective) -> nn.Module:
    """The active party's top model before its first round."""
    top = build_top(party, widths, objective)
    return top if party.origin is None else party.origin.load(top, "top")


def build_passive(
    party: Participant, agreement: Agreement, objective: Objective, masks: Masks | None = None
) -> TorchPassive:
    """A passive party's learner; it knows the top model only where snapshots are exchanged, and has
    masks only where embeddings are added up."""
    assert party.model is not None
    modules = {"bottom": party.spread("bottom", build_bottom(party))}
    common = modules, _trainer(party, agreement, modules), party, agreement
    if agreement.method.protect.cipher is not None:
        assert masks is not None
        return EncryptedPassive(*common, masks=masks, objective=objective)
    if not agreement.method.exchange.sends_snapshots:
        return TorchPassive(*common, masks)
    top = build_top(party, agreement.present, objective)
    return SnapshotPassive(*common, objective=objective, top=top)


def build_active(party: Participant, agreement: Agreement, keys: Keys | None = None) -> TorchActive:
    """The active party's learner; it has keys only where embeddings are added up."""
    assert party.objective is not None
    top = begun_top(party, agreement.present, party.objective)
    if agreement.method.protect.sum is not None and not isinstance(top, tops.Agg):
        raise JobError(
            f"method.protect.sum shows the top model a sum, and {type(top).__name__} is not known "
            "to be content with that: give no top model, or one of colonnade.models.top.Agg"
        )
    modules = {"top": party.spread("top", top)}
    if party.model is not None:
        modules = {"bottom": party.spread("bottom", build_bottom(party))} | modules
    common = modules, _trainer(party, agreement, modules), party, agreement
    if agreement.method.protect.cipher is not None:
        assert keys is not None
        return EncryptedActive(*common, keys=keys)
    learner = SnapshotActive if agreement.method.exchange.sends_snapshots else TorchActive
    return learner(*common)


def _trainer(ready: Participant, agreement: Agreement, modules: Mapping[str, nn.Module]) -> Trainer:
    """One optimizer for the party, and one for the top model where the job gives it its own."""
    job, name = ready.job, ready.me
    party = job.parties[name]
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
    method = agreement.methods[name]
    return Trainer(
        method,
        optimizers,
        schedules,
        agreement.plan.per_epoch,
        len(job.parties),
        job.train.clip_norm,
        Average(method.average, modules),
    )
