"""Where the multiplications are done: on all cores of this host, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from colonnade.errors import RequestError

T = TypeVar("T")
SLICE = 128
"""How many ids one piece of work has on a thread: short, so that all cores end together."""
RAY_SLICE = 1_024
"""As many on another host, where handing work over takes a while; a round has eight of them."""
RAY_HERE = "ray"
"""A cluster of this host alone, for as long as the command runs."""
RAY_STORE_BYTES = 128 * 2**20
"""What such a cluster may keep in memory: no round takes more than a few MiB."""


class Workers(Protocol):
    """Do pieces of work, which depend on nothing but their arguments."""

    slice: int
    """How many ids a piece should have."""

    def map(self, work: Callable[..., T], pieces: Sequence[tuple[Any, ...]]) -> list[T]:
        """The results in the order of the pieces."""
        ...

    def close(self) -> None:
        """Nothing more is to be done."""
        ...


class Threads:
    """On threads of this process: libsodium lets the others go on while it multiplies.

    >>> workers = Threads(2)
    >>> workers.map(pow, [(2, 3), (3, 2)])
    [8, 9]
    >>> workers.close()
    """

    slice = SLICE

    def __init__(self, count: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(count or cores())

    def map(self, work: Callable[..., T], pieces: Sequence[tuple[Any, ...]]) -> list[T]:
        if len(pieces) == 1:
            return [work(*pieces[0])]
        return list(self._pool.map(lambda piece: work(*piece), pieces))

    def close(self) -> None:
        self._pool.shutdown()


def cores() -> int:
    """How many cores this process may use.

    >>> cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def connect_ray(address: str, option: str) -> Any:
    """Ray's module, connected with the cluster that an option of the command line names."""
    try:
        import ray
    except ImportError:
        raise RequestError(f"{option} {address} needs Ray: pip install 'colonnade[ray]'") from None
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    try:
        if address == RAY_HERE:
            ray.init("local", num_cpus=cores(), include_dashboard=False,
                     object_store_memory=RAY_STORE_BYTES, **quiet)  # fmt: skip
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RequestError(
            f"there is no Ray cluster at {address} ({str(error).splitlines()[0][:200]}): start "
            f"one, or leave out {option}"
        ) from None
    return ray


class Ray:
    """On a Ray cluster; each piece is a task of its own. Keys and blinds travel there, so the
    cluster must be this party's own."""

    slice = RAY_SLICE

    def __init__(self, address: str) -> None:
        self._ray = connect_ray(address, "--workers")

    def map(self, work: Callable[..., T], pieces: Sequence[tuple[Any, ...]]) -> list[T]:
        task = self._ray.remote(work)
        results: list[T] = self._ray.get([task.remote(*piece) for piece in pieces])
        return results

    def close(self) -> None:
        self._ray.shutdown()


def workers(text: str | None = None) -> Workers:
    """As the command line names them: a number of threads, `ray://HOST:PORT`, `ray` for one that is
    started here, or None for a thread on each core.

    >>> workers("1").map(len, [("ab",)])
    [2]
    >>> workers("many")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    colonnade.errors.RequestError: --workers many is neither a number of threads nor ...
    """
    if text is None:
        return Threads()
    if text.isdecimal() and 1 <= int(text) <= 1024:
        return Threads(int(text))
    if text.startswith("ray://") or text == RAY_HERE:
        return Ray(text)
    raise RequestError(
        f"--workers {text} is neither a number of threads nor a Ray cluster: write --workers 4, or "
        "--workers ray://HOST:10001"
    )
