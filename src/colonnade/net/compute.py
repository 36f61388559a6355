"""Where a party computes: in a thread of its own, or on the event loop where work is short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from colonnade.party.world import LONG, Work

T = TypeVar("T")

INLINE_NS = 3_000_000
"""Work shorter than this is run inline, because handing it to the thread would cost more."""
UNKNOWN_NS = 10**12
"""The expected duration of a kind of work that was never done: long enough for the thread."""


class ComputeThread:
    """The compute thread, and how long each kind of work has recently taken."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compute")
        self._expected_ns = dict.fromkeys(Work, UNKNOWN_NS)
        """By kind: the longest recent duration, which decays."""

    def is_short(self, kind: Work) -> bool:
        """Whether work of a kind may run inline, which blocks the event loop meanwhile."""
        return self._expected_ns[kind] < INLINE_NS and kind not in LONG

    def run_inline(self, work: Callable[[], T], kind: Work) -> T:
        """Run work on the event loop."""
        return self._note(kind, *self._timed(work))

    async def run(self, work: Callable[[], T], kind: Work) -> T:
        """Run work in the compute thread."""
        loop = asyncio.get_running_loop()
        return self._note(kind, *await loop.run_in_executor(self._thread, self._timed, work))

    def _timed(self, work: Callable[[], T]) -> tuple[T, int]:
        began_ns = self._now()
        return work(), self._now() - began_ns

    def _note(self, kind: Work, result: T, took_ns: int) -> T:
        # The maximum decays slowly, so that one long run counts for a while: an average would hide
        # it among many short ones, and a long run on the event loop delays heartbeats.
        before_ns = self._expected_ns[kind]
        fading_ns = 0 if before_ns == UNKNOWN_NS else 3 * before_ns // 4
        self._expected_ns[kind] = max(took_ns, fading_ns)
        return result

    def close(self) -> None:
        """Release the thread, without waiting for work that is running."""
        self._thread.shutdown(wait=False, cancel_futures=True)
