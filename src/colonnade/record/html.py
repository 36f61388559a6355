"""Runs and comparisons as a notebook shows them: tables and small curves in plain HTML. Nothing in
it runs, and whatever names say is shown as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from colonnade.record.chain import printable
from colonnade.record.history import Row
from colonnade.record.table import run_table

if TYPE_CHECKING:
    from rich.table import Column, Table

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999")
"""Those of Okabe and Ito, which colour-blind people can tell apart."""
WIDTH, HEIGHT = 280, 56
_POINTS_MAX = 200
_CELL = "padding:2px 10px;border:none"
Line = tuple[str, Sequence[tuple[float, float]]]
"""A name, and points from left to right."""


def text(words: object) -> str:
    """Words of anybody, as HTML shows them.

    >>> text("<b>&\\x1b")
    '&lt;b&gt;&amp;?'
    """
    whole = str(words).replace("-\n", "-")
    return escape(" ".join(printable(part) for part in whole.splitlines()))


def sparkline(lines: Sequence[Line], about: str) -> str:
    """Small curves, each in its own colour, over common axes; empty where nothing was measured.

    >>> sparkline([("auc", [(0, 0.5)])], "auc").startswith("<svg ")
    True
    """
    sound = [
        (name, [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)])
        for name, points in lines
    ]
    every = [point for _, points in sound for point in points]
    if not every:
        return ""
    across, up = [x for x, _ in every], [y for _, y in every]
    wide, high = (min(across), max(across)), (min(up), max(up))

    def place(x: float, y: float) -> str:
        right = 3 + _share(x, *wide) * (WIDTH - 6)
        down = HEIGHT - 3 - _share(y, *high) * (HEIGHT - 6)
        return f"{right:.1f},{down:.1f}"

    drawn = []
    for number, (name, points) in enumerate(sound):
        colour, thinned = COLOURS[number % len(COLOURS)], points[:: 1 + len(points) // _POINTS_MAX]
        dots = " ".join(place(x, y) for x, y in [*thinned, *points[-1:]])
        drawn.append(
            f'<polyline points="{dots}" fill="none" stroke="{colour}" stroke-width="1.5">'
            f"<title>{text(name)}</title></polyline>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(about)}">'
        f'{"".join(drawn)}</svg><span style="font-size:smaller"> {text(about)}: '
        f"{high[0]:.4g} to {high[1]:.4g}</span>"
    )


def _share(value: float, low: float, high: float) -> float:
    """Where a value lies between two others; in the middle where these are the same."""
    # Halves: the difference of two large numbers may be larger than any.
    return (value / 2 - low / 2) / (high / 2 - low / 2) if high / 2 > low / 2 else 0.5


def table_html(table: Table) -> str:
    """A table of rich, cell by cell."""
    headings = [text(column.header) for column in table.columns]
    head = "".join(_cell(column.header, column, "th") for column in table.columns)
    rows = zip(*(list(column.cells) for column in table.columns), strict=True)
    body = "".join("<tr>" + "".join(map(_cell, row, table.columns)) + "</tr>" for row in rows)
    shown = f"<thead><tr>{head}</tr></thead>" if any(headings) else ""
    caption = f'<p style="font-size:smaller">{text(table.caption)}</p>' if table.caption else ""
    style = "border-collapse:collapse;margin:6px 0"
    return f'<table style="{style}">{shown}<tbody>{body}</tbody></table>{caption}'


def _cell(cell: object, column: Column, tag: str = "td") -> str:
    side = "right" if column.justify == "right" else "left"
    scope = ' scope="col"' if tag == "th" else ""
    return f'<{tag}{scope} style="text-align:{side};{_CELL}">{text(cell)}</{tag}>'


def run_html(title: str, summary: Mapping[str, Any], history: Sequence[Row]) -> str:
    """One run: what it is, its metric over time, what it came to and what each party did."""
    from rich.table import Table

    metric = summary["metric"]["name"]
    parts: Any = run_table(summary)
    tables = [table_html(part) for part in parts.renderables if isinstance(part, Table)]
    curve = sparkline([(metric, points_of(history, metric))], f"{metric} over time")
    return f"<div><p><b>{text(title)}</b></p>{curve}{''.join(tables)}</div>"


def comparison_html(title: str, table: Table, lines: Sequence[Line], metric: str) -> str:
    """Methods side by side: their curves, and the table."""
    curve = sparkline(lines, f"{metric} over time")
    names = [
        f'<span style="color:{COLOURS[number % len(COLOURS)]}">&#9644;</span> {text(name)}'
        for number, (name, _) in enumerate(lines)
    ]
    legend = f'<p style="font-size:smaller">{"&ensp;".join(names)}</p>' if curve else ""
    return f"<div><p><b>{text(title)}</b></p>{curve}{legend}{table_html(table)}</div>"


def points_of(history: Sequence[Row], metric: str) -> list[tuple[float, float]]:
    """A metric over time, or over rounds where nothing takes any time.

    >>> points_of([{"time_s": 0.0, "round": 3, "auc": 0.5}], "auc")
    [(3.0, 0.5)]
    """
    measured = [row for row in history if row.get(metric) is not None]
    across = "time_s" if any(row["time_s"] for row in measured) else "round"
    return [(float(row[across]), float(row[metric])) for row in measured]
