"""`colonnade compare` and `sweep`: many runs side by side."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.options import (
    Allow,
    JobName,
    Json,
    MethodName,
    Out,
    Quiet,
    Sets,
    Workers,
    check_out,
    read_grid,
    read_job,
    read_seeds,
    split_commas,
)
from colonnade.errors import FailedError, JobError, StoppedError
from colonnade.job.records import Job

if TYPE_CHECKING:
    from colonnade.run.compare import Comparison
    from colonnade.run.sweep import Sweep

Seeds = Annotated[
    str, typer.Option(metavar="N,N,N", help="Train with each of these seeds: --seeds 0,1,2.")
]


def compare(
    job: JobName,
    methods: Annotated[
        str,
        typer.Option(
            metavar="A,B,C",
            help="The methods, each with its options: --methods fedsgd,fedbcd:updates=5. The "
            "speed-up is against the first.",
        ),
    ],
    seeds: Seeds = "0,1,2",
    sets: Sets = None,
    tuned: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Take each method's best settings from this sweep; a method that it has no point "
            "of takes the best of all points (a rate tuned for one, the same for all).",
        ),
    ] = None,
    out: Out = None,
    as_json: Json = False,
    workers: Workers = None,
    quiet: Quiet = False,
    allow: Allow = None,
) -> None:
    """Train a job with several methods and seeds, and compare what they cost.

    A seed that never reaches the target is a miss: 134 s ± 5 (2/3) is the mean of two, of three.

    Example: colonnade compare digits --methods fedsgd,fedbcd:updates=5 --seeds 0,1
    """
    from colonnade.run.sweep import Sweep

    for text in sets or []:
        if text.startswith("method."):
            raise JobError(
                f"--set {text} reaches no method: write it into --methods, as name:key=value"
            )
    named, chosen = split_commas(methods), read_seeds(seeds)
    # The job's own method plays no part, so that it may be anything.
    record = read_job(job, sets, named[0] if named else None, allow=allow)
    best = None if tuned is None else Sweep.load(tuned, allow=allow or ())
    check_out(out)
    result = _compare(record, named, chosen, workers, best, out, quiet)
    if as_json:
        screen.show_json(result.to_dict())
    else:
        screen.show(result.table(screen.stdout().width))
    if all(trial.bad for trial in result.trials):
        raise FailedError(f"every run failed: {result.notes()[0]}")


def _compare(
    job: Job,
    methods: Sequence[str],
    seeds: Sequence[int],
    workers: int | None,
    tuned: Sweep | None,
    out: Path | None,
    quiet: bool,
) -> Comparison:
    from colonnade.cli.progress import follow_runs
    from colonnade.run import compare as comparison

    total = len(methods) * len(set(seeds))
    kept = "" if out is None else f"; the finished runs are in {out}"
    with _ended_by_signal(kept), follow_runs(screen.stderr(), total, quiet) as on_done:
        return comparison.compare(
            job, methods, seeds, workers=workers, tuned=tuned, out=out, on_done=on_done
        )


def sweep(
    job: JobName,
    grid: Annotated[
        list[str],
        typer.Option(
            metavar="FIELD=V,V",
            help="Values to try for a field; repeat for more fields, every combination is "
            "trained: --grid 'parties.*.optimizer.lr=0.01,0.1' --grid train.batch_size=32,64.",
        ),
    ],
    method: MethodName = None,
    seeds: Seeds = "0",
    sets: Sets = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The sweep's folder; by default runs/sweep-JOB."),
    ] = None,
    as_json: Json = False,
    workers: Workers = None,
    quiet: Quiet = False,
    allow: Allow = None,
) -> None:
    """Train every combination of some settings, and find the best by the metric.

    What was trained before is not trained again, so a sweep that was stopped goes on.

    Example: colonnade sweep digits --grid 'parties.*.optimizer.lr=0.05,0.1,0.2'
    """
    from colonnade.run.sweep import edge_text

    record = read_job(job, sets, method, allow=allow)
    values, chosen = read_grid(grid), read_seeds(seeds)
    folder = out or Path("runs") / f"sweep-{record.name}"
    check_out(folder)
    result = _sweep(record, values, chosen, folder, workers, quiet)
    found = result.to_dict()
    screen.show_json(found) if as_json else screen.show(result.table())
    best = result.best()
    if not as_json:
        settings = " ".join(f"--set '{text}'" for text in best.sets)
        screen.show(f"\nBest: {settings}")
        for edge in found["at_edge"]:
            screen.show(edge_text(edge))
        screen.show(f"Use it: colonnade compare {job} --tuned {folder} --methods …")


def _sweep(
    job: Job,
    grid: dict[str, list[object]],
    seeds: Sequence[int],
    folder: Path,
    workers: int | None,
    quiet: bool,
) -> Sweep:
    from colonnade.cli.progress import follow_runs
    from colonnade.run import sweep as sweeps

    console = screen.stderr()

    def say(missing: int, total: int) -> None:
        if missing < total and not quiet:
            console.print(f"{total - missing} of {total} runs are in {folder} already")

    total = len(seeds)
    for values in grid.values():
        total *= len(values)
    kept = f"; the finished points are in {folder}, and the same command goes on from there"
    with _ended_by_signal(kept), follow_runs(console, total, quiet) as on_done:
        return sweeps.sweep(
            job, grid, seeds, out=folder, workers=workers, on_plan=say, on_done=on_done
        )


@contextmanager
def _ended_by_signal(kept: str) -> Iterator[None]:
    """Ctrl-C becomes a sentence; a polite kill ends the workers too, and not only us."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(f"interrupted{kept}") from None
    finally:
        signal.signal(signal.SIGTERM, before)
