"""Where output goes: tables and JSON to standard output, all else to standard error."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDE = 120
"""How wide a table may be where there is no terminal to say so."""


def stderr() -> Console:
    """The console for progress and remarks."""
    from rich.console import Console

    return Console(
        stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=not sys.stderr.isatty()
    )


def stdout() -> Console:
    """The console for results; wide where there is no terminal to say how wide it is."""
    from rich.console import Console

    told = sys.stdout.isatty() or "COLUMNS" in os.environ
    # A method's name may look like markup (`[…]`) or an emoji (`:smile:`), and is neither.
    return Console(width=None if told else WIDE, highlight=False, markup=False, emoji=False)


def show(renderable: RenderableType) -> None:
    """Print a table, or a text that is not to be broken, on standard output."""
    stdout().print(renderable, soft_wrap=isinstance(renderable, str))


def show_json(value: Any) -> None:
    """Print plain values on standard output."""
    from colonnade.track.table import plain

    print(json.dumps(plain(value), indent=1))


@contextmanager
def ctrl_c(*others: signal.Signals) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C, or another signal, into a flag that the training looks at; the second
    ends at once."""
    pressed = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    before = {each: signal.signal(each, remember) for each in (signal.SIGINT, *others)}
    try:
        yield lambda: pressed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
