"""Where a party computes over the network: in one thread of its own, or at once if it is short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from colonnade.party.world import UNCHARGED, Work

T = TypeVar("T")

INLINE_NS = 3_000_000
"""Work shorter than this is not worth the way to the compute thread and back."""
UNKNOWN_NS = 10**12
"""How long work is taken to be of whose kind none was done yet."""


class ComputeThread:
    """The compute thread, and how long each kind of work took of late."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compute")
        self._expected_ns = dict.fromkeys(Work, UNKNOWN_NS)
        """By kind: the longest of late."""

    def is_short(self, kind: Work) -> bool:
        """Whether work of a kind may be done on the event loop, which stands still meanwhile."""
        return self._expected_ns[kind] < INLINE_NS and kind not in UNCHARGED

    def run_inline(self, work: Callable[[], T], kind: Work) -> T:
        """Do the work at once."""
        return self._note(kind, *self._timed(work))

    async def run(self, work: Callable[[], T], kind: Work) -> T:
        """Let the compute thread do the work."""
        loop = asyncio.get_running_loop()
        return self._note(kind, *await loop.run_in_executor(self._thread, self._timed, work))

    def _timed(self, work: Callable[[], T]) -> tuple[T, int]:
        began_ns = self._now()
        return work(), self._now() - began_ns

    def _note(self, kind: Work, result: T, took_ns: int) -> T:
        # One that was long counts for a while: an average would hide it among many short ones.
        before_ns = self._expected_ns[kind]
        fading_ns = 0 if before_ns == UNKNOWN_NS else 3 * before_ns // 4
        self._expected_ns[kind] = max(took_ns, fading_ns)
        return result

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
