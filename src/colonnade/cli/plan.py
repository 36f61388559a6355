"""`colonnade plan`: what every method would cost, before anything is trained."""

from __future__ import annotations

from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.options import Allow, JobName, Json, Sets, read_job, split_commas


def plan(
    job: JobName,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="Only these methods, each with its options: --methods fedsgd,fedbcd:updates=5. "
            "By default the job's own and all others.",
        ),
    ] = None,
    sets: Sets = None,
    rows: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Training rows, where the data is not here: embeddings are then as wide as the "
            "job's models say.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Run each method's clock in the simulator beside it.")
    ] = False,
    as_json: Json = False,
    allow: Allow = None,
) -> None:
    """Say what each method would cost on a job's links and at its speeds, without training.

    Seconds and bytes of an epoch, what binds (computing, latency, or the bandwidth of which line),
    and what to change.

    Example: colonnade plan digits --methods fedsgd,celu,pasta --set network.latency=500ms
    """
    from colonnade.run.plan import plan as planned

    record = read_job(job, sets, None, allow=allow)
    named = None if methods is None else split_commas(methods)
    found = planned(record, named, rows=rows, check=check)
    if as_json:
        screen.show_json(found.to_dict())
    else:
        screen.show(found.table())
