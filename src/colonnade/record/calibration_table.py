"""What a run measured of speeds and lines, what it chose, and what it expected of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from colonnade.record.events import measured_when
from colonnade.record.table import columns_table
from colonnade.units import show_bits, show_bytes, show_seconds, show_time

if TYPE_CHECKING:
    from rich.table import Table

FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "forward": ("forward_ns", lambda ns: show_seconds(ns / 1e9)),
    "backward": ("backward_ns", lambda ns: show_seconds(ns / 1e9)),
    "one-way": ("latency_ns", lambda ns: show_seconds(ns / 1e9)),
    "up": ("up_bits", show_bits),
    "down": ("down_bits", show_bits),
    "in flight": ("window", str),
    "bits up": ("embedding_bits", str),
    "bits down": ("gradient_bits", str),
}
"""Headings, and where each figure stands."""


def calibration_table(calibration: Mapping[str, Any]) -> Table:
    """One calibration, from `Run.calibrations`: a line for each party.

    >>> from colonnade import load, simulate
    >>> run = simulate(load("digits", ["train.epochs=1"], method="auto"))
    >>> table = calibration_table(run.calibrations[0])
    >>> table.row_count, table.title
    (3, 'measured before the first round')
    """
    table = columns_table(["party"], FIGURES)
    table.title = measured_when(calibration["round"])
    table.title_style, table.title_justify = "bold", "left"
    for each in calibration["parties"]:
        cells = ["–" if each[name] is None else show(each[name]) for name, show in FIGURES.values()]
        table.add_row(each["party"], *cells)
    up, down = show_bytes(calibration["bytes_up"]), show_bytes(calibration["bytes_down"])
    each_s = show_time(calibration["round_ns"] / 1e9, "")
    table.caption = f"expected: {each_s} a round, {up} up and {down} down"
    table.caption_style, table.caption_justify = "", "left"
    return table
