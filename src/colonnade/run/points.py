"""Runs that are kept: each is a file, named by a hash of its whole job, and never trained twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from colonnade.formats import check, stamp
from colonnade.job.files import to_tables
from colonnade.job.records import Compute, Job, Limits, Network, Party
from colonnade.methods import build
from colonnade.record.private import write_whole
from colonnade.run.pool import OnDone, Spread, Task, Trial, train_families

DIGEST = 24
"""Letters of a hash that are enough to tell jobs apart."""
OnPlan = Callable[[str, int, int], None]
"""Told what is about to be trained, how many runs that still takes, and of how many."""


def digest(job: Job) -> str:
    """A hash of everything that a job says, but for where its parties compute.

    >>> from colonnade.job import load
    >>> digest(load("digits")) == digest(load("digits", ["seed=1"]))
    False
    """
    parties = {
        name: msgspec.structs.replace(party, device=Party().device)
        for name, party in job.parties.items()
    }
    job = msgspec.structs.replace(job, parties=parties)
    text = json.dumps(to_tables(job), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST]


def read_tables(path: Path) -> dict[str, Any] | None:
    """The tables of a JSON file; None where there is none, or half of one."""
    try:
        tables = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return tables if isinstance(tables, dict) else None


class Measured(msgspec.Struct, frozen=True):
    """One evaluation of a run, on the validation rows."""

    round: int
    time_s: float
    bytes: int
    """Of the training, up and down, until then."""
    value: float | None
    loss: float | None = None
    """Of the training, in the round before."""
    epoch: float | None = None


SPENT = ("rounds", "epochs", "time_s", "bytes", "evaluation_bytes", "updates", "busy_s", "idle_s",
         "row_weights")  # fmt: skip
"""What a run's summary says of its costs, and of what its rows were worth."""


class Outcome(msgspec.Struct, frozen=True):
    """What a run has come to, as far as it can be judged by."""

    label: str
    seed: int
    status: str
    error: str | None = None
    metric: str | None = None
    history: list[Measured] = []
    test: float | None = None
    """The metric of the best round's weights on the test rows."""
    job: dict[str, Any] = {}
    spent: dict[str, Any] = {}
    """What the whole run has cost, as its summary has it."""

    @classmethod
    def of(cls, trial: Trial) -> Outcome:
        """The outcome of a run that has just ended."""
        common = trial.label, trial.job.seed, trial.status, trial.error
        if trial.summary is None:
            return cls(*common, job=to_tables(trial.job))
        metric = trial.summary["metric"]
        history = [
            Measured(
                row["round"],
                row["time_s"],
                row["bytes_up"] + row["bytes_down"],
                row.get(metric["name"]),
                row.get("loss"),
                row.get("epoch"),
            )
            for row in trial.history
        ]
        spent = {name: trial.summary[name] for name in SPENT}
        return cls(*common, metric["name"], history, metric["test"], to_tables(trial.job), spent)

    @property
    def bad(self) -> bool:
        """Whether its figures mean nothing: it failed or diverged, and counts as a miss."""
        return self.status in ("failed", "diverged")

    def values(self) -> list[float | None]:
        """The metric of every evaluation; none of a run that failed or diverged."""
        return [] if self.bad else [each.value for each in self.history]


def _families(jobs: Sequence[tuple[str, Job]]) -> list[list[Task]]:
    """Jobs that differ in nothing but their network and speeds are trained once and clocked again,
    where what their method learns does not depend on the clock; where it depends on the number of
    updates alone, jobs that differ in nothing but their network, as that is most often the same."""
    found: dict[str, list[Task]] = {}
    for label, job in jobs:
        common, method = job, build(job.method)
        if not method.by_clock:
            common = msgspec.structs.replace(
                job, network=Network(), compute=Compute(), limits=Limits()
            )
        elif method.by_counts:
            common = msgspec.structs.replace(job, network=Network())
        found.setdefault(digest(common), []).append((label, job, None))
    return list(found.values())


class Points:
    """A folder of runs."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int | None = None,
        spread: Spread | None = None,
        on_plan: OnPlan | None = None,
        on_done: OnDone | None = None,
        beacons: Path | None = None,
        tolerant: bool = False,
    ) -> None:
        """With `tolerant`, a job that is refused counts as failed, and the others go on."""
        self._folder, self._workers, self._spread = folder, workers, spread
        self._tolerant = tolerant
        self._on_plan, self._on_done = on_plan, on_done
        self._beacons = beacons
        self._known: dict[str, Outcome] = {}
        self.trained = 0
        """How many runs were not there already."""

    def train(self, title: str, jobs: Sequence[tuple[str, Job]]) -> list[Outcome]:
        """The outcomes of jobs, each with a label for people; what is there is not trained."""
        names = [digest(job) for _, job in jobs]
        tasks = {name: task for name, task in zip(names, jobs, strict=True) if not self._has(name)}
        if self._on_plan is not None:
            self._on_plan(title, len(tasks), len(set(names)))
        self._folder.mkdir(parents=True, exist_ok=True)
        train_families(
            _families(list(tasks.values())),
            self._workers,
            self._keep,
            spread=self._spread,
            beacons=self._beacons,
            tolerant=self._tolerant,
        )
        return [self._known[name] for name in names]

    def _has(self, name: str) -> bool:
        if name not in self._known:
            path = self._folder / f"{name}.json"
            tables = read_tables(path)
            try:
                if tables is not None:
                    check("race", tables.get("format"), path)
                    self._known[name] = msgspec.convert(tables, Outcome)
            except msgspec.ValidationError:
                # Another version of this program wrote it, or another command: it is made anew.
                return False
        return name in self._known

    def _keep(self, trial: Trial) -> None:
        name, outcome = digest(trial.job), Outcome.of(trial)
        text = json.dumps(stamp("race") | msgspec.to_builtins(outcome), indent=1)
        write_whole(self._folder / f"{name}.json", text)
        self._known[name] = outcome
        self.trained += 1
        if self._on_done is not None:
            self._on_done(trial)
