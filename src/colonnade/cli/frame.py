"""A moment of a run as a few lines of text: what the live display shows, and what stays of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from colonnade.cli.watching import Moment, PartyMoment
from colonnade.record.chain import printable
from colonnade.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.text import Text

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = "_.:-=+*#"
"""For a terminal that shows ASCII only."""
NARROW, WIDE = 72, 100
"""Below the one, columns are left out; above the other, there is room for a long curve."""
BAR = 40
CURVE, CURVE_NARROW = 40, 20
NAME_MAX = 16
MANY = 100_000
"""From here on, a number of rounds in a second is written with a k."""


def sparkline(values: Sequence[float], width: int, blocks: str = BLOCKS) -> str:
    """A curve in one line, from its lowest value to its highest.

    >>> sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8)
    '▁▂▃▄▅▆▇█'
    >>> sparkline([5.0, 5.0], 8)
    '▁▁'
    """
    if width < 1 or not values:
        return ""
    count = len(values)
    if count > width:
        # The last of each piece, so that the newest value is always there.
        values = [values[(place + 1) * count // width - 1] for place in range(width)]
    low, high = min(values), max(values)
    if not high > low:
        return blocks[0] * len(values)
    # Halves, because the difference of two large numbers may be none.
    scale = (len(blocks) - 1) / (high / 2 - low / 2)
    return "".join(blocks[round((value / 2 - low / 2) * scale)] for value in values)


def clock(seconds: float) -> str:
    """A duration that is read at a glance.

    >>> clock(7), clock(75), clock(7300), clock(200_000)
    ('0:07', '1:15', '2:01:40', '2 days 7:33')
    """
    whole = min(int(seconds + 0.5), 10**9)
    if whole >= 2 * 86_400:
        return f"{whole // 86_400} days {whole % 86_400 // 3600}:{whole % 3600 // 60:02}"
    if whole >= 3600:
        return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"
    return f"{whole // 60}:{whole % 60:02}"


def speed(rate: float) -> str:
    """How many there are in a second, in three digits.

    >>> speed(0.01234), speed(12.345), speed(4321.0)
    ('0.0123', '12.3', '4,321')
    """
    if rate >= MANY:
        return f"{rate / 1000:,.0f}k"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


class Frame:
    """How a moment is written, on a terminal of this size."""

    def __init__(self, width: int, height: int, plain: bool = False) -> None:
        self.width, self.height = max(20, width), max(4, height)
        self.blocks = PLAIN_BLOCKS if plain else BLOCKS
        self._full, self._rest, self._dash = ("#", ".", "-") if plain else ("━", "─", "–")
        self._up, self._down = ("up", "down") if plain else ("↑", "↓")

    def live(self, seen: Moment) -> Text:
        """While the run goes on: how far it is, and a line for each party."""
        lines = [*self._head(seen), self._progress(seen), *self._figures(seen)]
        room = self.height - len(lines) - 2
        parties = self._parties(seen, room) if room > 0 else []
        return self.joined([*lines, *parties][: self.height - 1])

    def last(self, seen: Moment) -> Text:
        """What stays when the run is over."""
        from rich.text import Text

        return self.joined([self._ending(seen), *self._figures(seen), Text()])

    def joined(self, lines: Sequence[Text]) -> Text:
        """Lines as they fit."""
        from rich.text import Text

        for line in lines:
            line.truncate(self.width, overflow="crop" if self._rest == "." else "ellipsis")
        joined = Text("\n").join(lines)
        joined.no_wrap, joined.overflow = True, "crop"
        return joined

    def _head(self, seen: Moment) -> list[Text]:
        from rich.text import Text

        if not seen.title:
            return []
        return [Text(printable(seen.title), style="bold")]

    def _progress(self, seen: Moment) -> Text:
        from rich.text import Text

        total = max(seen.total, seen.done)
        share = seen.done / total if total and seen.total else 0.0
        times = f"{clock(seen.elapsed_s)} gone"
        if seen.left_s is not None:
            times += f", {clock(seen.left_s)} left"
        of = f"/{seen.total:,}" if seen.total else ""
        count = f"{seen.unit} {seen.done:,}{of}"
        if not seen.total:
            # An alignment knows how many rounds it takes when the first is done.
            works = any(each.works for each in seen.parties)
            return Text(
                f"{count}  {times}" if seen.done else f"{'begun' if works else 'starting'}, {times}"
            )
        line = Text(f"{count}  ")
        line.append_text(self.bar(share, self.width - len(count) - len(times) - 2))
        return line.append(times)

    def bar(self, share: float, room: int) -> Text:
        """How much is done, as a bar with a figure; nothing where there is too little room."""
        from rich.text import Text

        bar, cells = Text(), min(BAR, room - 8)
        if cells >= 8:
            share = min(1.0, max(0.0, share))
            full = int(share * cells)
            bar.append(self._full * full, style="cyan")
            bar.append(self._rest * (cells - full), style="dim")
            bar.append(f" {share:4.0%}  ")
        return bar

    def _ending(self, seen: Moment) -> Text:
        from rich.text import Text

        plural = "" if seen.done == 1 else "s"
        of = f" of {seen.total:,}" if seen.total > seen.done else ""
        how = f"{printable(seen.over)}, " if seen.over else ""
        if not seen.done and not seen.total:
            # A party that only answers has no rounds to count.
            return Text(f"{how or 'done, '}{show_seconds(seen.ran_s)} in all")
        return Text(f"{how}{seen.done:,}{of} {seen.unit}{plural} in {show_seconds(seen.ran_s)}")

    def _figures(self, seen: Moment) -> list[Text]:
        """The metric with its curve, and how fast the run is and what it sends."""
        from rich.text import Text

        lines = []
        cells = CURVE_NARROW if self.width < NARROW else CURVE
        curve = sparkline(seen.curve, min(cells, self.width - 50), self.blocks)
        if seen.value is not None and seen.metric is not None:
            line = Text(f"{printable(seen.metric)} ")
            line.append(f"{seen.value:.4f}", style="bold")
            if seen.best is not None:
                line.append(f"  best {seen.best[0]:.4f} (round {seen.best[1]:,})")
            lines.append(_more(line, f"  {curve}", self.width, "green"))
            if seen.loss is not None:
                _more(line, f"  loss {seen.loss:.4g}", self.width)
        elif seen.loss is not None:
            line = Text(f"loss {seen.loss:.4g}")
            lines.append(_more(line, f"  {curve}", self.width, "green"))
        if seen.test:
            tested = ", ".join(
                f"{printable(name)} {value:.4f}" for name, value in seen.test.items()
            )
            lines.append(Text(f"on the test rows: {tested}"))
        return [*lines, *self._pace(seen)]

    def _pace(self, seen: Moment) -> list[Text]:
        """How fast it goes, and what crosses."""
        from rich.text import Text

        fast = [f"{speed(seen.rate)} {seen.unit}s/s"] if seen.rate else []
        if seen.virtual_s:
            fast.append(f"virtual time {show_seconds(seen.virtual_s)}")
            if seen.virtual_rate:
                fast.append(f"{speed(seen.virtual_rate)} s of it in a second")
        crossed = [
            f"{way} {show_bytes(count)}{f' ({show_bytes(rate)}/s)' if rate else ''}"
            for way, count, rate in (
                (self._up, seen.bytes_up, seen.up_rate),
                (self._down, seen.bytes_down, seen.down_rate),
            )
            if count
        ]
        whole = "   ".join([*fast, *crossed])
        lines = [whole] if len(whole) <= self.width else ["   ".join(fast), "   ".join(crossed)]
        return [Text(line) for line in lines if line]

    def _parties(self, seen: Moment, room: int) -> list[Text]:
        """A heading and a line for each party, as many as there is room for."""
        from rich.text import Text

        shown = seen.parties if len(seen.parties) < room else seen.parties[: max(0, room - 2)]
        if not shown:
            return []
        rows = [self._cells(each) for each in shown]
        heads = ("", f"{seen.unit}s", "in flight", "stale", "local:fresh", "now")
        used = [
            place
            for place in range(len(heads) - 1)
            if any(row[place] for row in rows)
            and not (self.width < NARROW and heads[place] in ("stale", "local:fresh"))
        ]
        widths = {
            place: max(len(heads[place]), *(_cells_of(row[place]) for row in rows))
            for place in used
        }
        lines = [Text()]
        heading = Text("  ".join(_set(heads[place], widths[place], place) for place in used))
        heading.append("  now")
        heading.stylize("dim")
        lines.append(heading)
        for row in rows:
            text = "  ".join(_set(row[place] or self._dash, widths[place], place) for place in used)
            lines.append(Text(text).append(f"  {_whole(row[-1], self.width - len(text) - 2)}"))
        if len(shown) < len(seen.parties):
            lines.append(Text(f"and {len(seen.parties) - len(shown)} more", style="dim"))
        return lines

    def _cells(self, party: PartyMoment) -> tuple[str, ...]:
        from rich.cells import set_cell_size

        name = party.name if len(party.name) <= NAME_MAX else set_cell_size(party.name, NAME_MAX)
        return (
            name,
            "" if party.done is None else f"{party.done:,}",
            "" if party.window is None else f"{party.in_flight} of {party.window}",
            "" if party.staleness is None else str(party.staleness),
            "" if party.ratio is None else f"{party.ratio:.3g}:1",
            self._now(party),
        )

    def _now(self, party: PartyMoment) -> str:
        """What the party does, the larger share first."""
        if party.text:
            return party.text
        waited = sum(share for _, share in party.waits)
        if not party.waits and party.works:
            waited = 1 - sum(share for _, share in party.works)
        whom = f" for {party.waits[0][0]}" if party.waits and party.waits[0][0] else ""
        shares = [*party.works[:3], (f"waits{whom}", min(1.0, waited))]
        shares.sort(key=lambda each: -each[1])
        return ", ".join(f"{what} {share:.0%}" for what, share in shares if share >= 0.005)


def _whole(text: str, room: int) -> str:
    """As many of the pieces between commas as there is room for; cut within the first if need be.

    >>> _whole("waits 60%, local 34%, forward 6%", 25)
    'waits 60%, local 34%'
    """
    while _cells_of(text) > room and ", " in text and "%" in text:
        text = text.rpartition(", ")[0]
    return text


def _more(line: Text, piece: str, width: int, style: str = "") -> Text:
    """A line with one more piece, if there is room for all of it."""
    from rich.cells import cell_len

    if piece.strip() and line.cell_len + cell_len(piece) <= width:
        line.append(piece, style=style)
    return line


def _cells_of(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _set(text: str, width: int, place: int) -> str:
    """Names to the left, figures to the right."""
    space = " " * (width - _cells_of(text))
    return space + text if place else text + space
