"""`colonnade simulate`: one job in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.options import (
    Allow,
    From,
    JobName,
    Json,
    Log,
    MethodName,
    Out,
    Quiet,
    Record,
    Seed,
    Sets,
    Track,
    check_apart,
    check_out,
    check_record,
    check_threads,
    read_job,
)
from colonnade.cli.parties import PartyFolder, party_files
from colonnade.errors import FailedError, StoppedError
from colonnade.job.files import dumps
from colonnade.job.party_file import with_files
from colonnade.job.records import Job
from colonnade.record.folder import check_folder
from colonnade.record.table import run_table

if TYPE_CHECKING:
    from colonnade.record.events import Subscriber
    from colonnade.record.run import Run


def simulate(
    job: JobName,
    method: MethodName = None,
    sets: Sets = None,
    seed: Seed = None,
    out: Out = None,
    parties: PartyFolder = None,
    start: From = None,
    record: Record = None,
    track: Track = None,
    as_json: Json = False,
    threads: Annotated[
        int,
        typer.Option(metavar="N", help="Threads for torch; more than 1 helps with large models."),
    ] = 1,
    quiet: Quiet = False,
    log: Log = None,
    allow: Allow = None,
) -> None:
    """Train one job in virtual time, and show what it cost.

    Party files beside the job file, or in --parties, are read as launch and join read them, except
    for certificates and policies, which a simulation does not use.

    Example: colonnade simulate digits --method fedbcd:updates=5 --out runs/digits
    """
    from colonnade.tracking.tracker import following, trackers_of

    check_threads(threads)
    check_record(record, out)
    read = read_job(job, sets, method, seed, allow)
    check_out(out)
    check_apart(start, out)
    # A built-in job has all that it needs, and what lies in this folder is none of its business.
    asked = parties is not None or Path(job).is_file()
    files = party_files(job, read, sets or [], parties) if asked else {}
    if files and not quiet:
        screen.stderr().print(f"party files are read for {', '.join(files)}")
    read = with_files(read, files)
    if out is not None:
        check_folder(out, "simulate", dumps(read))
    from colonnade.run.following import followed

    say = screen.say
    trackers = trackers_of(track, out, say)
    with (
        followed(out, read, clock="virtual", anew=True, tell=say) as others,
        following(trackers, read) as (followers, over),
    ):
        run, remarks = _follow(read, threads, quiet, start, record, [*others, *followers])
        over(run.summary())
        try:
            if out is not None:
                run.save(out)
        finally:
            # What was found is shown even where it cannot be kept.
            _show(run, as_json)
    _judge(run, out, remarks)


def _follow(
    job: Job,
    threads: int,
    quiet: bool,
    start: Path | None,
    record: int | None,
    others: Sequence[Subscriber],
) -> tuple[Run, list[str]]:
    from colonnade.cli.display import watched
    from colonnade.cli.progress import RunLines
    from colonnade.cli.watching import Watch
    from colonnade.run.naming import method_text
    from colonnade.run.setup import prepare, recording, remarks
    from colonnade.run.simulate import origins_of, simulate_prepared
    from colonnade.run.telling import what_it_tells

    parties = recording(prepare(job, origins=origins_of(job, start)), record)
    rounds, found = parties[job.active].agreement().rounds, remarks(parties)
    if not quiet:
        screen.stderr().print(what_it_tells(job, parties[job.active].method))
    for remark in found:
        screen.stderr().print(remark)
    title = f"{job.name}, {method_text(job.method)}, seed {job.seed}, simulated"
    watch = Watch(job.parties, job.active, title, rounds=rounds, virtual=True)
    lines = RunLines(screen.stderr(), rounds)
    with (
        screen.ended_by_signal(""),
        watched(watch, quiet, lines) as observer,
        screen.ctrl_c() as stopped,
    ):
        run = simulate_prepared(
            parties, observers=[observer, *others], should_stop=stopped, threads=threads
        )
    return run, found


def _show(run: Run, as_json: bool) -> None:
    from colonnade.run.naming import method_text

    summary = run.summary()
    if as_json:
        screen.show_json(summary)
        return
    screen.show(f"{run.job.name}, {method_text(run.job.method)}, seed {run.job.seed}\n")
    screen.show(run_table(summary))


def _judge(run: Run, out: Path | None, remarks: Sequence[str] = ()) -> None:
    """An ending that is not as asked for is said, and is an exit code."""
    from colonnade.run.simulate import diverged

    kept = "" if out is None else f"; the run folder {out} has what there is"
    if run.status == "interrupted":
        raise StoppedError(f"interrupted after {_rounds(run)}{kept}")
    if run.status == "diverged":
        setting = "--set 'parties.*.optimizer.lr=0.01'"
        raise FailedError(f"{diverged(run, remarks)}, as with {setting}{kept}")


def _rounds(run: Run) -> str:
    return "1 round" if run.rounds == 1 else f"{run.rounds} rounds"
