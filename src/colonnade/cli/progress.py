"""How far runs are, said on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from colonnade.cli.frame import clock
from colonnade.cli.watching import is_metric
from colonnade.record.events import Calibrated, Evaluated, Event, RoundDone
from colonnade.run.points import OnPlan
from colonnade.run.pool import OnDone, Trial
from colonnade.units import show_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

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


@contextmanager
def follow_stages(console: Console, quiet: bool) -> Iterator[tuple[OnPlan, OnDone]]:
    """Counts the runs of one stage after the other, as each says what it is and how many runs it
    still takes, of how many; fit for where its output goes."""
    done = total = 0
    if quiet:
        yield lambda title, missing, total: None, lambda trial: None
    elif not console.is_terminal:

        def plan(title: str, missing: int, whole: int) -> None:
            nonlocal done, total
            done, total = 0, missing
            console.print(_planned(title, missing, whole))

        def line(trial: Trial) -> None:
            nonlocal done
            done += 1
            console.print(f"run {done} of {total}: {_ending(trial)}")

        yield plan, line
    else:
        with _bar(console, "runs", remaining=True) as progress:
            task = progress.add_task("", total=None, figures="")

            def begin(title: str, missing: int, whole: int) -> None:
                console.print(_planned(title, missing, whole))
                progress.reset(task, total=missing, figures="")

            yield (
                begin,
                lambda trial: progress.update(task, advance=1, figures=_ending(trial)),
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
        with _bar(console, f"{unit}s") as progress:
            task = progress.add_task("", total=None, figures="")
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
        with _bar(console, "trainings") as progress:
            task = progress.add_task("", visible=False, figures="")

            def say(text: str, done: int = 0, total: int = 0) -> None:
                if total:
                    progress.update(task, completed=done, total=total, figures=text, visible=True)
                else:
                    console.print(text)

            yield say


def _ending(trial: Trial) -> str:
    name = trial.label if ", seed " in trial.label else f"{trial.label}, seed {trial.job.seed}"
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


def _bar(console: Console, unit: str, remaining: bool = False) -> Progress:
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
        *([TextColumn("left"), TimeRemainingColumn()] if remaining else []),
        TextColumn("{task.fields[figures]}", markup=False),
        console=console,
        transient=True,
    )
