"""Lets others follow a run while it goes on: who writes the live file of a folder, and for how
long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from colonnade.job.records import Job
from colonnade.net.detector import monotonic_ns, wall_ns
from colonnade.record.events import Subscriber
from colonnade.record.live import Live, Opened
from colonnade.run.naming import method_name


def live_of(
    folder: Path,
    job: Job,
    *,
    clock: str,
    anew: bool = False,
    tell: Callable[[str], None] = lambda said: None,
) -> Live:
    """What writes the events of a job into a folder; `clock` is `virtual` or `wall`.

    >>> from colonnade.job import load
    >>> live_of(Path("runs/first"), load("digits"), clock="virtual").path.as_posix()
    'runs/first/live.jsonl'
    """
    opened = Opened(
        job.name,
        method_name(job),
        job.seed,
        job.active,
        tuple(job.parties),
        clock,
        wall_ns(),
        job.train.target,
    )
    return Live(folder, opened, now=monotonic_ns, tell=tell, anew=anew)


@contextmanager
def followed(
    folder: Path | None,
    job: Job,
    *,
    clock: str,
    anew: bool = False,
    tell: Callable[[str], None] = lambda said: None,
) -> Iterator[list[Subscriber]]:
    """The subscribers by which others can follow a run: none where it has no folder. The file
    stays where the run does not come to its end inside."""
    if folder is None:
        yield []
        return
    live = live_of(folder, job, clock=clock, anew=anew, tell=tell)
    done = False
    try:
        yield [live]
        done = True
    finally:
        live.close(done)
