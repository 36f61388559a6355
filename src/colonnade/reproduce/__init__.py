"""A paper's table, ours beside it; one file a table, found by looking.

A reproduction's name is that of its file with hyphens; the file has a function `reproduce`.

May import run, privacy, record, data, job, methods, cipher, transfer.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from colonnade.job.records import Job
from colonnade.run.compare import Comparison
from colonnade.run.pool import Task, Trial, train_all

if TYPE_CHECKING:
    from rich.table import Table


class Say(Protocol):
    """Told how far it is: a text, and where they are known, how many trainings are done, of how
    many."""

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None: ...


class Progress:
    """Says how far a race is, for `on_plan` and `on_done` of `run.race`.

    >>> from colonnade.job import load
    >>> progress = Progress("credit", lambda *words: print(*words))
    >>> progress.plan("tuning", 1, 3)
    credit: tuning, 1 of 3 to do
    >>> progress.done(Trial("fedsgd", load("digits"), None, []))
    credit: fedsgd: failed 3 3
    """

    def __init__(self, name: str, say: Say) -> None:
        self._name, self._say = name, say
        self._done = self._total = 0

    def plan(self, title: str, missing: int, count: int) -> None:
        """So many runs of a stage are missing, of so many."""
        self._done, self._total = count - missing, count
        self._say(f"{self._name}: {title}, {missing} of {count} to do")

    def done(self, trial: Trial) -> None:
        """One more has ended."""
        self._done += 1
        self._say(f"{self._name}: {trial.label}: {trial.status}", self._done, self._total)


ReproduceFunction = Callable[[Path | None, list[int] | None, bool, Say], "Reproduction"]


@dataclass(frozen=True)
class Reproduction:
    """A table with the paper's figures beside ours."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    """The figures behind the table, for `--json`."""

    def table(self) -> Table:
        """The table, to print with rich."""
        from rich.table import Table

        table = Table(title=self.title, caption="\n".join(self.notes), caption_justify="left")
        for number, column in enumerate(self.columns):
            words = number == 0 or any(row[number][:1].isalpha() for row in self.rows[:1])
            table.add_column(column, justify="left" if words else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return table

    def to_dict(self) -> dict[str, Any]:
        """The reproduction as plain values."""
        table = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "table": table, "notes": self.notes, **self.data}


def slow_network(latency: int, unit_ms: int) -> list[str]:
    """The settings of PASTA's experiments: one-way latency in units, forward 10 units, backward
    20, aggregate 10, at 300 Mbit.

    >>> slow_network(50, unit_ms=10)[0]
    'network.latency=500ms'
    """
    return [
        f"network.latency={latency * unit_ms}ms",
        "network.bandwidth=300mbit",
        f"compute.forward={10 * unit_ms}ms",
        f"compute.backward={20 * unit_ms}ms",
        f"compute.aggregate={10 * unit_ms}ms",
    ]


def train(groups: Sequence[Mapping[str, Job]], seeds: Sequence[int]) -> list[Comparison]:
    """Train the jobs of all groups, by label, with every seed, all at once."""
    tasks: list[Task] = [
        (label, msgspec.structs.replace(job, seed=seed), None)
        for jobs in groups
        for label, job in jobs.items()
        for seed in seeds
    ]
    trials = iter(train_all(tasks))
    return [Comparison(list(islice(trials, len(jobs) * len(seeds)))) for jobs in groups]


def figures(trials: Sequence[Trial], name: str) -> list[float | None]:
    """A figure of each run; None where it missed the target, failed or diverged."""
    return [trial.figure(name) for trial in trials]


def mean_figure(trials: Sequence[Trial], name: str) -> float:
    """The mean of a figure; infinite where a run has none."""
    return fmean(math.inf if each is None else each for each in figures(trials, name))


def ratio(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float | None:
    """How much larger our figures are, on the seeds with which both have one.

    >>> ratio([1.0, None, 5.0], [2.0, 3.0, 10.0])
    0.5
    """
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    return sum(a for a, _ in both) / sum(b for _, b in both) if both else None


def known() -> dict[str, ReproduceFunction]:
    """Every reproduction, by name.

    >>> [name for name in known() if name.startswith("pasta")]
    ['pasta-latency', 'pasta-timing']
    """
    found: dict[str, ReproduceFunction] = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        found[module_info.name.replace("_", "-")] = module.reproduce
    return found
