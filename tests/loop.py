"""One event loop for all tests of a process.

gRPC hands what comes late, such as the status of a call that was hung up, to the loop that the call
was made in. A loop that a test has closed would make that a fault of whichever test is next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


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
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
