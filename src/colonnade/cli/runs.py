"""How far many runs are, on a terminal: those that are done, and those that are under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from colonnade.cli.frame import Frame, clock, sparkline
from colonnade.cli.watching import Series
from colonnade.record.chain import printable
from colonnade.run.beacon import UnderWay

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

ENDED_SHOWN = 6
"""How many of the runs that have ended are shown; the table has them all."""
REFRESH = 4
CURVE_CELLS = 20
CURVES_MAX = 64


def seeded(label: str, seed: int) -> str:
    """The name of a run, which may have its seed already.

    >>> seeded("fedsgd", 0), seeded("fedsgd, rate 0.1, seed 0", 0)
    ('fedsgd, seed 0', 'fedsgd, rate 0.1, seed 0')
    """
    return label if ", seed " in label else f"{label}, seed {seed}"


@dataclass
class RunsWatch:
    """Counts runs, and says how long the rest of them will take.

    >>> watch = RunsWatch(total=4)
    >>> watch.ended("fedsgd, seed 0: auc 0.9"); watch.left_s(10.0, [])
    30.0
    """

    total: int | None = None
    title: str = ""
    done: int = 0
    began_s: float = 0.0

    def __post_init__(self) -> None:
        self.recent: deque[str] = deque(maxlen=ENDED_SHOWN)
        self._curves: dict[tuple[str, int], Series] = {}
        self._seen: dict[tuple[str, int], int] = {}

    def plan(self, title: str, total: int, now_s: float) -> None:
        """A stage of so many runs begins."""
        self.title, self.total, self.done, self.began_s = title, total, 0, now_s

    def expect(self, total: int) -> None:
        """There are so many runs to do."""
        self.total = total

    def ended(self, text: str) -> None:
        """A run has ended."""
        self.done += 1
        self.recent.append(printable(text))

    def curve(self, run: UnderWay) -> list[float]:
        """What a run has measured so far, as far as it was seen."""
        key = run.label, run.seed
        if key not in self._curves and len(self._curves) >= CURVES_MAX:
            self._curves.clear()
        series = self._curves.setdefault(key, Series())
        if run.value is not None and self._seen.get(key) != run.done:
            self._seen[key] = run.done
            series.add(run.value)
        return series.values

    def left_s(self, now_s: float, under_way: Sequence[UnderWay]) -> float | None:
        """By how much is done of those that are under way, too; None where that cannot be told."""
        begun = sum(min(1.0, run.done / run.rounds) for run in under_way if run.rounds > 0)
        done = self.done + begun
        if not self.total or done <= 0 or self.done >= self.total:
            return None
        return (now_s - self.began_s) / done * max(0.0, self.total - done)


class RunsFrame(Frame):
    """How many runs are written, on a terminal of this size."""

    def runs(self, watch: RunsWatch, under_way: Sequence[UnderWay], now_s: float) -> Text:
        """How many are done, what is under way, and what has ended last."""
        from rich.text import Text

        lines = [Text(printable(watch.title), style="bold")] if watch.title else []
        lines.append(self._count(watch, under_way, now_s))
        room = self.height - len(lines) - 1
        names = [seeded(run.label, run.seed) for run in under_way]
        width = max((len(name) for name in names), default=0)
        width = min(width, self.width // 2)
        for name, run in list(zip(names, under_way, strict=True))[: max(0, room - 2)]:
            lines.append(self._run(printable(name)[:width].ljust(width), run, watch))
        if not under_way and not watch.done:
            lines.append(Text("the processes that train are starting", style="dim"))
        room = self.height - len(lines) - 2
        recent = list(watch.recent)[-room:] if room > 0 else []
        lines += [Text(f"ended  {text}", style="dim") for text in reversed(recent)]
        return self.joined(lines)

    def _count(self, watch: RunsWatch, under_way: Sequence[UnderWay], now_s: float) -> Text:
        from rich.text import Text

        times = f"{clock(now_s - watch.began_s)} gone"
        left_s = watch.left_s(now_s, under_way)
        times += "" if left_s is None else f", {clock(left_s)} left"
        if not watch.total:
            return Text(f"starting, {times}")
        count = f"runs {watch.done:,}/{watch.total:,}  "
        line = Text(count)
        line.append_text(self.bar(watch.done / watch.total, self.width - len(count) - len(times)))
        return line.append(times)

    def _run(self, name: str, run: UnderWay, watch: RunsWatch) -> Text:
        from rich.text import Text

        line = Text(f"now    {name}  ")
        if not run.rounds:
            return line.append("starts")
        share = run.done / run.rounds
        figures = "" if run.value is None else f"{printable(run.metric)} {run.value:.4f}  "
        room = self.width - line.cell_len - len(figures) - 8
        line.append_text(self.bar(share, min(room, 26)))
        line.append(figures)
        room = min(CURVE_CELLS, self.width - line.cell_len)
        return line.append(sparkline(watch.curve(run), room, self.blocks), style="green")


class RunsDisplay:
    """The display of many runs on a terminal; nothing of it stays, since a table follows."""

    def __init__(
        self, console: Console, watch: RunsWatch, under_way: Callable[[], Sequence[UnderWay]]
    ) -> None:
        from rich.live import Live

        self._console, self._watch, self._under_way = console, watch, under_way
        self.live = Live(
            console=console,
            get_renderable=self._frame,
            refresh_per_second=REFRESH,
            transient=True,
            vertical_overflow="crop",
        )

    def _frame(self) -> Text:
        console = self._console
        frame = RunsFrame(console.width, console.height, console.options.ascii_only)
        return frame.runs(self._watch, self._under_way(), console.get_time())
