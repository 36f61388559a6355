"""Threads for what takes long, so that the event loop never waits for a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
_Task = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class BusyError(Exception):
    """So much waits already that nothing more is taken."""


class Workers:
    """A few threads that work for the event loop, and a bounded queue before them. They end with
    the process, whatever they are doing: Ctrl-C need not wait for a slow disk.

    >>> asyncio.run(Workers(1, waiting_max=4).run(lambda: 6 * 7))
    42
    """

    def __init__(self, threads: int, waiting_max: int) -> None:
        self._count, self._waiting_max = threads, waiting_max
        self._queue: SimpleQueue[_Task] = SimpleQueue()
        self._begun = 0
        self._open = 0
        """How much is waiting or under way."""

    async def run(self, work: Callable[[], T]) -> T:
        """What a function returns, called in a thread; or a `BusyError`."""
        if self._open >= self._count + self._waiting_max:
            raise BusyError
        if self._begun < self._count:
            self._begun += 1
            Thread(target=self._work, daemon=True, name="colonnade-dashboard").start()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._open += 1
        # Whoever asked may have gone: what is under way counts until it is done all the same.
        done.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._queue.put((loop, done, work))
        return await asyncio.shield(done)

    def _work(self) -> None:
        while True:
            loop, done, work = self._queue.get()
            made, fault = None, None
            try:
                made = work()
            except BaseException as error:  # noqa: BLE001 - it is raised where it was asked for
                fault = error
            # Where the loop has ended meanwhile, nobody waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._settle, done, made, fault)

    def _settle(self, done: asyncio.Future[Any], made: Any, fault: BaseException | None) -> None:
        self._open -= 1
        if done.cancelled():
            return
        if fault is None:
            done.set_result(made)
        else:
            done.set_exception(fault)
