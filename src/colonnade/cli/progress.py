"""How far runs are, said on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from colonnade.record.events import Evaluated, Event, RoundDone, Subscriber
from colonnade.run.pool import OnDone, Trial
from colonnade.units import show_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

LINES = 20
"""How many lines a training prints at most where there is no terminal."""


class Lines:
    """Prints a line for an evaluation, at most every 5 % of the rounds."""

    def __init__(self, console: Console, rounds: int) -> None:
        self._console = console
        self._rounds = rounds
        self._due = 0.0
        self._loss = 0.0

    def __call__(self, event: Event) -> None:
        """Print an evaluation, unless the last line is too near."""
        match event:
            case RoundDone(loss=float(loss)):
                self._loss = loss
            case Evaluated() if event.round + 1 >= min(self._due, self._rounds):
                done = event.round + 1
                self._due = done + self._rounds / LINES
                figures = _figures(event.time_ns, self._loss, event.measured)
                self._console.print(f"round {done} of {self._rounds}, {figures}")


class Bar:
    """Moves a bar with every round; beside it the virtual time, the loss and the metric."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._measured: Mapping[str, float] = {}

    def __call__(self, event: Event) -> None:
        """Move the bar with a round; show an evaluation from then on."""
        match event:
            case RoundDone(loss=float(loss)):
                figures = _figures(event.time_ns, loss, self._measured)
                self._progress.update(self._task, completed=event.round + 1, figures=figures)
            case Evaluated(measured=measured):
                self._measured = measured


def _figures(now_ns: int, loss: float, measured: Mapping[str, float]) -> str:
    metrics = [
        f"{name} {value:.3f}"
        for name, value in measured.items()
        if name == "log_loss" or not name.endswith("_loss")
    ]
    time = [show_time(now_ns / 1e9)] if now_ns else []
    return ", ".join([*time, f"loss {loss:.3f}", *metrics])


@contextmanager
def follow_run(console: Console, rounds: int, quiet: bool) -> Iterator[Subscriber]:
    """An observer of one training, fit for where its output goes."""
    if quiet:
        yield lambda event: None
    elif not console.is_terminal:
        yield Lines(console, rounds)
    else:
        with _bar(console, "round") as progress:
            yield Bar(progress, progress.add_task("", total=rounds, figures=""))


@contextmanager
def follow_runs(console: Console, total: int, quiet: bool) -> Iterator[OnDone]:
    """Counts the runs that are done, fit for where its output goes."""
    done = 0
    if quiet:
        yield lambda trial: None
    elif not console.is_terminal:

        def line(trial: Trial) -> None:
            nonlocal done
            done += 1
            console.print(f"run {done} of {total}: {_ending(trial)}")

        yield line
    else:
        with _bar(console, "runs") as progress:
            task = progress.add_task("", total=total, figures="")
            yield lambda trial: progress.update(task, advance=1, figures=_ending(trial))


def _ending(trial: Trial) -> str:
    name = trial.label if ", seed " in trial.label else f"{trial.label}, seed {trial.job.seed}"
    if trial.bad or trial.summary is None:
        return f"{name}: {trial.status}"
    metric, time_s = trial.summary["metric"], trial.summary["time_to_target_s"]
    final = "" if metric["final"] is None else f", {metric['name']} {metric['final']:.3f}"
    if trial.summary["target"] is None:
        return f"{name}{final}"
    return f"{name}{final}, " + (
        "missed" if time_s is None else f"{_took(time_s, trial.summary)} to target"
    )


def _took(time_s: float, summary: Mapping[str, Any]) -> str:
    if not time_s:
        return f"{summary['rounds_to_target']} rounds"
    return show_time(time_s, summary["clock"])


def _bar(console: Console, unit: str) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        TextColumn(unit),
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[figures]}", markup=False),
        console=console,
        transient=True,
    )
