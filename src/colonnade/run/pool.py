"""Many runs at once, each in a process of its own."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from colonnade.errors import FailedError, RequestError
from colonnade.job.files import dumps, loads, modules
from colonnade.job.records import Job
from colonnade.record.events import Subscriber
from colonnade.record.table import plain
from colonnade.run.processes import end_with_parent

if TYPE_CHECKING:
    from colonnade.privacy.findings import Audit
    from colonnade.record.run import Run


@dataclass(frozen=True)
class Trial:
    """One run among many: its job, and what came of it."""

    label: str
    job: Job = field(repr=False)
    summary: dict[str, Any] | None = field(repr=False)
    """None when the run failed; then `error` says why."""
    history: list[dict[str, Any]] = field(repr=False)
    error: str | None = None

    @property
    def status(self) -> str:
        """How it ended: as `Run.status` has it, or `failed`."""
        return "failed" if self.summary is None else str(self.summary["status"])

    @property
    def bad(self) -> bool:
        """Whether its figures mean nothing: it failed or diverged, and counts as a miss."""
        return self.status in ("failed", "diverged")

    def figure(self, name: str) -> float | None:
        """A figure of the summary; None where the run missed the target, failed or diverged."""
        if self.summary is None or self.bad or self.summary[name] is None:
            return None
        return float(self.summary[name])


Task = tuple[str, Job, Path | None]
"""What to call a run, its job, and the folder to save it in."""
ALL_ROUNDS = 2**62
"""As many as there are, for an audit, as far as a recording may grow."""
OnDone = Callable[[Trial], None]
Answer = dict[str, Any]
Texts = list[tuple[str, str, list[str], str | None]]
"""What runs are called, their jobs, the modules of code from outside that these name, and folders,
as they go to another process."""
Spread = Callable[
    [Callable[[Texts], list[Answer]], Sequence[Texts]],
    Generator[tuple[int, list[Answer]], None, None],
]
"""Calls a function with each item, somewhere; yields what it makes of them as `side_by_side`."""
Item = TypeVar("Item")
Made = TypeVar("Made")


def train_all(
    tasks: Sequence[Task],
    workers: int | None = None,
    on_done: OnDone | None = None,
    privacy: bool = False,
    spread: Spread | None = None,
    beacons: Path | None = None,
) -> list[Trial]:
    """Train jobs side by side, one torch thread each; the trials in the order of the tasks. With
    `privacy`, a summary also has what an audit of the run's traffic tells. `spread` is where they
    are trained, if not in processes of this host. In the folder `beacons` each run that is under
    way says how far it is.

    The first job that is refused raises, and so does Ctrl-C; both end the others at once.
    """
    families = [[task] for task in tasks]
    return [
        trial for (trial,) in train_families(families, workers, on_done, privacy, spread, beacons)
    ]


def train_families(
    families: Sequence[Sequence[Task]],
    workers: int | None = None,
    on_done: OnDone | None = None,
    privacy: bool = False,
    spread: Spread | None = None,
    beacons: Path | None = None,
    tolerant: bool = False,
) -> list[list[Trial]]:
    """As `train_all`, for jobs that differ in their network and speeds alone: the first of a family
    is trained, the others are clocked again, or trained where something else would be learnt. With
    `tolerant`, a job that is refused counts as failed, and the others go on."""
    done: dict[int, list[Trial]] = {}
    texts = [_texts(family) for family in families]
    spread = spread or partial(side_by_side, workers=workers)
    # Closed by hand: a traceback would keep the generator, and so the workers, alive.
    with closing(spread(partial(_train, privacy, beacons), texts)) as answers:
        for index, family in answers:
            done[index] = []
            for (label, job, _), answer in zip(families[index], family, strict=True):
                if "refused" in answer:
                    if not tolerant:
                        raise RequestError(answer["refused"])
                    answer = {"summary": None, "history": [], "error": answer["refused"]}
                done[index].append(Trial(label, job, **answer))
                if on_done is not None:
                    on_done(done[index][-1])
    return [done[index] for index in range(len(families))]


def _texts(family: Sequence[Task]) -> Texts:
    return [
        (label, dumps(job), modules(job), None if folder is None else str(folder))
        for label, job, folder in family
    ]


def _train(privacy: bool, beacons: Path | None, family: Texts) -> list[Answer]:
    """The runs of a family; only text goes in and only plain values come out."""
    from colonnade.run.audit import save_audit
    from colonnade.run.clock import clocked_again

    answers: list[Answer] = []
    first = None
    for label, text, allow, folder in family:
        try:
            job = loads(text, allow=allow)
            run = None if first is None else clocked_again(first, job)
            if run is None:
                place = None if folder is None else Path(folder)
                run = _trained(label, job, privacy, beacons, place)
        except RequestError as error:
            return [{"refused": str(error)}] * len(family)
        except FailedError as error:
            failed: Answer = {"summary": None, "history": [], "error": str(error)}
            return [*answers, *[failed] * (len(family) - len(answers))]
        first = first or run
        more: dict[str, Any] = {}
        if privacy and run.status != "diverged":
            found, run = _audited(run)
            more = {"privacy": found.told()}
        if folder is not None:
            run.save(folder)
            if more:
                save_audit(found, Path(folder))
        answers.append({"summary": plain(run.summary() | more), "history": plain(run.history)})
    # A run refers to itself, and what it remembers of every row may be large.
    del first, run
    gc.collect()
    return answers


def _trained(label: str, job: Job, privacy: bool, beacons: Path | None, folder: Path | None) -> Run:
    """A run that is trained; those who follow it are told how far it is."""
    from colonnade.run.beacon import Beacon
    from colonnade.run.following import followed
    from colonnade.run.setup import prepare, recording
    from colonnade.run.simulate import simulate_prepared

    with ExitStack() as stack:
        observers: list[Subscriber] = []
        if beacons is not None:
            beacon = Beacon(beacons, label, job.seed, job.active)
            observers.append(stack.enter_context(closing(beacon)))
        parties = recording(prepare(job), ALL_ROUNDS if privacy else None)
        observers += stack.enter_context(followed(folder, job, clock="virtual", anew=True))
        return simulate_prepared(parties, observers=observers)


def _audited(run: Run) -> tuple[Audit, Run]:
    """What a run's traffic tells, and the run without its recording, which has served."""
    from colonnade.run.audit import audit

    parties = {}
    for name, own in run.parties.items():
        assert own.card is not None
        card = msgspec.structs.replace(own.card, recorded=None)
        parties[name] = replace(own, traffic=[], card=card)
    return audit(run), replace(run, parties=parties)


def side_by_side(
    work: Callable[[Item], Made], items: Sequence[Item], workers: int | None = None
) -> Generator[tuple[int, Made], None, None]:
    """What a function makes of each item, by the item's place, in the order in which they end;
    each call in a process of its own, unless there is one worker or one item.

    Close what it returns: that ends the calls that still run.

    >>> dict(side_by_side(len, ["a", "bcd"], workers=1))
    {0: 1, 1: 3}
    """
    if workers is not None and workers < 1:
        raise RequestError(f"there cannot be {workers} workers: give 1 or more")
    count = min(workers or os.cpu_count() or 1, len(items))
    return _here(work, items) if count <= 1 else _apart(work, items, count)


def _here(
    work: Callable[[Item], Made], items: Sequence[Item]
) -> Generator[tuple[int, Made], None, None]:
    for index, item in enumerate(items):
        yield index, work(item)


def _apart(
    work: Callable[[Item], Made], items: Sequence[Item], count: int
) -> Generator[tuple[int, Made], None, None]:
    others = set(active_children())
    pool = ProcessPoolExecutor(count, get_context("spawn"), end_with_parent)
    futures: dict[Future[Made], int] = {}
    try:
        with _interrupts_held():
            for index, item in enumerate(items):
                futures[pool.submit(work, item)] = index
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
