"""What a person is told of the events of a party."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.record.chain import printable
from colonnade.record.events import Evaluated, Event, RoundDone, Tested, Waiting, figures
from colonnade.units import NS_PER

LINE_EVERY_NS = 10 * NS_PER["s"]
"""Between two lines of progress, or of waiting, where there is no terminal."""


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

    def line(self, event: Event) -> Line | None:
        """The line for an event; None where it is worth none. What others say may be in it, and is
        made fit for a terminal."""
        match event:
            case RoundDone():
                return self._progress(event)
            case Waiting():
                return self._wait(event)
            case Evaluated() | Tested():
                self._measured = f", {figures(event.measured)}"
                return Line(printable(event.sentence()), logged=True)
        said = event.sentence()
        return None if said is None else Line(printable(said), True, True, True)

    def _progress(self, event: RoundDone) -> Line | None:
        self._waits = False
        if event.time_ns - self._shown_ns < NS_PER["s"]:
            return None
        self._shown_ns = event.time_ns
        first, prints = self._printed_ns < 0, event.time_ns - self._printed_ns >= LINE_EVERY_NS
        if prints:
            self._printed_ns = event.time_ns
        text = f"round {event.round + 1} of {event.rounds}{self._measured}"
        return Line(text, shown=True, printed=prints and not first)

    def _wait(self, event: Waiting) -> Line | None:
        """Said at once when the party begins to wait, and then every ten seconds."""
        began, self._waits = not self._waits, event.what is not None
        if event.what is None:
            return None
        says = began or event.time_ns - self._waited_ns >= LINE_EVERY_NS
        if says:
            self._waited_ns = event.time_ns
        return Line(printable(event.what), shown=True, printed=says, logged=says)
