"""What a benchmark found, as a table: each figure beside its bound, and a mark where it missed."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

MISSED = "[bold red]MISSED[/]"


class Figures:
    """A table that grows row by row and knows which bounds were missed.

    >>> figures = Figures("Light")
    >>> figures.add("epoch ÷ plain loop", 1.31, "1.31", most=1.25)
    >>> figures.missed
    ['epoch ÷ plain loop: 1.31, bound ≤ 1.25']
    """

    def __init__(self, title: str, judged: bool = True) -> None:
        self.judged = judged
        """False where everything is too small for the figures to mean anything."""
        self.missed: list[str] = []
        self._table = Table(title=title)
        for column in ("what", "figure", "bound", ""):
            justify = "right" if column in ("figure", "bound") else "left"
            self._table.add_column(column, justify=justify)

    def add(
        self,
        what: str,
        figure: float,
        shown: str,
        *,
        most: float | None = None,
        least: float | None = None,
    ) -> None:
        """One more row; `most` and `least` are its bounds, where it has any."""
        bound = show_bound(most, least)
        kept = (most is None or figure <= most) and (least is None or figure >= least)
        mark = ""
        if bound and self.judged:
            mark = "kept" if kept else MISSED
            if not kept:
                self.missed.append(f"{what}: {shown}, bound {bound}")
        self._table.add_row(what, shown, bound, mark)

    def show(self, console: Console) -> None:
        """Print the table, and below it what was missed."""
        console.print(self._table)
        tell_missed(self.missed, console)


def tell_missed(missed: list[str], console: Console) -> None:
    """Below a table: which bounds were missed, if any."""
    if missed:
        console.print(f"{MISSED} {len(missed)}: " + "; ".join(missed))


def show_bound(most: float | None, least: float | None) -> str:
    """A bound as people write it.

    >>> show_bound(1.15, 0.85), show_bound(None, 40_000), show_bound(2, None)
    ('0.85–1.15', '≥ 40,000', '≤ 2')
    """
    if most is not None and least is not None:
        return f"{least:,g}–{most:,g}"
    if most is not None:
        return f"≤ {most:,g}"
    return f"≥ {least:,g}" if least is not None else ""
