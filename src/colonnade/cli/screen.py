"""Where output goes: tables and JSON to standard output, all else to standard error."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from colonnade.errors import StoppedError
from colonnade.record.chain import printable
from colonnade.record.table import plain, trimmed

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from colonnade.cli.log import JsonLog

WIDE = 120
"""How wide a table may be where there is no terminal to say so."""


def _console() -> type[Console]:
    """A console on which a text does nothing but stand there, whoever wrote it."""
    from rich.console import Console
    from rich.segment import Segment

    class Inert(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                text = segment.text
                if segment.control or text.isprintable():
                    yield segment
                else:
                    safe = "\n".join(printable(line) for line in text.split("\n"))
                    yield Segment(safe, segment.style)

    return Inert


_logs: list[JsonLog] = []
"""The log of this command, where it has one."""


def open_log(text: str | None) -> str | None:
    """Begin the log that `--log` asks for."""
    from colonnade.cli import log

    close_log()
    if text is not None:
        _logs.append(log.open_log(text, sys.stderr))
    return text


def close_log() -> None:
    """The command is over."""
    while _logs:
        _logs.pop().close()


def log() -> JsonLog | None:
    """What writes this command's log; None where nobody has asked for one."""
    return _logs[-1] if _logs else None


def logs_only() -> bool:
    """Whether standard error is for the log, and for nothing else."""
    return bool(_logs) and not _logs[-1].is_file


def complain(sentence: str, code: int) -> None:
    """The one sentence about what went wrong, below whatever was moving."""
    give_back_terminal()
    with patient():
        if _logs:
            _logs[-1].say("Error", sentence, "error", exit_code=code)
        if not logs_only():
            print(f"colonnade: {sentence}", file=sys.stderr)


def stderr() -> Console:
    """The console for progress and remarks."""
    if logs_only():
        from colonnade.cli.log import SaidAsJson

        file: Any = SaidAsJson(_logs[-1])
        return _console()(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True)
    return _console()(
        stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=not sys.stderr.isatty()
    )


def stdout() -> Console:
    """The console for results; wide where there is no terminal to say how wide it is."""
    told = sys.stdout.isatty() or "COLUMNS" in os.environ
    # A method's name may look like markup (`[…]`) or an emoji (`:smile:`), and is neither.
    return _console()(width=None if told else WIDE, highlight=False, markup=False, emoji=False)


def show(renderable: RenderableType) -> None:
    """Print a table, or a text that is not to be broken, on standard output."""
    from rich.table import Table

    from colonnade.record.narrow import fitted

    console, whole = stdout(), isinstance(renderable, str)
    if isinstance(renderable, Table):
        renderable = fitted(renderable, console.width)
    if console.is_terminal:
        console.print(renderable, soft_wrap=whole)
        return
    with console.capture() as captured:
        console.print(renderable, soft_wrap=whole)
    console.out(trimmed(captured.get()), end="", highlight=False)


def show_json(value: Any) -> None:
    """Print plain values on standard output."""
    print(json.dumps(plain(value), indent=1))


@contextmanager
def patient() -> Iterator[None]:
    """Lets a Ctrl-C wait until the block has ended: what must not be left half done."""
    came: list[int] = []
    try:
        before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    except ValueError:  # Only the main thread hears of signals.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)


class Moving(Protocol):
    """What is drawn again and again, and hides the cursor meanwhile."""

    @property
    def console(self) -> Console: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


_moving: list[Moving] = []
"""What has the terminal now, the newest last."""


def say(text: str) -> None:
    """A remark, at any time: above what moves on the terminal, if anything does, which would else
    be drawn over it and leave half of itself behind."""
    (_moving[-1].console if _moving else stderr()).print(text)


def take_terminal(display: Moving) -> None:
    """Begin to show something that moves."""
    with patient():
        _moving.append(display)
        display.start()


def give_back_terminal() -> None:
    """Stop what moves on the terminal, if anything does."""
    with patient():
        while _moving:
            _moving.pop().stop()


@contextmanager
def moving(display: Moving) -> Iterator[None]:
    """Show something that moves, as long as the block takes."""
    take_terminal(display)
    try:
        yield
    finally:
        give_back_terminal()


def leave(ends_process: bool) -> None:
    """A command is over, however it has ended: give the terminal and the log back. Where the
    process ends with it, another Ctrl-C ends it at once, and nothing tells of it on the way."""
    if ends_process:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    give_back_terminal()
    close_log()
    if ends_process:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


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


@contextmanager
def ended_by_signal(kept: str) -> Iterator[None]:
    """Ctrl-C becomes a sentence; a polite kill ends the workers too, and not only us."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(f"interrupted{kept}") from None
    finally:
        signal.signal(signal.SIGTERM, before)
