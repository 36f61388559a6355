"""Signals in an event loop, from its beginning until it is closed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def run_hearing(
    whole: Coroutine[Any, Any, T], handlers: Mapping[signal.Signals, Callable[[], object]]
) -> T:
    """`asyncio.run`, in which each of these signals calls its function.

    A loop that is closed first closes the pipe by which it hears of signals, and only then stops
    listening: Python prints a traceback for a signal that comes in between. So the loop is told to
    stop listening before, and until it is closed the functions are called without it.

    >>> async def whole():
    ...     signal.raise_signal(signal.SIGTERM)
    ...     await asyncio.sleep(0.01)
    >>> run_hearing(whole(), {signal.SIGTERM: lambda: print("heard")})
    heard
    """
    before = {number: signal.getsignal(number) for number in handlers}

    async def hearing() -> T:
        loop = asyncio.get_running_loop()
        # Elsewhere than on Unix, Ctrl-C raises KeyboardInterrupt, which ends the loop as well.
        with suppress(NotImplementedError):
            for number, handler in handlers.items():
                loop.add_signal_handler(number, handler)
        try:
            return await whole
        finally:
            with suppress(NotImplementedError):
                for number, handler in handlers.items():
                    loop.remove_signal_handler(number)
                    signal.signal(number, partial(_call, handler))

    try:
        return asyncio.run(hearing())
    finally:
        for number, known in before.items():
            if known is not None:  # Not one of Python's.
                signal.signal(number, known)


def _call(handler: Callable[[], object], number: int, frame: FrameType | None) -> None:
    handler()
