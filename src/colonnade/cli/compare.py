"""`colonnade compare`: several methods and seeds side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import completing, screen
from colonnade.cli.options import (
    Allow,
    JobName,
    Json,
    Log,
    Out,
    Quiet,
    Seeds,
    Sets,
    Track,
    Workers,
    check_out,
    check_sets,
    read_job,
    read_seeds,
    split_commas,
)
from colonnade.errors import FailedError

if TYPE_CHECKING:
    from colonnade.run.compare import Comparison


def compare(
    job: JobName,
    methods: Annotated[
        str,
        typer.Option(
            metavar="A,B,C",
            autocompletion=completing.method_list,
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
    privacy: Annotated[
        bool,
        typer.Option(
            "--privacy",
            help="Audit every run's traffic too: what others can tell of labels and columns.",
        ),
    ] = False,
    track: Track = None,
    as_json: Json = False,
    workers: Workers = None,
    quiet: Quiet = False,
    log: Log = None,
    allow: Allow = None,
) -> None:
    """Train a job with several methods and seeds, and compare what they cost.

    A seed that never reaches the target is a miss: 134 s ± 5 (2/3) is the mean of two, of three.

    Example: colonnade compare digits --methods fedsgd,fedbcd:updates=5 --seeds 0,1
    """
    from colonnade.cli.progress import follow_runs
    from colonnade.run import compare as comparison
    from colonnade.run.sweep import Sweep
    from colonnade.tracking.tracker import trackers_of

    check_sets(sets)
    named, chosen = split_commas(methods), read_seeds(seeds)
    # The job's own method plays no part, so that it may be anything.
    record = read_job(job, sets, named[0] if named else None, allow=allow)
    best = None if tuned is None else Sweep.load(tuned, allow=allow or ())
    check_out(out)
    total = len(named) * len(set(chosen))
    kept = "" if out is None else f"; the finished runs are in {out}"
    title = f"{record.name}, {len(named)} methods, {total} runs, simulated"
    follow = follow_runs(screen.stderr(), total, quiet, title)
    with screen.ended_by_signal(kept), follow as following:
        result = comparison.compare(
            record,
            named,
            chosen,
            workers=workers,
            tuned=best,
            out=out,
            on_done=following.on_done,
            beacons=following.beacons,
            privacy=privacy,
            track=trackers_of(track, out, screen.say),
        )
    _show(result, as_json)
    if all(trial.bad for trial in result.trials):
        raise FailedError(f"every run failed: {result.notes()[0]}")


def _show(result: Comparison, as_json: bool) -> None:
    if as_json:
        screen.show_json(result.to_dict())
    else:
        screen.show(result.table(screen.stdout().width))
