"""What is given to the public functions: taken where its meaning is obvious, else refused.

A wrong argument should be one sentence at the call, and no error from somewhere inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from colonnade.data.vertical import VerticalData
from colonnade.errors import DataError, JobError, RequestError, nearest
from colonnade.job.files import load
from colonnade.job.records import Job


def as_job(job: Any) -> Job:
    """A job, or the job of a file or a built-in name.

    >>> as_job("digits").name
    'digits'
    """
    if isinstance(job, Job):
        return job
    if isinstance(job, str | Path):
        return load(job)
    raise JobError(
        f"the job is {_kind(job)}: give a cn.Job, a job file, or the name of a built-in job"
    )


def as_seeds(seeds: Any) -> list[int]:
    """Seeds as plain numbers, each once.

    >>> as_seeds(range(2))
    [0, 1]
    """
    if isinstance(seeds, str | bytes | Mapping) or not isinstance(seeds, Iterable):
        raise JobError(f"seeds is {seeds!r}: give a list of whole numbers, as in [0, 1, 2]")
    plain = [each.item() if hasattr(each, "item") else each for each in seeds]
    for each in plain:
        if isinstance(each, bool) or not isinstance(each, int):
            raise JobError(f"a seed is {each!r}: give whole numbers, as in [0, 1, 2]")
    return list(dict.fromkeys(plain))


def as_methods(methods: Any) -> list[str | dict[str, Any]]:
    """Methods as texts and tables.

    >>> as_methods(("fedsgd", {"name": "fedbcd", "updates": 5}))
    ['fedsgd', {'name': 'fedbcd', 'updates': 5}]
    """
    cure = 'give a list, as in ["fedsgd", "fedbcd:updates=5"]'
    if isinstance(methods, str | bytes | Mapping) or not isinstance(methods, Iterable):
        raise JobError(f"methods is {_kind(methods)}: {cure}")
    found: list[str | dict[str, Any]] = []
    for each in methods:
        if not isinstance(each, str | Mapping):
            raise JobError(
                f"a method is {_kind(each)}: name it, as in 'fedbcd:updates=5', or "
                "'package.module:function' for one of your own"
            )
        found.append(each if isinstance(each, str) else dict(each))
    return found


def as_grid(grid: Any) -> dict[str, list[Any]]:
    """The values to try, by field.

    >>> as_grid({"train.batch_size": (32, 64)})
    {'train.batch_size': [32, 64]}
    """
    if not isinstance(grid, Mapping):
        raise JobError(
            f"the grid is {_kind(grid)}: give values by field, as in "
            "{'train.batch_size': [32, 64]}"
        )
    found: dict[str, list[Any]] = {}
    for field, values in grid.items():
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise JobError(f"the grid has {values!r} for {field}: give a list of values to try")
        found[str(field)] = [each.item() if hasattr(each, "item") else each for each in values]
    return found


def check_training(
    data: Any, models: Any, observers: Any, rules: Any, should_stop: Any, threads: Any
) -> None:
    """Refuse what a simulation cannot use."""
    if data is not None and not isinstance(data, VerticalData):
        raise DataError(
            f"the data is {_kind(data)}: make it with cn.vertical({{'bank': …}}, labels)"
        )
    check_models(models)
    if not isinstance(observers, Sequence) or isinstance(observers, str):
        raise RequestError(f"observers is {_kind(observers)}: give a list of them")
    for observer in observers:
        if not callable(observer):
            raise RequestError(
                f"an observer is {_kind(observer)} and cannot be called: give a function of an "
                "event"
            )
    if not isinstance(rules, Sequence) or not all(callable(rule) for rule in rules):
        raise RequestError("rules are not functions: give a list of functions of a message")
    if should_stop is not None and not callable(should_stop):
        raise RequestError(f"should_stop is {_kind(should_stop)}: give a function that is asked")
    check_count("threads", threads)


def check_models(models: Any) -> None:
    """Refuse models that are no modules by party."""
    if models is None:
        return
    if not isinstance(models, Mapping):
        raise JobError(
            f"models is {_kind(models)}: give modules by party, as in {{'bank': module}}"
        )
    for name, module in models.items():
        if not isinstance(module, nn.Module):
            raise JobError(
                f"the model of {name} is {_kind(module)}: give a torch module, and name built-in "
                "models in the job, as in cn.Party(model='mlp')"
            )


def check_count(name: str, value: Any) -> None:
    """Refuse what is no whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RequestError(f"{name} is {value!r}: it must be a whole number of 1 or more")


def check_widths(job: Job, widths: Any) -> None:
    """Refuse widths that do not say how wide every party's embedding is."""
    if not isinstance(widths, Mapping):
        raise JobError(
            f"widths is {widths!r}: give one for each party, as in {dict.fromkeys(job.parties, 16)}"
        )
    for name in job.parties:
        if name not in widths:
            raise JobError(f"widths has nothing for {name}: give one for each party of the job")
    for name, width in widths.items():
        if name not in job.parties:
            raise JobError(
                f"widths has '{name}', no party of the job: {nearest(name, job.parties)}"
            )
        if isinstance(width, bool) or not isinstance(width, int) or width < 0:
            raise JobError(f"the width of {name} is {width!r}: give a whole number of 0 or more")


def _kind(value: Any) -> str:
    """What something is, for a sentence."""
    if value is None:
        return "None"
    if isinstance(value, str):
        return f"the text '{value[:60]}'"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"of type {type(value).__name__}"
