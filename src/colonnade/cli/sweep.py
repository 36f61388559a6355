"""`colonnade sweep`: every combination of some settings."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.options import (
    Allow,
    JobName,
    Json,
    Log,
    MethodName,
    Quiet,
    Seeds,
    Sets,
    Workers,
    check_out,
    read_grid,
    read_job,
    read_seeds,
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
    log: Log = None,
    allow: Allow = None,
) -> None:
    """Train every combination of some settings, and find the best by the metric.

    What was trained before is not trained again, so a sweep that was stopped goes on.

    Example: colonnade sweep digits --grid 'parties.*.optimizer.lr=0.05,0.1,0.2'
    """
    from colonnade.cli.progress import follow_runs
    from colonnade.run import sweep as sweeps

    record = read_job(job, sets, method, allow=allow)
    values, chosen = read_grid(grid), read_seeds(seeds)
    folder = out or Path("runs") / f"sweep-{record.name}"
    check_out(folder)
    console, settings = screen.stderr(), math.prod(map(len, values.values()))
    title = f"{record.name}, {settings} settings, simulated"
    follow = follow_runs(console, settings * len(chosen), quiet, title)
    kept = f"; the finished points are in {folder}, and the same command goes on from there"
    with screen.ended_by_signal(kept), follow as following:

        def say(missing: int, total: int) -> None:
            following.expect(missing)
            if missing < total and not quiet:
                console.print(f"{total - missing} of {total} runs are in {folder} already")

        result = sweeps.sweep(
            record,
            values,
            chosen,
            out=folder,
            workers=workers,
            on_plan=say,
            on_done=following.on_done,
            beacons=following.beacons,
        )
    found = result.to_dict()
    screen.show_json(found) if as_json else screen.show(result.table())
    best = result.best()
    if not as_json:
        chosen_sets = " ".join(f"--set '{text}'" for text in best.sets)
        screen.show(f"\nBest: {chosen_sets}")
        for edge in found["at_edge"]:
            screen.show(sweeps.edge_text(edge))
        screen.show(f"Use it: colonnade compare {job} --tuned {folder} --methods …")
