"""Methods side by side: the same job, several methods, several seeds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from colonnade import methods as known_methods
from colonnade.errors import JobError, RequestError
from colonnade.formats import stamp
from colonnade.job.files import dumps, with_sets
from colonnade.job.records import Job
from colonnade.job.texts import parse_method
from colonnade.record.chain import printable
from colonnade.record.figure import Curve, curves, data_frame
from colonnade.record.folder import check_folder
from colonnade.record.run import write_rows
from colonnade.record.table import (
    COSTS,
    SPENT,
    comparison_table,
    plain,
    spread,
    trimmed,
)
from colonnade.run.arguments import as_job, as_methods, as_seeds
from colonnade.run.naming import method_text
from colonnade.run.pool import OnDone, Task, Trial, train_all
from colonnade.run.sweep import Sweep
from colonnade.run.tracked import tracked
from colonnade.tracking.tracker import Track, trackers_of

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from rich.table import Table

    from colonnade.learn.participant import Participant


SHOWN = ("final", "best", "test")
"""The figures of a metric: of the last and of the best round on the rows that are chosen by, and of
the best round on the test rows."""


TOLD = ("labels", "columns")
"""What an audit is about."""


@dataclass(frozen=True)
class Comparison:
    """Methods side by side: every run, in the order of the methods and then the seeds."""

    trials: list[Trial]

    def __repr__(self) -> str:
        job = self.trials[0].job.name if self.trials else "nothing"
        return f"<Comparison on {job}: {', '.join(self.methods())}; {len(self.trials)} runs>"

    def methods(self) -> dict[str, list[Trial]]:
        """The runs by method."""
        found: dict[str, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.label, []).append(trial)
        return found

    def rows(self) -> list[dict[str, Any]]:
        """A row for each method: mean and sample deviation over the seeds, and who missed.

        What it cost to reach the target is taken over the seeds that reached it (`reached`); a
        run that failed or diverged is a miss. `speed_up` is the first method's time to the
        target over this one's, on the seeds with which both reached it.
        """
        by_method = self.methods()
        first = next(iter(by_method.values()), [])
        return [_row(label, trials, first) for label, trials in by_method.items()]

    def table(self, width: int | None = None) -> Table:
        """The rows, to print with rich where there are so many columns of text."""
        notes = [*self._positive(), *self._known(), *self.notes()]
        return comparison_table(self.rows(), notes, width)

    def _positive(self) -> list[str]:
        found = {trial.summary.get("positive") for trial in self.trials if trial.summary}
        return [f"The positive class is '{printable(name)}'." for name in found if name]

    def _known(self) -> list[str]:
        """What the share of labels that was told is to be held against."""
        audits = [(trial.summary or {}).get("privacy", {}) for trial in self.trials]
        known = [each["labels_known"] for each in audits if each.get("labels_known") is not None]
        if not known:
            return []
        return [
            f"Labels and columns told by the best attack; {max(known):.3f} of the labels by none."
        ]

    def notes(self) -> list[str]:
        """A sentence for the runs that failed or diverged, by method and reason."""
        seeds: dict[tuple[str, str], list[str]] = {}
        for trial in self.trials:
            if trial.bad:
                why = trial.status + (f": {trial.error}" if trial.error else "")
                seeds.setdefault((trial.label, why), []).append(str(trial.job.seed))
        return [f"{label}, seed {', '.join(bad)}: {why}" for (label, why), bad in seeds.items()]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values: the rows, and every run's summary."""
        runs = [
            trial.summary
            or {
                "method": trial.job.method,
                "seed": trial.job.seed,
                "status": trial.status,
                "error": trial.error,
            }
            for trial in self.trials
        ]
        job = self.trials[0].job.name
        return {**stamp("comparison"), "job": job, "methods": self.rows(), "runs": runs}

    def frame(self) -> pd.DataFrame:
        """Every evaluation of every run, with its method and seed, as a pandas data frame."""
        return data_frame(
            [
                {"method": trial.label, "seed": trial.job.seed, **row}
                for trial in self.trials
                for row in trial.history
            ]
        )

    def plot(self, against: str = "time_s") -> go.Figure:
        """The metric against `time_s`, `round`, `epoch` or `bytes`, a line for each run."""
        lines = []
        for trial in self.trials:
            metric = trial.summary["metric"]["name"] if trial.summary else "metric"
            name = f"{trial.label}, seed {trial.job.seed}"
            lines.append(Curve(name, trial.label, metric, trial.history))
        return curves(lines, against)

    def _repr_html_(self) -> str:
        """As a notebook shows it; a curve for each method, of its first seed."""
        from colonnade.record.html import comparison_html, points_of

        firsts = {label: trials[0] for label, trials in self.methods().items()}
        names = [each.summary["metric"]["name"] for each in firsts.values() if each.summary]
        metric = names[0] if names else "metric"
        lines = [(label, points_of(each.history, metric)) for label, each in firsts.items()]
        return comparison_html(repr(self).strip("<>"), self.table(), lines, metric)

    def save(self, folder: str | Path) -> Path:
        """Write `comparison.json`, `table.txt`, and each run's job, history and summary."""
        from rich.console import Console

        out = Path(folder)
        for trial in self.trials:
            run = run_folder(out, trial.label, trial.job.seed)
            run.mkdir(parents=True, exist_ok=True)
            (run / "job.toml").write_text(dumps(trial.job))
            write_rows(run / "history.parquet", trial.history, "history")
            failed = {**stamp("run"), "status": trial.status, "error": trial.error}
            summary = trial.summary or failed
            (run / "summary.json").write_text(json.dumps(summary, indent=1))
        (out / "comparison.json").write_text(json.dumps(self.to_dict(), indent=1))
        console = Console(file=StringIO(), width=120, markup=False, emoji=False)
        with console.capture() as captured:
            console.print(self.table())
        (out / "table.txt").write_text(trimmed(captured.get()), encoding="utf-8")
        return out


def compare(
    job: Job | str | Path,
    methods: Sequence[str | Mapping[str, Any]],
    seeds: Sequence[int] = (0, 1, 2),
    *,
    workers: int | None = None,
    tuned: Sweep | str | Path | None = None,
    out: str | Path | None = None,
    on_done: OnDone | None = None,
    privacy: bool = False,
    beacons: Path | None = None,
    track: Track = None,
) -> Comparison:
    """Train a job with several methods and seeds, and put them side by side.

    Args:
        job: the job, or a job file, or a built-in name; its own method plays no part.
        methods: `"fedsgd"`, `"fedbcd:updates=5"`, or tables `{"name": "fedbcd", "updates": 5}`.
        seeds: every method is trained with each of them.
        workers: processes side by side; by default one for each core.
        tuned: a sweep, or its folder, from which every method takes the best settings.
        out: a folder in which every run is saved whole, as soon as it is done.
        on_done: told of every run that ends.
        privacy: audit every run's traffic, and put what it tells beside what it costs.
        beacons: a folder in which each run that is under way says how far it is.
        track: tools that get every run when it is done, as in `simulate`; with `out`, TensorBoard
            needs no folder.

    Example:
        >>> from colonnade.job import load
        >>> job = load("digits", ["train.epochs=1"])
        >>> result = compare(job, ["fedsgd", "fedbcd:updates=2"], seeds=[0], workers=1)
        >>> [row["method"] for row in result.rows()]
        ['fedsgd', 'fedbcd:updates=2']
    """
    job, seeds, methods = as_job(job), as_seeds(seeds), as_methods(methods)
    trackers = trackers_of(track, None if out is None else Path(out))
    tuned = Sweep.load(tuned) if isinstance(tuned, str | Path) else tuned
    tables = [parse_method(each) if isinstance(each, str) else dict(each) for each in methods]
    labels = [method_text(table) for table in tables]
    if not tables or len(set(labels)) < len(labels) or not seeds:
        raise JobError("a comparison needs methods, each named once, and at least one seed")
    jobs = [_tuned(msgspec.structs.replace(job, method=table), tuned) for table in tables]
    prepare_all(jobs)
    tasks: list[Task] = []
    for label, each in zip(labels, jobs, strict=True):
        for seed in seeds:
            folder = None if out is None else run_folder(out, label, seed)
            tasks.append((label, msgspec.structs.replace(each, seed=seed), folder))
    if out is not None:
        _check_folder(Path(out), tasks)
    told = tracked(trackers, on_done)
    result = Comparison(train_all(tasks, workers, told, privacy, None, beacons))
    if out is not None:
        result.save(out)
    return result


def _check_folder(out: Path, tasks: Sequence[Task]) -> None:
    """Refuse a folder with runs that are none of these; the same ones are trained again."""
    check_folder(out, "compare")
    known = {folder: dumps(job) for _, job, folder in tasks}
    for path in sorted(out.glob("runs/*/*/job.toml")):
        if known.get(path.parent) != path.read_text(errors="replace"):
            raise RequestError(
                f"{out} holds another comparison, with a run in {path.parent}: "
                "choose another folder"
            )


def run_folder(out: str | Path, label: str, seed: int) -> Path:
    """Where a comparison saves a run."""
    return Path(out) / "runs" / re.sub(r"[^\w.=-]+", "-", label) / f"seed-{seed}"


def _tuned(job: Job, tuned: Sweep | None) -> Job:
    """The job with the best settings of a sweep; those of the method are never taken over."""
    method = known_methods.build(job.method)
    if tuned is None:
        return job
    best = tuned.best(method.composition())
    return with_sets(job, *(text for text in best.sets if not text.startswith("method.")))


def prepare_all(jobs: Sequence[Job]) -> Participant:
    """Refuse here what would else be refused after hours, when that method's turn has come; the
    active party of the first job."""
    from colonnade.data.party import assemble
    from colonnade.run.naming import check_names
    from colonnade.run.setup import prepare

    for job in jobs:
        check_names(job)
    data = assemble(jobs[0])
    found = [prepare(job, data) for job in jobs]
    return found[0][jobs[0].active]


def _row(label: str, trials: Sequence[Trial], first: Sequence[Trial]) -> dict[str, Any]:
    good = {trial.job.seed: trial.summary for trial in trials if trial.summary and not trial.bad}
    summaries = list(good.values())
    reached = _times(trials)
    nothing: dict[str, Any] = {"metric": {"name": None, "chosen_on": None}, "clock": "virtual"}
    some = next((trial.summary for trial in trials if trial.summary), nothing)
    row: dict[str, Any] = {
        "method": label,
        "runs": len(trials),
        "failed": len(trials) - len(good),
        "metric": some["metric"]["name"],
        "chosen_on": some["metric"]["chosen_on"],
        "clock": some["clock"],
        "target": trials[0].job.train.target,
        "reached": len(reached),
    }
    figures = {key: [each["metric"][key] for each in summaries] for key in SHOWN}
    for cost, _, _ in COSTS:
        figures[cost] = [each[cost] for each in summaries]
        spent = SPENT[cost]
        totals = [each[spent] for each in summaries]
        figures[spent] = [each["total"] for each in totals] if spent == "bytes" else totals
    if any("privacy" in each for each in summaries):
        for name in TOLD:
            figures[f"{name}_told"] = [each.get("privacy", {}).get(name) for each in summaries]
    for name, values in figures.items():
        known = [value for value in values if value is not None]
        row[f"{name}_mean"], row[f"{name}_deviation"] = spread(known)
    before = _times(first)
    both = reached.keys() & before.keys()
    taken = sum(reached[seed] for seed in both)
    # On a network without latency or costs nothing takes any time.
    row["speed_up"] = sum(before[seed] for seed in both) / taken if taken else None
    return dict(plain(row))


def _times(trials: Sequence[Trial]) -> dict[int, float]:
    """The time to the target by seed, of the runs that reached it."""
    times = {
        trial.job.seed: trial.summary["time_to_target_s"]
        for trial in trials
        if trial.summary and not trial.bad
    }
    return {seed: time for seed, time in times.items() if time is not None}
