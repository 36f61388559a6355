"""A resumable grid over any fields of a job."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import msgspec

from colonnade import methods
from colonnade.errors import FailedError, JobError, RequestError
from colonnade.formats import check, stamp
from colonnade.job.files import to_tables, with_sets
from colonnade.job.records import Job
from colonnade.job.trust import outside_names
from colonnade.plugins import check_allowed
from colonnade.record.folder import check_folder
from colonnade.record.metrics import METRICS
from colonnade.record.private import write_whole
from colonnade.record.table import sweep_table, toml_text
from colonnade.run.arguments import as_grid, as_job, as_seeds
from colonnade.run.naming import check_names
from colonnade.run.points import digest, read_tables
from colonnade.run.pool import OnDone, Trial, train_all

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Point:
    """One combination of settings, and its runs by seed."""

    settings: dict[str, Any]
    method: dict[str, Any]
    composition: dict[str, str]
    runs: dict[int, dict[str, Any]]

    @property
    def value(self) -> float | None:
        """The metric of the best round on the rows that are chosen by, mean over the seeds; None
        when a run failed, diverged or measured nothing."""
        found = [metric["best"] for metric in self._metrics()]
        known = [value for value in found if value is not None]
        return fmean(known) if known and len(known) == len(self.runs) else None

    @property
    def loss(self) -> float | None:
        """The mean of the final training losses; None when a run failed or diverged."""
        losses = [run["loss"] for run in self.runs.values()]
        return None if None in losses or not losses else float(fmean(losses))

    @property
    def rank(self) -> float:
        """The less, the better; infinite where there is nothing to judge by."""
        value = self.value
        if value is None:
            return math.inf
        return -value if METRICS[self._metrics()[0]["name"]].higher_is_better else value

    def _metrics(self) -> list[dict[str, Any]]:
        return [run["metric"] for run in self.runs.values() if run.get("metric")]

    @property
    def sets(self) -> list[str]:
        """The settings, as `--set` takes them."""
        return [f"{field}={toml_text(value)}" for field, value in self.settings.items()]


@dataclass(frozen=True)
class Sweep:
    """A finished grid: its points, and the best of them."""

    job: str
    points: list[Point]
    folder: Path
    reused: int = 0
    """How many runs were there already."""

    def __repr__(self) -> str:
        return f"<Sweep of {self.job}: {len(self.points)} points in {self.folder}>"

    def best(self, composition: Mapping[str, str] | None = None) -> Point:
        """The point with the best metric, among those of a method where there are any."""
        same = [point for point in self.points if point.composition == composition]
        best = min(same or self.points, key=lambda point: point.rank)
        if math.isinf(best.rank):
            raise FailedError(
                "no point of the sweep has a metric to judge by: all failed or diverged"
            )
        return best

    def table(self) -> Table:
        """The points, best first, to print with rich."""
        return sweep_table(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The sweep as plain values, the points best first."""
        ranked = sorted(self.points, key=lambda point: point.rank)
        rows = [
            {
                "settings": point.settings,
                "method": point.method,
                "composition": point.composition,
                "value": point.value,
                "loss": point.loss,
                "runs": {str(seed): run for seed, run in point.runs.items()},
            }
            for point in ranked
        ]
        tried = [point.settings for point in ranked]
        at_edge = edges(tried[0], tried) if ranked and math.isfinite(ranked[0].rank) else []
        found = {"job": self.job, "reused": self.reused, "at_edge": at_edge, "points": rows}
        return stamp("sweep") | found

    def save(self) -> Path:
        """Write `sweep.json` into the sweep's folder."""
        path = self.folder / "sweep.json"
        write_whole(path, json.dumps(self.to_dict(), indent=1))
        return path

    @classmethod
    def load(cls, folder: str | Path, *, allow: Collection[str] = ()) -> Sweep:
        """Read a sweep that was finished and saved; code that its settings name must be allowed."""
        path = Path(folder) / "sweep.json"
        tables = read_tables(path)
        if tables is None:
            raise RequestError(
                f"there is no finished sweep in {folder}: make one with colonnade sweep --out"
            )
        check("sweep", tables.get("format"), path)
        try:
            points = msgspec.convert(tables["points"], list[Point], str_keys=True)
            found = cls(tables["job"], points, Path(folder), tables["reused"])
        except (KeyError, msgspec.ValidationError):
            raise RequestError(f"{path} is damaged: make the sweep again") from None
        for point in points:
            check_allowed(_outside(point.settings), allow)
        return found


def sweep(
    job: Job | str | Path,
    grid: Mapping[str, Sequence[Any]],
    seeds: Sequence[int] = (0,),
    *,
    out: str | Path,
    workers: int | None = None,
    on_plan: Callable[[int, int], None] | None = None,
    on_done: OnDone | None = None,
    beacons: Path | None = None,
) -> Sweep:
    """Train every combination of settings, as far as that was not done before.

    The best is the one with the best metric on the validation rows, mean over the seeds; the test
    rows play no part in the choice.

    Args:
        job: the job that all points start from, or a job file, or a built-in name.
        grid: values by field, `*` standing for every party.
        seeds: every point is trained with each of them.
        out: the folder of the sweep; each finished run is a file in `points/`.
        workers: processes side by side; by default one for each core.
        on_plan: told how many runs are missing, and of how many, before the first begins.
        on_done: told of every run that ends.
        beacons: a folder in which each run that is under way says how far it is.

    Example:
        >>> import tempfile
        >>> from colonnade.job import load
        >>> job = load("digits", ["train.epochs=1"])
        >>> grid = {"parties.*.optimizer.lr": [0.1, 0.2]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sweep(job, grid, out=folder, workers=1).best().sets
        ['parties.*.optimizer.lr=0.2']
    """
    job, grid, seeds = as_job(job), as_grid(grid), as_seeds(seeds)
    check_folder(Path(out), "sweep")
    folder = Path(out) / "points"
    plan = list(_plan(job, grid, seeds))
    files = {label: folder / f"{digest(point)}.json" for label, point, _ in plan}
    folder.mkdir(parents=True, exist_ok=True)
    records = {label: _known(file) for label, file in files.items()}
    missing = [(label, point, None) for label, point, _ in plan if records[label] is None]
    if on_plan is not None:
        on_plan(len(missing), len(plan))

    def keep(trial: Trial) -> None:
        records[trial.label] = record = _record(trial)
        write_whole(files[trial.label], json.dumps(record, indent=1))
        if on_done is not None:
            on_done(trial)

    train_all(missing, workers, keep, False, None, beacons)
    points: dict[str, Point] = {}
    for label, point, settings in plan:
        composition = methods.build(point.method).composition()
        fresh = Point(settings, point.method, composition, {})
        runs = points.setdefault(toml_text(settings), fresh).runs
        runs[point.seed] = records[label] or {}
    result = Sweep(job.name, list(points.values()), Path(out), len(plan) - len(missing))
    result.save()
    return result


def _plan(
    job: Job, grid: Mapping[str, Sequence[Any]], seeds: Sequence[int]
) -> Iterator[tuple[str, Job, dict[str, Any]]]:
    """Every run of the grid; whatever is wrong with one shows before any is trained."""
    if not grid or not all(grid.values()) or not seeds:
        raise JobError(
            "a sweep needs a field with values, and a seed: --grid train.batch_size=32,64"
        )
    if job.train.evaluation_period() is None:
        raise JobError(
            "a sweep chooses by the metric, and train.evaluate_every is 'never': "
            "set it to '1 epoch', say"
        )
    if "seed" in grid:
        raise JobError("seed is no field to sweep over: the best is best on all of --seeds")
    for values in itertools.product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        texts = [f"{field}={toml_text(value)}" for field, value in settings.items()]
        for seed in dict.fromkeys(seeds):
            point = with_sets(job, *texts, f"seed={seed}")
            check_names(point)
            yield f"{', '.join(texts)}, seed {seed}", point, settings


def _outside(settings: Mapping[str, Any]) -> dict[str, str]:
    """The code from outside that settings name, by field."""
    found: dict[str, str] = {}
    for field, value in settings.items():
        for key in reversed(field.split(".")):
            value = {key: value}
        found |= outside_names(value)
    return found


def _known(file: Path) -> dict[str, Any] | None:
    """A run that was trained before; None where there is none."""
    tables = read_tables(file)
    if tables is not None:
        check("sweep", tables.get("format"), file)
    return tables


def _record(trial: Trial) -> dict[str, Any]:
    summary = None if trial.bad else trial.summary
    return {
        **stamp("sweep"),
        "label": trial.label,
        "status": trial.status,
        "error": trial.error,
        "loss": summary and summary["loss"],
        "metric": summary and summary["metric"],
        "job": to_tables(trial.job),
        "summary": trial.summary,
    }


def edges(best: Mapping[str, Any], tried: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The fields whose best value is the smallest or the largest that was tried.

    Only fields of numbers have such an edge, and only where more than one was tried.

    >>> edges({"lr": 0.1}, [{"lr": 0.01}, {"lr": 0.1}])
    [{'field': 'lr', 'value': 0.1, 'edge': 'largest'}]
    """
    found = []
    for field, value in best.items():
        values = [settings.get(field) for settings in tried]
        numbers = [
            each for each in values if isinstance(each, int | float) and not isinstance(each, bool)
        ]
        if len(numbers) < len(values) or len(set(numbers)) < 2:
            continue
        for edge, extreme in (("smallest", min(numbers)), ("largest", max(numbers))):
            if value == extreme:
                found.append({"field": field, "value": value, "edge": edge})
    return found


def edge_text(edge: Mapping[str, Any]) -> str:
    """The sentence for one of them.

    >>> edge_text({"field": "lr", "value": 0.1, "edge": "largest"})
    'lr = 0.1 is the largest of the grid: the best may lie beyond'
    """
    shown = f"{edge['field']} = {toml_text(edge['value'])}"
    return f"{shown} is the {edge['edge']} of the grid: the best may lie beyond"
