"""The table of a race, for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from colonnade.record.table import columns_table, show_spread
from colonnade.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

WORDS = 4
"""Columns of words; the others are figures."""


def _columns(rows: Sequence[Mapping[str, Any]], metric: str) -> dict[str, list[str]]:
    """The cells by heading."""
    return {
        "method": [row["method"] for row in rows],
        "rate": [row["rate"] + ("*" if row["at_edge"] else "") for row in rows],
        "option": [row["options"] or "–" for row in rows],
        "average": [row["average"] for row in rows],
        "reached": [f"{row['reached']}/{row['runs']}" for row in rows],
        "virtual time": [_cost(row, "time_s") for row in rows],
        "speed-up": [_speed_up(row) for row in rows],
        "bytes": [_cost(row, "bytes") for row in rows],
        "of FedSGD's bytes": [_times(row["bytes_ratio"]) for row in rows],
        f"{metric} on test rows": [_test(row) for row in rows],
    }


def _cost(row: Mapping[str, Any], name: str) -> str:
    mean = row[f"{name}_mean"]
    if mean is None:
        return "missed"
    if not mean:
        # On a network without latency or costs nothing takes any time.
        return "–"
    show = show_seconds if name == "time_s" else show_bytes
    return show_spread(mean, row[f"{name}_deviation"], show, row["reached"], row["reached"])


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}×"


def _speed_up(row: Mapping[str, Any]) -> str:
    """The ratio, and from where to where it goes over the seeds, where they differ."""
    ratio, low, high = (row[f"speed_up{end}"] for end in ("", "_min", "_max"))
    if ratio is None:
        return "–"
    return _times(ratio) if low == high else f"{ratio:.2f}× ({low:.2f}–{high:.2f})"


def _test(row: Mapping[str, Any]) -> str:
    mean = row["test_mean"]
    if mean is None:
        return "failed" if row["failed"] else "–"
    good = row["runs"] - row["failed"]
    return show_spread(mean, row["test_deviation"], "{:.3f}".format, good, row["runs"])


def race_table(
    rows: Sequence[Mapping[str, Any]],
    metric: str,
    notes: Sequence[str] = (),
    width: int | None = None,
) -> Table:
    """A race: a row for each method, from `Race.rows()`; notes go below.

    Where the table is wider than `width`, figures break before what stands in brackets and after
    means.
    """
    columns = _columns(rows, metric)
    needed = sum(max(map(len, [name, *cells])) + 2 for name, cells in columns.items())
    if width is not None and needed > width:
        columns = {
            heading.replace(" ", "\n", 1): [_broken(cell) for cell in cells]
            for heading, cells in columns.items()
        }
    headings = list(columns)
    table = columns_table(headings[:WORDS], headings[WORDS:])
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    if notes:
        table.caption = "\n".join(notes)
        table.caption_justify = "left"
    return table


def _broken(cell: str) -> str:
    return cell.replace(" (", "\n(").replace(" ±", "\n±").replace(", ", ",\n")


def race_markdown(rows: Sequence[Mapping[str, Any]], metric: str, notes: Sequence[str] = ()) -> str:
    """The same as Markdown."""
    columns = _columns(rows, metric)
    lines = [" | ".join(columns), " | ".join(["---"] * WORDS + ["--:"] * (len(columns) - WORDS))]
    lines += [" | ".join(map(_escaped, cells)) for cells in zip(*columns.values(), strict=True)]
    table = "\n".join(f"| {line} |" for line in lines)
    return "\n\n".join([table, *map(_escaped, notes)]) + "\n"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
