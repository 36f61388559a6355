"""Bytes against time as a picture: `python -m benchmarks.frontier RACE.json … --out FILE.svg`.

Each file is what `colonnade race … --json` prints, and becomes a panel with a point for every
method that held the target with at least one seed. Both axes are logarithmic. The lower left is
better.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from colonnade.units import show_seconds

WIDTH, HEIGHT = 380, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 34, 46
COLOURS = ("#4053d3", "#b51d14", "#007a5e", "#9a4fd0", "#b06a00", "#00739c", "#5c5c5c")


@dataclass(frozen=True)
class Point:
    """A method of a race, where it held the target."""

    method: str
    time_s: float
    mb: float
    reached: str
    """With how many seeds of how many; empty where with all."""

    @property
    def label(self) -> str:
        """As it stands in the picture."""
        return f"{self.method} ({self.reached})" if self.reached else self.method


def points(race: dict[str, Any]) -> list[Point]:
    """What a race has to show.

    >>> row = {"method": "auto", "reached": 2, "runs": 3, "time_s_mean": 15, "bytes_mean": 5e6}
    >>> points({"rows": [row, row | {"reached": 0}]})[0].label
    'auto (2 of 3)'
    """
    found = []
    for row in race["rows"]:
        if row["reached"]:
            part = "" if row["reached"] == row["runs"] else f"{row['reached']} of {row['runs']}"
            mb = row["bytes_mean"] / 1e6
            found.append(Point(row["method"], row["time_s_mean"], mb, part))
    return found


def ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, up to where all values lie between the first and the last.

    >>> ticks(0.26, 5.75)
    [0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    every = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    first = max(value for value in every if value <= low)
    last = min(value for value in every if value >= high)
    return [value for value in every if first <= value <= last]


class Axis:
    """From a value to a place in the picture."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self.ticks = ticks(min(values), max(values))
        self._low, self._high = (math.log10(self.ticks[place]) for place in (0, -1))
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self._low) / ((self._high - self._low) or 1)
        return self._begin + share * (self._end - self._begin)


def panel(race: dict[str, Any], left: int) -> str:
    """The points of a race, with its axes, from a place on."""
    found = points(race)
    across = Axis([each.time_s for each in found], left + LEFT, left + WIDTH - RIGHT)
    up = Axis([each.mb for each in found], HEIGHT - BOTTOM, TOP)
    title = f"{race['job']}, {race['metric']} {race['target']:g}"
    parts = [f'<text x="{left + LEFT}" y="18" font-weight="bold">{escape(title)}</text>']
    for value in across.ticks:
        x = across(value)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        words = escape(show_seconds(value))
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 28}" text-anchor="middle">{words}</text>')
    for value in up.ticks:
        y = up(value)
        parts.append(f'<path d="M{left + LEFT} {y:.1f}H{left + WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{left + LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    middle = left + (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - 8}" text-anchor="middle">time to it</text>')
    parts.append(f'<text x="{left + 6}" y="{TOP - 4}">MB</text>')
    for number, each in enumerate(found):
        x, y, colour = across(each.time_s), up(each.mb), COLOURS[number % len(COLOURS)]
        inward = x > left + WIDTH / 2
        # Above and below in turn, so that the labels of neighbours do not lie on one another.
        beside = y + (14 if number % 2 else -6)
        place = f'x="{x + (-8 if inward else 8):.1f}" y="{beside:.1f}"'
        anchor = "end" if inward else "start"
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/>')
        words = escape(each.label)
        parts.append(f'<text {place} text-anchor="{anchor}" fill="{colour}">{words}</text>')
    return "\n".join(parts)


def described(races: Sequence[dict[str, Any]]) -> str:
    """The same in words."""
    told = []
    for race in races:
        each = [f"{p.label} {show_seconds(p.time_s)} and {p.mb:.3g} MB" for p in points(race)]
        told.append(f"{race['job']} to {race['metric']} {race['target']:g}: {', '.join(each)}.")
    return " ".join(told)


def picture(races: Sequence[dict[str, Any]]) -> str:
    """All races side by side, as SVG."""
    width = WIDTH * len(races)
    body = "\n".join(panel(race, WIDTH * number) for number, race in enumerate(races))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" role="img" '
        'aria-labelledby="t d" font-family="sans-serif" font-size="11" fill="#222">\n'
        '<title id="t">Bytes against time to the target; lower left is better</title>\n'
        f'<desc id="d">{escape(described(races))}</desc>\n'
        f'<rect width="{width}" height="{HEIGHT}" fill="#fff"/>\n{body}\n</svg>\n'
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("races", nargs="+", type=Path, help="files with what race --json printed")
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    given = parser.parse_args()
    given.out.write_text(picture([json.loads(path.read_text()) for path in given.races]))
