"""What a person is told of the events of a party, on the screen and in the party's log."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from colonnade.cli import screen
from colonnade.cli.frame import clock, speed
from colonnade.record.chain import printable
from colonnade.record.events import (
    Busy,
    Evaluated,
    Event,
    Finished,
    LocalDone,
    RoundDone,
    RowsScored,
    Subscriber,
    Tested,
    Waited,
    Waiting,
    Worked,
    figures,
)
from colonnade.record.private import append_to_private
from colonnade.units import NS_PER

if TYPE_CHECKING:
    from rich.console import Console

    from colonnade.cli.display import Display
    from colonnade.cli.watching import Watch

LINE_EVERY_NS = 10 * NS_PER["s"]
"""Between two lines of progress, or of waiting, where there is no terminal."""
RELAY_EVERY_NS = NS_PER["s"] // 4
"""Between two events that say how far a party is, for who shows several."""


@dataclass(frozen=True)
class Line:
    """One line, and where it belongs."""

    text: str
    shown: bool = False
    """As what the party does now, until there is another."""
    printed: bool = False
    logged: bool = False


class Narrator:
    """Makes lines of a party's events: everything that happens once, and now and then how far the
    party is or for whom it waits.

    >>> from colonnade.record.events import Notice
    >>> Narrator().line(Notice("lab", 0, "listens at :7443"))
    Line(text='listens at :7443', shown=True, printed=True, logged=True)
    """

    def __init__(self) -> None:
        self._waits = False
        self._measured = ""
        self._shown_ns = self._printed_ns = self._waited_ns = -(10**18)
        """When progress was last shown and printed, and when it was said that the party waits."""
        self._first: tuple[int, int] | None = None
        """When progress was first told, and how much it was."""

    def line(self, event: Event) -> Line | None:
        """The line for an event; None where it is worth none. What others say may be in it, and is
        made fit for a terminal."""
        match event:
            case RoundDone():
                so_far = f"round {event.round + 1} of {event.rounds}"
                return self._progress(event, so_far, event.round + 1, event.rounds)
            case RowsScored():
                return self._progress(event, event.progress(), event.done, event.rows)
            case Waiting():
                return self._wait(event)
            case Evaluated() | Tested():
                self._measured = f", {figures(event.measured)}"
                return Line(printable(event.sentence()), logged=True)
        said = event.sentence()
        return None if said is None else Line(printable(said), True, True, True)

    def _progress(self, event: Event, so_far: str, done: int, total: int) -> Line | None:
        self._waits = False
        if self._first is None or done < self._first[1]:
            self._first = event.time_ns, done
        if event.time_ns - self._shown_ns < NS_PER["s"]:
            return None
        self._shown_ns = event.time_ns
        first, prints = self._printed_ns < 0, event.time_ns - self._printed_ns >= LINE_EVERY_NS
        if prints:
            self._printed_ns = event.time_ns
        text = so_far + self._measured + self._left(event.time_ns, done, total)
        return Line(text, shown=True, printed=prints and not first)

    def _left(self, now_ns: int, done: int, total: int) -> str:
        """How fast it goes, and how long the rest takes, where that can be told."""
        assert self._first is not None
        took_s, more = (now_ns - self._first[0]) / NS_PER["s"], done - self._first[1]
        if took_s <= 0 or more <= 0 or not total:
            return ""
        return f", {speed(more / took_s)} a second, {clock((total - done) * took_s / more)} left"

    def _wait(self, event: Waiting) -> Line | None:
        """Said at once when the party begins to wait, and then every ten seconds."""
        began, self._waits = not self._waits, event.what is not None
        if event.what is None:
            return None
        says = began or event.time_ns - self._waited_ns >= LINE_EVERY_NS
        if says:
            self._waited_ns = event.time_ns
        return Line(printable(event.what), shown=True, printed=says, logged=says)


class Reporter:
    """Tells a person, and the party's log, what happens; or `colonnade launch`, which tells the
    person: a line of JSON for every event that is worth one."""

    def __init__(
        self,
        console: Console,
        log: Path,
        quiet: bool,
        launched: bool = False,
        watch: Watch | None = None,
    ) -> None:
        """With a `watch`, a terminal shows it, and lines where there is none."""
        self._console = console
        self._log = os.fdopen(append_to_private(log), "a", buffering=1, encoding="utf-8")
        self._log_name = log
        self._json = None if launched else screen.log()
        self._quiet = quiet or launched or screen.logs_only()
        self._relay = Relay(_print_event) if launched else None
        self._narrator = Narrator()
        self._display: Display | None = None
        if watch is not None and console.is_terminal and not self._quiet:
            from colonnade.cli.display import Display

            self._display = Display(console, watch)
            self._display.start()

    def __call__(self, event: Event) -> None:
        """Write what happened into the log, and show it."""
        if self._relay is not None:
            self._relay(event)
        if self._json is not None:
            self._json(event)
        if self._display is not None:
            self._display(event)
        line = self._narrator.line(event)
        if line is None:
            return
        if line.logged:
            self._write(line.text)
        if line.printed and not self._quiet and self._display is None:
            self._console.print(line.text)

    def ended(self, sentence: str, how: str) -> None:
        """The party ended before the job did: its log says why, as the terminal will."""
        self._write(printable(sentence))
        if self._display is not None:
            self._display.close(how)

    def _write(self, text: str) -> None:
        """Into the log; where that cannot be, it is said once, and the party goes on without."""
        from colonnade.net.detector import stamp

        if self._log.closed:
            return
        try:
            self._log.write(f"{stamp()} {text}\n")
        except OSError as error:
            with suppress(OSError):
                self._log.close()
            self._console.print(f"{self._log_name} cannot be written: {error.strerror}")

    def close(self) -> None:
        """The party has ended."""
        if self._display is not None:
            self._display.close()
        with suppress(OSError):
            self._log.close()


class Relay:
    """Hands a party's events on to a process that shows several parties: how far it is a few times
    a second, and its work in sums, because every piece of it would be too much.

    >>> relay = Relay(print)
    >>> relay(Worked("lab", 0, "forward", 5))
    >>> relay(Worked("lab", 10, "forward", 5 * 10**8))
    Busy(party='lab', time_ns=500000000, worked={'forward': 499999990}, waited={})
    """

    def __init__(self, tell: Subscriber) -> None:
        self._tell = tell
        self._told_ns = self._summed_ns = -(10**18)
        self._newest: RoundDone | RowsScored | None = None
        """The last one of which nobody was told."""
        self._worked: dict[str, int] = {}
        self._waited: dict[str, int] = {}

    def __call__(self, event: Event) -> None:
        """Hand it on, keep it for a sum, or let it go."""
        if isinstance(event, Worked):
            self._sum(event)
        elif isinstance(event, RoundDone | RowsScored):
            self._newest = event
            if event.time_ns - self._told_ns >= RELAY_EVERY_NS:
                self._tell_newest()
        elif not isinstance(event, LocalDone):
            if isinstance(event, Evaluated | Tested | Finished):
                # It stands beside how far the party is, and after the last there is no other.
                self._tell_newest()
            self._tell(event)

    def _tell_newest(self) -> None:
        if self._newest is not None:
            self._told_ns = self._newest.time_ns
            self._tell(self._newest)
            self._newest = None

    def _sum(self, event: Worked) -> None:
        sums, name = self._worked, event.kind
        if isinstance(event, Waited):
            sums, name = self._waited, event.peer
        sums[name] = sums.get(name, 0) + event.ended_ns - event.time_ns
        if event.ended_ns - self._summed_ns >= RELAY_EVERY_NS:
            first, self._summed_ns = self._summed_ns < 0, event.ended_ns
            if not first:
                self._tell(Busy(event.party, event.ended_ns, self._worked, self._waited))
            self._worked, self._waited = {}, {}


def _print_event(event: Event) -> None:
    print(msgspec.json.encode(event).decode(), flush=True)
