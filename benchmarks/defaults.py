"""How good the defaults are: jobs that say nothing but who holds what, on every data set.

    python -m benchmarks.defaults                    everything, two seeds: about an hour
    python -m benchmarks.defaults --data bank,adult  some data sets
    python -m benchmarks.defaults --smoke            one small data set, two epochs

A candidate is an optimizer and the hidden layers of the top; the first is what a job has by
default. A figure is the mean over the seeds of the job's metric at the end, on validation rows:
a fifth of the training rows. Test rows play no part. A data set that is not on this computer is
left out, and said to be.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from colonnade.data.named import load as load_data
from colonnade.errors import DataError
from colonnade.job.files import load
from colonnade.job.records import Job, Party, Top, Train
from colonnade.run.pool import Task, train_all

DATA = ("breast-cancer", "digits", "credit", "bank", "adult", "gmsc", "mnist", "fmnist")
SEEDS = (0, 1)
VALIDATION = 0.2
Candidate = tuple[dict[str, Any], list[int]]
CANDIDATES: tuple[Candidate, ...] = (
    (Party().optimizer, Top().layers),
    ({"name": "adam", "lr": 5e-3}, [32]),
    ({"name": "adam", "lr": 5e-3}, []),
    ({"name": "adam", "lr": 1e-3}, [64]),
    ({"name": "adam", "lr": 3e-3}, [64]),
    ({"name": "adam", "lr": 1e-2}, [64]),
    ({"name": "sgd", "lr": 0.05, "momentum": 0.9}, [64]),
    ({"name": "sgd", "lr": 0.1}, []),
)


def title(candidate: Candidate) -> str:
    optimizer, hidden = candidate
    momentum = " momentum" if "momentum" in optimizer else ""
    return f"{optimizer['name']} {optimizer['lr']:g}{momentum}, top {hidden}"


def job_of(name: str, candidate: Candidate, seed: int, epochs: int | None) -> Job:
    """The built-in job's parties and columns, and nothing else of it."""
    optimizer, hidden = candidate
    source = load(name)
    parties = {
        party: Party(
            role=entry.role,
            columns=entry.columns,
            categorical=entry.categorical,
            view=entry.view,
            optimizer=optimizer,
        )
        for party, entry in source.parties.items()
    }
    train = Train(metric=source.train.metric, validation=VALIDATION, epochs=epochs)
    top = Top(hidden=hidden)
    return Job(name=name, data=source.data, parties=parties, train=train, top=top, seed=seed)


def measure(
    names: Sequence[str],
    candidates: Sequence[Candidate],
    seeds: Sequence[int],
    epochs: int | None = None,
    workers: int | None = None,
) -> list[list[str]]:
    """A row for each candidate: its mean metric on every data set."""
    tasks: list[Task] = [
        (f"{name}/{number}", job_of(name, candidate, seed, epochs), None)
        for name in names
        for number, candidate in enumerate(candidates)
        for seed in seeds
    ]
    finals: dict[str, list[float]] = {}
    for trial in train_all(tasks, workers):
        final = 0.0 if trial.bad or not trial.summary else trial.summary["metric"]["final"]
        finals.setdefault(trial.label, []).append(final)
    return [
        [title(candidate), *(f"{fmean(finals[f'{name}/{number}']):.3f}" for name in names)]
        for number, candidate in enumerate(candidates)
    ]


def present(names: Sequence[str], console: Console) -> list[str]:
    found = []
    for name in names:
        try:
            load_data(name)
            found.append(name)
        except DataError as error:
            console.print(f"left out: {error}")
    return found


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=",".join(DATA))
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args(words)
    console = Console()
    if asked.smoke:
        names = ["breast-cancer"]
        # In this process: starting others would take longer than the training.
        rows = measure(names, CANDIDATES[:2], [0], epochs=2, workers=1)
    else:
        seeds = [int(seed) for seed in asked.seeds.split(",")]
        names = present(asked.data.split(","), console)
        rows = measure(names, CANDIDATES, seeds)
    table = Table(title="Defaults: the metric on validation rows")
    table.add_column("optimizer and top")
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
