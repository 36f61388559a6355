"""Runs on a Ray cluster: a search over settings outgrows one machine first."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from colonnade.align.workers import RAY_HERE, connect_ray
from colonnade.errors import FailedError, RequestError
from colonnade.run.pool import Answer, Spread, Texts


@contextmanager
def cluster(address: str) -> Iterator[Spread]:
    """Where runs are trained: on the cluster at `ray://HOST:PORT`, or `ray` for one of this host,
    for as long as the context lasts. Every run is a task on one core.

    Jobs go there as text, and plain values come back. The hosts of the cluster must have Colonnade
    installed, and the data of the job where this host has it.
    """
    if not address.startswith("ray://") and address != RAY_HERE:
        raise RequestError(
            f"--on {address} is no Ray cluster: write --on ray://HOST:10001, or --on ray for one "
            "of this host"
        )
    ray = connect_ray(address, "--on")
    try:
        yield lambda work, items: _spread(ray, work, items)
    finally:
        ray.shutdown()


def _spread(
    ray: Any, work: Callable[[Texts], list[Answer]], items: Sequence[Texts]
) -> Generator[tuple[int, list[Answer]], None, None]:
    task = ray.remote(num_cpus=1)(_call)
    places = {task.remote(work, item): place for place, item in enumerate(items)}
    try:
        while places:
            (done,), _ = ray.wait(list(places), num_returns=1)
            place = places.pop(done)
            try:
                yield place, ray.get(done)
            except ray.exceptions.RayError as error:
                raise FailedError(
                    f"a run on the cluster ended badly ({_last_line(error)}): is Colonnade "
                    "installed on its hosts, in this version, and is there memory enough?"
                ) from None
    finally:
        for left in places:
            ray.cancel(left, force=True)


def _call(work: Callable[[Texts], list[Answer]], item: Texts) -> list[Answer]:
    """Ray takes functions, and no other callables."""
    return work(item)


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else type(error).__name__
