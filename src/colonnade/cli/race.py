"""`colonnade race`: every method at its best, beside FedSGD at its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import completing, screen
from colonnade.cli.options import (
    Allow,
    JobName,
    Json,
    Log,
    Quiet,
    Seeds,
    Sets,
    Track,
    Workers,
    check_out,
    check_sets,
    read_grid,
    read_job,
    read_seeds,
    split_commas,
)
from colonnade.errors import FailedError

Methods = Annotated[
    str,
    typer.Option(
        metavar="A,B,C",
        autocompletion=completing.method_list,
        help="The methods, each with options that are not to be tuned: --methods "
        "fedbcd,celu:w=3. FedSGD always takes part.",
    ),
]
TuningSeeds = Annotated[
    str,
    typer.Option(metavar="N,N", help="Choose settings with these seeds: --tuning-seeds 7,8."),
]
Rates = Annotated[
    str,
    typer.Option(
        metavar="R,R,R",
        help="Learning rates to try, the same for all parties: --rates 0.01,0.03,0.1; or "
        "multiples of each party's own: --rates 0.5x,1x,2x.",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        metavar="METHOD.OPTION=V,V",
        help="Values to try for an option of a method, in place of its main one: --options "
        "fedbcd.updates=2,5,10. Repeat for more.",
    ),
]
Averages = Annotated[
    str,
    typer.Option(metavar="A,A", help="Averages of the weights to try: --average none."),
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE|NN%",
        help="The metric to reach, or a share of FedSGD's best: --target 95%. By default the "
        "job's target, else 98%.",
    ),
]
Steady = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Evaluations for which the target must be held; by default the rest of the run.",
    ),
]
Halving = Annotated[
    int,
    typer.Option(metavar="N", help="How many times fewer settings go on to the next, longer rung."),
]
NoHalving = Annotated[
    bool, typer.Option("--no-halving", help="Train every setting at full length.")
]
Growth = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="How often the rates may grow at each end, while a best one is there.",
    ),
]
RaceOut = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The race's folder; by default runs/race-JOB."),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="CLUSTER",
        help="Train on a Ray cluster: --on ray://HOST:10001, or --on ray for one of this host.",
    ),
]


def race(
    job: JobName,
    methods: Methods,
    seeds: Seeds = "0,1,2",
    tuning_seeds: TuningSeeds = "100,101",
    rates: Rates = "0.25x,0.5x,1x,2x,4x",
    options: Options = None,
    average: Averages = "none,ema:0.999",
    target: Target = None,
    steady: Steady = None,
    halving: Halving = 3,
    no_halving: NoHalving = False,
    growth: Growth = 4,
    sets: Sets = None,
    out: RaceOut = None,
    on: Cluster = None,
    track: Track = None,
    as_json: Json = False,
    workers: Workers = None,
    quiet: Quiet = False,
    log: Log = None,
    allow: Allow = None,
) -> None:
    """Tune every method over one grid, and compare each at its best with FedSGD at its own best.

    What was trained before is not trained again, so a race that was stopped goes on.

    Example: colonnade race digits --methods fedbcd,pasta
    """
    from colonnade.cli.progress import follow_runs
    from colonnade.run import race as races
    from colonnade.tracking.tracker import trackers_of

    check_sets(sets)
    named = split_commas(methods)
    # The job's own method plays no part, so that it may be anything.
    record = read_job(job, sets, "fedsgd", allow=allow)
    folder = out or Path("runs") / f"race-{record.name}"
    check_out(folder)
    kept = f"; the finished runs are in {folder}, and the same command goes on from there"
    with screen.ended_by_signal(kept), follow_runs(screen.stderr(), None, quiet) as following:
        result = races.race(
            record,
            named,
            read_seeds(seeds),
            out=folder,
            tuning_seeds=read_seeds(tuning_seeds),
            rates=split_commas(rates),
            options=read_grid(options or [], "--options fedbcd.updates=2,5,10"),
            average=split_commas(average),
            target=target,
            steady=steady,
            halving=None if no_halving else halving,
            growth=growth,
            workers=workers,
            on=on,
            on_plan=following.on_plan,
            on_done=following.on_done,
            beacons=following.beacons,
            track=trackers_of(track, folder, screen.say),
        )
    screen.show_json(result.to_dict()) if as_json else screen.show(
        result.table(screen.stdout().width)
    )
    if all(each.bad for own in result.outcomes.values() for each in own):
        raise FailedError("every run of the table failed or diverged: give lower --rates")
