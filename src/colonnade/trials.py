"""Many runs at once, each in a process of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from colonnade.errors import FailedError, RequestError
from colonnade.job.files import dumps, loads
from colonnade.job.records import Job
from colonnade.track.table import plain


@dataclass(frozen=True)
class Trial:
    """One run among many: its job, and what came of it."""

    label: str
    job: Job
    summary: dict[str, Any] | None
    """None when the run failed; then `error` says why."""
    history: list[dict[str, Any]]
    error: str | None = None

    @property
    def status(self) -> str:
        """How it ended: as `Run.status` has it, or `failed`."""
        return "failed" if self.summary is None else str(self.summary["status"])

    @property
    def bad(self) -> bool:
        """Whether its figures mean nothing: it failed or diverged, and counts as a miss."""
        return self.status in ("failed", "diverged")


Task = tuple[str, Job, Path | None]
"""What to call a run, its job, and the folder to save it in."""
OnDone = Callable[[Trial], None]
Answers = Generator[tuple[int, dict[str, Any]], None, None]
"""What came of a task, by its number, in the order in which they end."""


def train_all(
    tasks: Sequence[Task], workers: int | None = None, on_done: OnDone | None = None
) -> list[Trial]:
    """Train jobs side by side, one torch thread each; the trials in the order of the tasks.

    The first job that is refused raises, and so does Ctrl-C; both end the others at once.
    """
    if workers is not None and workers < 1:
        raise RequestError(f"there cannot be {workers} workers: give 1 or more")
    count = min(workers or os.cpu_count() or 1, len(tasks))
    done: dict[int, Trial] = {}
    # Closed by hand: a traceback would keep the generator, and so the workers, alive.
    with closing((_here if count <= 1 else _apart)(tasks, count)) as answers:
        for index, answer in answers:
            if "refused" in answer:
                raise RequestError(answer["refused"])
            label, job, _ = tasks[index]
            done[index] = Trial(label, job, **answer)
            if on_done is not None:
                on_done(done[index])
    return [done[index] for index in range(len(tasks))]


def _train(text: str, folder: str | None) -> dict[str, Any]:
    """One run; only text goes in and only plain values come out."""
    from colonnade.simulation import simulate

    try:
        run = simulate(loads(text))
    except RequestError as error:
        return {"refused": str(error)}
    except FailedError as error:
        return {"summary": None, "history": [], "error": str(error)}
    if folder is not None:
        run.save(folder)
    return {"summary": plain(run.summary()), "history": plain(run.history)}


def _here(tasks: Sequence[Task], count: int) -> Answers:
    for index, (_, job, folder) in enumerate(tasks):
        yield index, _train(dumps(job), None if folder is None else str(folder))


def _apart(tasks: Sequence[Task], count: int) -> Answers:
    others = set(active_children())
    pool = ProcessPoolExecutor(count, get_context("spawn"))
    futures: dict[Future[dict[str, Any]], int] = {}
    try:
        with _interrupts_held():
            for index, (_, job, folder) in enumerate(tasks):
                path = None if folder is None else str(folder)
                futures[pool.submit(_train, dumps(job), path)] = index
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool:
        raise FailedError(
            "a worker process ended before its run did: is memory short (use fewer workers), or "
            "does a script start runs outside of `if __name__ == '__main__':`?"
        ) from None
    finally:
        if not all(future.done() for future in futures):
            for child in set(active_children()) - others:
                child.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Worker processes started here never see Ctrl-C: it is the parent who ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
