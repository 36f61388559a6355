"""`colonnade launch`: all parties of a job as processes on this computer."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from colonnade.cli.simulate import _judge, _show
from colonnade.errors import StoppedError

if TYPE_CHECKING:
    from colonnade.job.records import Job
    from colonnade.record.events import Event, Subscriber


def launch(
    job: JobName,
    method: MethodName = None,
    sets: Sets = None,
    seed: Seed = None,
    out: Out = None,
    parties: PartyFolder = None,
    start: From = None,
    record: Record = None,
    emulate: Annotated[
        str | None,
        typer.Option(
            metavar="LINE",
            help="Slow the links between the parties down: --emulate latency=50ms,rate=300mbit.",
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Certificates made by colonnade keys; by default they are made for this run only.",
        ),
    ] = None,
    track: Track = None,
    as_json: Json = False,
    threads: Annotated[int, typer.Option(metavar="N", help="Threads for torch at each party.")] = 1,
    quiet: Quiet = False,
    log: Log = None,
    allow: Allow = None,
    secret_seeds: Annotated[
        bool,
        typer.Option(
            "--secret-seeds",
            help="Draw the parties' secret seeds from the operating system. By default they are "
            "derived from the job's seed, so that the run equals colonnade simulate, and whoever "
            "knows that seed knows everybody's initial weights.",
        ),
    ] = False,
) -> None:
    """Train a job with a process for each party on this computer, over mTLS, in real time.

    With --out, a run that was stopped goes on with the same command.

    Example: colonnade launch digits --emulate latency=5ms --out runs/digits
    """
    check_threads(threads)
    check_record(record, out)
    read = read_job(job, sets, method, seed, allow)
    check_out(out)
    check_apart(start, out)
    files = party_files(job, read, sets or [], parties)
    from colonnade.run import launch as launching
    from colonnade.tracking.tracker import trackers_of

    _say_if_complete(read, out, quiet)
    kept = "" if out is None else f"; the same command goes on from what is saved in {out}"
    first = _said_first(read, secret_seeds)
    with stopping(kept) as stopped, _observed(read, out, quiet, first) as observers:
        run = launching.launch(
            read,
            out=out,
            files=files,
            keys=keys,
            emulate=emulate,
            threads=threads,
            observers=observers,
            should_stop=stopped,
            start=start,
            record=record,
            secret_seeds=secret_seeds,
            track=trackers_of(track, out, screen.say, goes_on=True),
        )
    _show(run, as_json)
    _judge(run, out)


def _say_if_complete(job: Job, out: Path | None, quiet: bool) -> None:
    from colonnade.run import launch as launching

    if out is not None and not quiet and launching.finished(out, job):
        screen.stderr().print(f"this job is complete; its result is in {out}")


@contextmanager
def _observed(
    job: Job, out: Path | None, quiet: bool, first: Sequence[str]
) -> Iterator[list[Subscriber]]:
    """Whoever is told what happens: the person here, and those who follow by the run folder."""
    from colonnade.run.following import followed

    with (
        followed(out, job, clock="wall", tell=screen.say) as others,
        parties_shown(job, quiet, first) as observer,
    ):
        yield [observer, *others]


def _said_first(job: Job, secret_seeds: bool) -> list[str]:
    """What a person should know before the first round."""
    from colonnade import methods
    from colonnade.run.telling import what_it_tells

    drawn = "parties without a secret seed draw one from the operating system"
    derived = "the parties' secret seeds are derived from the job's seed, as in a simulation"
    seeds = drawn if secret_seeds else f"{derived} (--secret-seeds draws them)"
    return [what_it_tells(job, methods.build(job.method)), seeds]


@contextmanager
def stopping(kept: str) -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C, or a polite kill, stops the parties as planned; the next one at once."""
    try:
        with screen.ctrl_c(signal.SIGTERM) as pressed:
            yield pressed
    except (KeyboardInterrupt, StoppedError) as stop:
        raise StoppedError(f"{str(stop) or 'interrupted'}{kept}") from None


@contextmanager
def parties_shown(job: Job, quiet: bool, first: Sequence[str] = ()) -> Iterator[Subscriber]:
    """Shows what happens at the parties: on a terminal how far they are, and a line for each that
    says what it does now, else every line that is not merely how far it is; before all else the
    lines `first`."""
    from colonnade.cli.display import watched
    from colonnade.cli.reporter import Narrator
    from colonnade.cli.watching import Watch
    from colonnade.run.naming import method_text

    console = screen.stderr()
    narrators = {name: Narrator() for name in job.parties}

    def tell(event: Event) -> None:
        line = narrators[event.party].line(event)
        if line is not None and line.printed:
            console.print(f"{event.party}: {line.text}")

    title = f"{job.name}, {method_text(job.method)}, seed {job.seed}"
    watch = Watch(job.parties, job.active, title)
    with watched(watch, quiet, tell, first, several=True) as told:
        yield told
