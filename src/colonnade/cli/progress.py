"""How far runs are, said on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from colonnade.cli import screen
from colonnade.cli.frame import clock
from colonnade.cli.runs import RunsDisplay, RunsWatch, seeded
from colonnade.record.events import Calibrated, Evaluated, Event, RoundDone, is_metric
from colonnade.run.beacon import read_beacons
from colonnade.run.points import OnPlan
from colonnade.run.pool import OnDone, Trial
from colonnade.units import show_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from colonnade.cli.log import JsonLog

LINES = 20
"""How many lines the evaluations of a training print at most where there is no terminal."""
LINE_EVERY_S = 10.0
"""After so long without one there is a line all the same."""


def _figures(now_ns: int, loss: float | None, measured: Mapping[str, float]) -> str:
    metrics = [f"{name} {value:.3f}" for name, value in measured.items() if is_metric(name)]
    time = [show_time(now_ns / 1e9)] if now_ns else []
    return ", ".join([*time, *([] if loss is None else [f"loss {loss:.3f}"]), *metrics])


class RunLines:
    """The lines of one training where there is no terminal: for an evaluation, at most every 5 % of
    the rounds, and for a round where there was no line for ten seconds."""

    def __init__(self, console: Console, rounds: int) -> None:
        self._console, self._rounds = console, rounds
        self._loss: float | None = None
        self._measured: Mapping[str, float] = {}
        self._due = 0.0
        self._began_s = self._said_s = console.get_time()

    def __call__(self, event: Event) -> None:
        """Say how far the training is, where it is time to."""
        if isinstance(event, RoundDone):
            self._loss = self._loss if event.loss is None else event.loss
            if event.loss is not None and self._console.get_time() - self._said_s >= LINE_EVERY_S:
                self._say(event.round + 1, event.time_ns)
        elif isinstance(event, Calibrated):
            self._console.print(event.sentence())
        elif isinstance(event, Evaluated):
            self._measured = event.measured
            if (done := event.round + 1) >= min(self._due, self._rounds):
                self._due = done + self._rounds / LINES
                self._say(done, event.time_ns)

    def _say(self, done: int, now_ns: int) -> None:
        self._said_s = self._console.get_time()
        figures = _figures(now_ns, self._loss, self._measured)
        left_s = (self._said_s - self._began_s) / done * (self._rounds - done)
        left = f", {clock(left_s)} left" if left_s >= 1 else ""
        said = f"round {done} of {self._rounds}{figures and f', {figures}'}{left}"
        self._console.print(said)


@dataclass(frozen=True)
class Following:
    """Who is told of the runs of a study."""

    on_plan: OnPlan
    on_done: OnDone
    expect: Callable[[int], None] = lambda missing: None
    """Told how many runs there are to do, where that is not all."""
    beacons: Path | None = None
    """A folder in which each run that is under way is to say how far it is."""


@contextmanager
def follow_runs(
    console: Console, total: int | None, quiet: bool, title: str = ""
) -> Iterator[Following]:
    """Counts the runs that are done, fit for where its output goes. Where there are several stages
    each says what it is, and how many runs it still takes, of how many: then there is no `total`
    before."""
    log = screen.log()
    logs: OnDone = partial(_log_run, log)
    if quiet or screen.logs_only():
        yield Following(lambda title, missing, whole: None, logs)
        return
    if not console.is_terminal:
        count = RunsWatch(total)

        def plan(title: str, missing: int, whole: int) -> None:
            count.plan(title, missing, console.get_time())
            console.print(_planned(title, missing, whole))

        def line(trial: Trial) -> None:
            logs(trial)
            count.ended("")
            left_s = count.left_s(console.get_time(), [])
            left = "" if left_s is None or left_s < 1 else f"; {clock(left_s)} left"
            console.print(f"run {count.done} of {count.total}: {_ending(trial)}{left}")

        count.began_s = console.get_time()
        yield Following(plan, line, count.expect)
        return
    watch = RunsWatch(total, title, began_s=console.get_time())

    def begin(title: str, missing: int, whole: int) -> None:
        console.print(_planned(title, missing, whole))
        watch.plan(title, missing, console.get_time())

    def end(trial: Trial) -> None:
        logs(trial)
        watch.ended(_ending(trial))

    with TemporaryDirectory(prefix="colonnade-") as name:
        beacons = Path(name)
        with screen.moving(RunsDisplay(console, watch, partial(read_beacons, beacons)).live):
            yield Following(begin, end, watch.expect, beacons)


def _log_run(log: JsonLog | None, trial: Trial) -> None:
    """A run has ended, as a line of a log, where there is one."""
    if log is None:
        return
    metric = {} if trial.summary is None else trial.summary["metric"]
    log.say(
        "RunDone",
        _ending(trial),
        "warning" if trial.bad else "info",
        label=trial.label,
        seed=trial.job.seed,
        status=trial.status,
        metric=metric.get("name"),
        value=metric.get("final"),
        time_to_target_s=trial.figure("time_to_target_s"),
    )


def _planned(title: str, missing: int, whole: int) -> str:
    there = f", and {whole - missing} are there already" if missing < whole else ""
    return f"{title}: {missing} runs to do{there}"


@contextmanager
def follow_steps(
    console: Console, unit: str, quiet: bool
) -> Iterator[Callable[[int, int, str], None]]:
    """Told before each step of a work how many are done, of how many, and what the step is."""
    if quiet:
        yield lambda done, total, what: None
    elif not console.is_terminal:
        yield lambda done, total, what: console.print(f"{unit} {done + 1} of {total}: {what}")
    else:
        progress = _bar(console, f"{unit}s")
        task = progress.add_task("", total=None, figures="")
        with screen.moving(progress):
            yield lambda done, total, what: progress.update(
                task, completed=done, total=total, figures=what
            )


@contextmanager
def follow_study(console: Console, quiet: bool) -> Iterator[Callable[..., None]]:
    """What a study says, and where that comes with a count, a bar beside it on a terminal."""
    if quiet:
        yield lambda text, done=0, total=0: None
    elif not console.is_terminal:
        yield lambda text, done=0, total=0: console.print(text)
    else:
        progress = _bar(console, "trainings")
        task = progress.add_task("", visible=False, figures="")

        def say(text: str, done: int = 0, total: int = 0) -> None:
            if total:
                progress.update(task, completed=done, total=total, figures=text, visible=True)
            else:
                console.print(text)

        with screen.moving(progress):
            yield say


def _ending(trial: Trial) -> str:
    name = seeded(trial.label, trial.job.seed)
    if trial.bad or trial.summary is None:
        return f"{name}: {trial.status}"
    metric, time_s = trial.summary["metric"], trial.summary["time_to_target_s"]
    final = "" if metric["final"] is None else f", {metric['name']} {metric['final']:.3f}"
    told = _told(trial.summary.get("privacy"))
    if trial.summary["target"] is None:
        return f"{name}{final}{told}"
    reached = "missed" if time_s is None else f"{_took(time_s, trial.summary)} to target"
    return f"{name}{final}, {reached}{told}"


def _told(privacy: Mapping[str, float | None] | None) -> str:
    """What an audit of a run has found, where there was one."""
    found = {} if privacy is None else privacy
    figures = [(word, found.get(word)) for word in ("labels", "columns")]
    return "".join(f", {word} told {value:.2f}" for word, value in figures if value is not None)


def _took(time_s: float, summary: Mapping[str, Any]) -> str:
    if not time_s:
        return f"{summary['rounds_to_target']} rounds"
    return show_time(time_s, summary["clock"])


def _bar(console: Console, unit: str) -> Progress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn(unit),
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        # A run, or a training of a study, may take minutes in which nothing else moves.
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
        console=console,
        transient=True,
    )
