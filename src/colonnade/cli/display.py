"""Who shows a run to a person: a display that moves on a terminal, else lines; or nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from colonnade.cli import screen
from colonnade.cli.frame import Frame
from colonnade.cli.watching import Watch
from colonnade.errors import StoppedError
from colonnade.record.chain import printable
from colonnade.record.events import (
    Aborted,
    Busy,
    Connected,
    Evaluated,
    Event,
    Finished,
    Listening,
    LocalDone,
    RoundDone,
    RowsScored,
    Saved,
    Started,
    Subscriber,
    TakesPart,
    Tested,
    Waited,
    Waiting,
    Worked,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

REFRESH = 5
"""How often a second the display is drawn anew: a frame takes a millisecond, so that a simulation
does not feel it."""
SHOWN = frozenset(
    {Busy, Connected, Evaluated, Finished, RoundDone, RowsScored, Saved, Started, Tested, Waited,
     Waiting, Worked, LocalDone}
)  # fmt: skip
"""What the display shows in its own lines; all other sentences stay above it."""


class Display:
    """The display of one run on a terminal; what stays at the end is a summary of a few lines."""

    def __init__(
        self, console: Console, watch: Watch, several: bool = False, first: Sequence[str] = ()
    ) -> None:
        """Where `several` parties speak, each sentence says whose it is; the sentences `first` come
        before all others."""
        from rich.live import Live

        self._console, self._watch, self._several = console, watch, several
        self._unsaid, self._begun = list(first), False
        self._over = False
        self._live = Live(
            console=console,
            get_renderable=self._frame,
            refresh_per_second=REFRESH,
            vertical_overflow="crop",
        )

    def start(self) -> None:
        """Show it from now on."""
        screen.take_terminal(self._live)
        self._live.refresh()

    def __call__(self, event: Event) -> None:
        """Something has happened."""
        self._begun = True
        while self._unsaid:
            self._console.print(self._unsaid.pop(0))
        self._watch(event)
        if type(event) in SHOWN:
            return
        if isinstance(event, Aborted):
            self.close("ended at once")
        elif self._several and isinstance(event, Listening | TakesPart):
            return  # Who launches all parties knows both.
        elif (sentence := event.sentence()) is not None:
            whose = f"{event.party}: " if self._several else ""
            self._console.print(printable(f"{whose}{sentence}"))

    def close(self, how: str = "") -> None:
        """Leave the summary, and give the terminal back."""
        if not self._over:
            self._over = True
            self._watch.ended(how)
            # Of what was refused before it began there is nothing to sum up.
            self._live.transient = not self._begun
            screen.give_back_terminal()

    def _frame(self) -> Text:
        console = self._console
        frame = Frame(console.width, console.height, console.options.ascii_only)
        seen = self._watch.moment(console.get_time())
        return frame.last(seen) if self._over else frame.live(seen)


@contextmanager
def watched(
    watch: Watch, quiet: bool, lines: Subscriber, first: Sequence[str] = (), several: bool = False
) -> Iterator[Subscriber]:
    """What is to be told of every event: fit for where it goes, the display or `lines`, and the
    log where there is one. The sentences `first` come before all else."""
    console, log = screen.stderr(), screen.log()
    told: list[Subscriber] = [] if log is None else [log]
    if quiet or screen.logs_only() or not console.is_terminal:
        if not quiet:
            # A log has the sentences too, but no line for a person.
            told.append(_after(console, first, None if screen.logs_only() else lines))
        yield _each(told)
        return
    display = Display(console, watch, several, first)
    display.start()
    how = ""
    try:
        yield _each([*told, display])
    except (KeyboardInterrupt, StoppedError):
        how = "interrupted"
        raise
    except BaseException:
        how = "failed"
        raise
    finally:
        display.close(how)


def _after(console: Console, first: Sequence[str], lines: Subscriber | None) -> Subscriber:
    """Says the first sentences when something happens: what is refused before has none."""
    unsaid = list(first)

    def tell(event: Event) -> None:
        while unsaid:
            console.print(unsaid.pop(0))
        if lines is not None:
            lines(event)

    return tell


def _each(subscribers: Sequence[Subscriber]) -> Subscriber:
    if len(subscribers) == 1:
        return subscribers[0]

    def tell(event: Event) -> None:
        for subscriber in subscribers:
            subscriber(event)

    return tell
