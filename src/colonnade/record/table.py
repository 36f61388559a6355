"""Figures for people: means and deviations, and the tables that show them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from colonnade.record.chain import printable
from colonnade.units import show_bytes, show_seconds, show_time

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

COSTS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("time_to_target_s", "time", show_seconds),
    ("rounds_to_target", "rounds", lambda count: f"{count:.0f}"),
    ("bytes_to_target", "bytes", show_bytes),
)
SPENT = {"time_to_target_s": "time_s", "rounds_to_target": "rounds", "bytes_to_target": "bytes"}
"""What a run costs in all, where there is no target to cost something."""
_CLASSES_SHOWN = 8
TOLD = (("labels_told", "labels\ntold"), ("columns_told", "columns\ntold, R²"))
"""What an audit has found, where there was one."""
CHOSEN_ON_TEST = "chosen on the test rows: the job has no validation rows (train.validation)"
GAP = 2
"""Spaces between two columns."""


def plain(value: Any) -> Any:
    """A value as JSON can hold it: NaN and infinity become None.

    >>> plain({"loss": float("nan"), "rounds": (1, 2)})
    {'loss': None, 'rounds': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def trimmed(text: str) -> str:
    """A text without trailing spaces, which a table is padded with.

    >>> trimmed("method   \\nfedsgd   \\n")
    'method\\nfedsgd\\n'
    """
    return "\n".join(line.rstrip(" ") for line in text.split("\n"))


def toml_text(value: Any) -> str:
    """A value as TOML writes it in one line.

    >>> toml_text({"name": "sgd", "lr": 0.1, "nesterov": True})
    '{name = "sgd", lr = 0.1, nesterov = true}'
    """
    if isinstance(value, Mapping):
        pairs = (f"{_toml_key(key)} = {toml_text(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_text(item) for item in value) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _toml_key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key)


def spread(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The mean and the sample standard deviation; the latter is 0 for one value.

    >>> spread([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    if not values:
        return None, None
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def show_spread(
    mean: float, deviation: float, show: Callable[[float], str], count: int, total: int
) -> str:
    """A mean with its unit, its deviation in the same unit, and of how many it is the mean.

    >>> show_spread(134.2, 5.13, show_seconds, 3, 3), show_spread(134.2, 0.0, show_seconds, 1, 3)
    ('134 s ± 5', '134 s (1/3)')
    >>> show_spread(0.52, 0.03, "{:.0%}".format, 3, 3)
    '52% ± 3'
    """
    text = show(mean)
    if count > 1:
        number = text.partition(" ")[0].rstrip("%")
        scaled = deviation * float(number) / mean if mean else deviation
        places = len(number.partition(".")[2])
        if scaled > 0:
            # Two figures of a deviation say all that a few seeds know.
            places = max(0, min(places, 1 - math.floor(math.log10(scaled))))
        text += f" ± {scaled:.{places}f}"
    return text if count == total else f"{text} ({count}/{total})"


def show_found(values: Sequence[float | None], show: Callable[[float], str]) -> str:
    """Mean and deviation of the runs that have a figure, and how many of all these are.

    >>> show_found([134.0, None, 136.0], show_seconds), show_found([None], show_seconds)
    ('135 s ± 1 (2/3)', 'missed')
    """
    known = [value for value in values if value is not None]
    mean, deviation = spread(known)
    if mean is None or deviation is None:
        return "missed"
    return show_spread(mean, deviation, show, len(known), len(values))


def columns_table(words: Iterable[str], figures: Iterable[str] = ()) -> Table:
    """A table without rows yet: columns of words under their headings, then columns of figures."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for heading in words:
        table.add_column(heading, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def facts_table(facts: Mapping[str, str]) -> Table:
    """A line for each fact, after its name."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        table.add_row(Text(name, style="bold"), fact)
    return table


def comparison_table(
    rows: Sequence[Mapping[str, Any]], notes: Sequence[str] = (), width: int | None = None
) -> Table:
    """A comparison: a row for each method, from `Comparison.rows()`; notes go below.

    Where the table is wider than `width`, a figure breaks before its count of runs.
    """
    metric, target = rows[0]["metric"] or "metric", rows[0]["target"]
    to_target = "" if target is None else f"\nto {target:g}"
    shown = metric if _chosen_on_test(rows[0]) else f"{metric} on\ntest rows"
    columns = {shown: [_final(row) for row in rows]}
    virtual = rows[0]["clock"] == "virtual"
    for key, name, show in COSTS:
        heading = f"virtual {name}" if virtual and name == "time" else name
        columns[heading + to_target] = [_cost(row, key, show) for row in rows]
    if target is not None:
        ratios = [row["speed_up"] for row in rows]
        columns["speed-\nup"] = ["–" if ratio is None else f"{ratio:.2f}×" for ratio in ratios]
    for name, heading in TOLD:
        if any(f"{name}_mean" in row for row in rows):
            columns[heading] = [_told(row, name) for row in rows]
    names = [row["method"] for row in rows]
    if width is not None and _width([names, *columns.values()]) > width:
        columns = {key: [cell.replace(" (", "\n(") for cell in columns[key]] for key in columns}
    table = columns_table(["method"], columns)
    for cells in zip(names, *columns.values(), strict=True):
        table.add_row(*cells)
    notes = [*notes, *([CHOSEN_ON_TEST] if _chosen_on_test(rows[0]) else [])]
    if notes:
        table.caption = "\n".join(notes)
        table.caption_justify = "left"
    return table


def _told(row: Mapping[str, Any], name: str) -> str:
    mean, deviation = row.get(f"{name}_mean"), row.get(f"{name}_deviation")
    if mean is None or deviation is None:
        return "–"
    return show_spread(mean, deviation, "{:.3f}".format, row["runs"] - row["failed"], row["runs"])


def _width(columns: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, cells)) + GAP for cells in columns) - GAP


def _chosen_on_test(row: Mapping[str, Any]) -> bool:
    return bool(row["chosen_on"] == "test")


def _final(row: Mapping[str, Any]) -> str:
    """On test rows: of the best round, or of the last where test rows served to choose."""
    figure = "final" if _chosen_on_test(row) else "test"
    mean, deviation = row[f"{figure}_mean"], row[f"{figure}_deviation"]
    if mean is None:
        return "failed" if row["failed"] else "–"
    return show_spread(mean, deviation, "{:.3f}".format, row["runs"] - row["failed"], row["runs"])


def _cost(row: Mapping[str, Any], name: str, show: Callable[[float], str]) -> str:
    good = row["reached"]
    if row["target"] is None:
        name, good = SPENT[name], row["runs"] - row["failed"]
    mean = row[f"{name}_mean"]
    if mean is None:
        return "failed" if row["target"] is None else "missed"
    if not mean and show is show_seconds:
        # On a network without latency or costs nothing takes any time.
        return "–"
    return show_spread(mean, row[f"{name}_deviation"], show, good, row["runs"])


def sweep_table(sweep: Mapping[str, Any]) -> Table:
    """A sweep: a row for each point, best first, from `Sweep.to_dict()`."""
    fields = list(sweep["points"][0]["settings"])
    table = columns_table(fields, [_chosen_by(sweep), "loss"])
    for rank, point in enumerate(sweep["points"]):
        runs = list(point["runs"].values())
        endings = ", ".join(sorted({run["status"] for run in runs if run["loss"] is None}))
        table.add_row(
            *(_bare(point["settings"][field]) for field in fields),
            f"{point['value']:.4f}" if point["value"] is not None else "–",
            f"{point['loss']:.4g}" if point["loss"] is not None else endings,
            style="bold" if rank == 0 and point["value"] is not None else "",
        )
    return table


def _chosen_by(sweep: Mapping[str, Any]) -> str:
    """The metric, and the rows on which it was measured."""
    runs = (run for point in sweep["points"] for run in point["runs"].values())
    metric = next((run["metric"] for run in runs if run["metric"]), None)
    return "metric" if metric is None else f"{metric['name']} on\n{metric['chosen_on']} rows"


def _bare(value: Any) -> str:
    return value if isinstance(value, str) else toml_text(value)


def run_table(summary: Mapping[str, Any]) -> RenderableType:
    """One run: its result, what it cost, what each party did, and what was measured and chosen;
    from `Run.summary()`."""
    from rich.console import Group
    from rich.table import Table

    from colonnade.record.calibration_table import calibration_table

    facts = Table.grid(padding=(0, 3))
    metric = summary["metric"]
    value = _value(metric["final"], metric["best"])
    how = "chosen on the test rows" if _chosen_on_test(metric) else "on the validation rows"
    facts.add_row(metric["name"], value if metric["final"] is None else f"{value}, {how}")
    if metric["test"] is not None and not _chosen_on_test(metric):
        facts.add_row("", f"{metric['test']:.4f}, on the test rows, with the best round's weights")
    if summary["target"] is not None:
        facts.add_row(f"to {summary['target']:g}", _to_target(summary))
    facts.add_row(
        "in all",
        f"{show_time(summary['time_s'], summary['clock'])}, {summary['rounds']} rounds "
        f"({summary['epochs']:.3g} epochs), {show_bytes(summary['bytes']['total'])}",
    )
    if summary["classes"]:
        facts.add_row("classes", class_text(summary["classes"]))
    found: list[RenderableType] = [facts, "", _party_table(summary)]
    for calibration in summary["calibrations"]:
        found += ["", calibration_table(calibration)]
    return Group(*found)


def class_text(classes: Sequence[str]) -> str:
    """The classes of a task, and of two which is positive.

    >>> class_text(["bad", "good"]), class_text(list("abcdefghijkl"))
    ("bad, good ('good' is positive)", '12: a, b, c, d, e, f, g, h, …')
    """
    shown = ", ".join(printable(name) for name in classes[:_CLASSES_SHOWN])
    if len(classes) == 2:
        return f"{shown} ('{printable(classes[1])}' is positive)"
    return f"{len(classes)}: {shown}{', …' if len(classes) > _CLASSES_SHOWN else ''}"


def _value(final: float | None, best: float | None) -> str:
    if final is None:
        return "none measured"
    return f"{final:.4f}" if best is None or best == final else f"{final:.4f} (best {best:.4f})"


def _to_target(summary: Mapping[str, Any]) -> str:
    if summary["time_to_target_s"] is None:
        return "missed"
    return ", ".join(
        f"{show(summary[name])}{' rounds' if heading == 'rounds' else ''}"
        for name, heading, show in COSTS
        if summary[name] or heading != "time"
    )


def _party_table(summary: Mapping[str, Any]) -> Table:
    figures = ("fresh updates", "local updates", "busy", "idle", "idle share")
    table = columns_table(["party"], figures)
    for name, updates in summary["updates"].items():
        busy, idle = summary["busy_s"][name], summary["idle_s"][name]
        table.add_row(
            name,
            str(updates["fresh"]),
            str(updates["local"]),
            show_seconds(busy) if busy + idle else "–",
            show_seconds(idle) if busy + idle else "–",
            f"{idle / (busy + idle):.0%}" if busy + idle else "–",
        )
    return table
