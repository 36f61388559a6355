"""A paper's table, ours beside it; one file a table, found by looking.

A reproduction's name is that of its file with hyphens. The file has a `STUDY`, which the engine in
`study/` conducts; where an experiment is no comparison of methods, it has a function `reproduce`.

May import study, run, privacy, record, data, job, methods, cipher, transfer.
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
from colonnade.study.design import Claim, Study
from colonnade.study.page import Sheet, claims_table, claims_told

if TYPE_CHECKING:
    from rich.table import Table


class Say(Protocol):
    """Told how far it is: a text, and where they are known, how many trainings are done, of how
    many."""

    def __call__(self, text: str, done: int = 0, total: int = 0) -> None: ...


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
    claims: list[tuple[Claim, float | None]] = field(default_factory=list)
    """Claims, and what was found of each."""
    measured: frozenset[str] = frozenset()
    """Columns of times that were measured on this machine: another call gives others."""
    measured_notes: list[str] = field(default_factory=list)
    """Notes that tell such times."""

    def table(self) -> Table:
        """The table, to print with rich."""
        from rich.table import Table

        notes = "\n".join([*self.notes, *self.measured_notes])
        table = Table(title=self.title, caption=notes, caption_justify="left")
        for number, column in enumerate(self.columns):
            words = number == 0 or any(row[number][:1].isalpha() for row in self.rows[:1])
            table.add_column(column, justify="left" if words else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self, measured: bool = False) -> str:
        """The table as a page, with or without what was measured by the clock of this machine.

        >>> print(Reproduction("A", ["Q", "s"], [["1", "2.5"]], measured=frozenset("s")).markdown())
        A:
        <BLANKLINE>
        | Q |
        |---|
        | 1 |
        <BLANKLINE>
        """
        places = [n for n, name in enumerate(self.columns) if measured or name not in self.measured]
        chosen = [[row[n] for n in places] for row in self.rows]
        own = Sheet(f"{self.title}:", [self.columns[n] for n in places], chosen)
        parts = [claims_table(self.claims).markdown()] if self.claims else []
        parts.append(own.markdown())
        notes = [*self.notes, *(self.measured_notes if measured else ())]
        if notes:
            parts.append("\n".join(f"- {note}" for note in notes))
        return "\n\n".join(parts) + "\n"

    def told(self, about: str) -> dict[str, Any]:
        """What it shows and what comes of its claims, as a study tells it."""
        return {"about": about, "claims": claims_told(self.claims)}

    def to_dict(self) -> dict[str, Any]:
        """The reproduction as plain values."""
        table = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        notes = [*self.notes, *self.measured_notes]
        return {"title": self.title, "table": table, "notes": notes, **self.data}


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


@dataclass(frozen=True)
class Known:
    """A reproduction that there is."""

    name: str
    about: str
    """What it shows, in a line."""
    study: Study | None
    function: ReproduceFunction | None


def known() -> dict[str, Known]:
    """Every reproduction, by name.

    >>> known()["pasta-timing"].study is None, "_cvfl" in known()
    (True, False)
    """
    found: dict[str, Known] = {}
    for module_info in pkgutil.iter_modules(__path__):
        if module_info.name.startswith("_"):  # what several experiments have in common
            continue
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        name, study = module_info.name.replace("_", "-"), getattr(module, "STUDY", None)
        about = (module.__doc__ or "").strip().partition("\n")[0].rstrip(".")
        if study is not None:
            about = study.about
        found[name] = Known(name, about, study, getattr(module, "reproduce", None))
    return found
