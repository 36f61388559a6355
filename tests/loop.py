"""One event loop for all tests of a process.

gRPC hands what comes late, such as the status of a call that was hung up, to the loop that the call
was made in. A loop that a test has closed would make that a fault of whichever test is next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cache
from types import CoroutineType
from typing import Any, TypeVar

T = TypeVar("T")
ENDING_S = 2


@cache
def runner() -> asyncio.Runner:
    """Whoever runs them all; closed at the end of the session."""
    return asyncio.Runner()


def run(whole: Coroutine[Any, Any, T]) -> T:
    """Run a test to its end, and end whatever it has left running."""
    loop = runner().get_loop()
    # Playwright leaves its thread without one.
    asyncio.set_event_loop(loop)
    try:
        return runner().run(whole)
    finally:
        loop.set_exception_handler(None)
        loop.run_until_complete(_end(asyncio.all_tasks(loop)))


async def _end(left: set[asyncio.Task[Any]]) -> None:
    """Cancel what a test has left running. Tasks of gRPC's end with what they are for: a server
    that is cancelled writes into memory that it has freed."""
    ours = {task for task in left if isinstance(task.get_coro(), CoroutineType)}
    for task in ours:
        task.cancel()
    await asyncio.gather(*ours, return_exceptions=True)
    if left - ours:
        await asyncio.wait(left - ours, timeout=ENDING_S)
