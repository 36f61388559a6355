"""A party's optimizer and its learning-rate schedule, by torch's names."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.optim import lr_scheduler

from colonnade.errors import JobError, nearest

_NEEDS_CLOSURE = ("LBFGS",)
_FLOAT_MAX = torch.finfo(torch.float32).max
_NEEDS_METRIC = ("ReduceLROnPlateau",)


def _classes(module: Any, base: type) -> dict[str, type]:
    return {
        name.lower(): value
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, base) and value is not base
    }


class InverseSqrt(lr_scheduler.LambdaLR):
    """lr₀/√e after e steps of the schedule: the falling rate of the PASTA paper."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer, lambda step: 1 / max(1, step) ** 0.5)


OPTIMIZERS = _classes(torch.optim, torch.optim.Optimizer)
SCHEDULES = _classes(lr_scheduler, lr_scheduler.LRScheduler) | {"inverse-sqrt": InverseSqrt}


def _look_up(
    table: Mapping[str, Any], known: Mapping[str, type], what: str, where: str
) -> tuple[type, dict[str, Any]]:
    options = dict(table)
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise JobError(f'{where} has no name: write {{ name = "{next(iter(known))}", … }}')
    if name.lower() not in known:
        raise JobError(f"{where}: torch has no {what} '{name}': {nearest(name.lower(), known)}")
    found = known[name.lower()]
    if found.__name__ in _NEEDS_CLOSURE + _NEEDS_METRIC:
        raise JobError(
            f"{where}: {found.__name__} needs the loss itself, an update has only its "
            f"gradient: choose another {what}"
        )
    skipped = ("self", "params", "optimizer")
    accepted = [key for key in inspect.signature(found).parameters if key not in skipped]
    for key in options:
        if key not in accepted:
            raise JobError(f"{where}: {name} has no option '{key}': {nearest(key, accepted)}")
        if type(options[key]) in (int, float) and abs(options[key]) > _FLOAT_MAX:
            raise JobError(f"{where}.{key} is {options[key]}: give a smaller number")
    return found, options


def _construct(build: Any, first: Any, options: Mapping[str, Any], where: str) -> Any:
    try:
        return build(first, **options)
    except (TypeError, ValueError) as error:
        raise JobError(f"{where}: {error}") from None


def build_optimizer(
    table: Mapping[str, Any], parameters: Iterable[torch.nn.Parameter], where: str
) -> torch.optim.Optimizer | None:
    """The optimizer of a table such as `{ name = "adam", lr = 1e-3 }`; None without parameters.

    >>> weights = [torch.nn.Parameter(torch.ones(1))]
    >>> type(build_optimizer({"name": "adam", "lr": 0.01}, weights, "here")).__name__
    'Adam'
    """
    found, options = _look_up(table, OPTIMIZERS, "optimizer", where)
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    if not trainable:
        return None
    optimizer: torch.optim.Optimizer = _construct(found, trainable, options, where)
    return optimizer


def build_schedule(
    table: Mapping[str, Any], optimizer: torch.optim.Optimizer, where: str
) -> tuple[lr_scheduler.LRScheduler, bool]:
    """The schedule of a table such as `{ name = "StepLR", step_size = 30 }`, and whether it steps
    every round (`every = "round"`) instead of every epoch."""
    options, by_round = _timed(table, where)
    found, options = _look_up(options, SCHEDULES, "schedule", where)
    return _construct(found, optimizer, options, where), by_round


def check_tables(
    optimizer: Mapping[str, Any], schedule: Mapping[str, Any] | None, where: str, thorough: bool
) -> None:
    """Look up an optimizer and its schedule; a thorough check also tries them on two weights.

    >>> check_tables({"name": "sgd", "lr": -1}, None, "top", thorough=True)
    Traceback (most recent call last):
    colonnade.errors.JobError: top.optimizer: Invalid learning rate: -1
    """
    _look_up(optimizer, OPTIMIZERS, "optimizer", f"{where}.optimizer")
    if schedule is not None:
        _look_up(
            _timed(schedule, f"{where}.schedule")[0], SCHEDULES, "schedule", f"{where}.schedule"
        )
    if thorough:
        weights = [torch.nn.Parameter(torch.zeros(1, 2))]
        built = build_optimizer(optimizer, weights, f"{where}.optimizer")
        assert built is not None
        if schedule is not None:
            build_schedule(schedule, built, f"{where}.schedule")


def _timed(table: Mapping[str, Any], where: str) -> tuple[dict[str, Any], bool]:
    """A schedule's table without `every`, and whether that is every round."""
    options = dict(table)
    every = options.pop("every", "epoch")
    if every not in ("epoch", "round"):
        raise JobError(f"{where}.every is {every!r}: write 'epoch' or 'round'")
    return options, every == "round"
