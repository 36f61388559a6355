"""An experiment's curves as small SVG pictures; matplotlib is asked for only here."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from colonnade.errors import RequestError
from colonnade.run.points import Outcome
from colonnade.study.design import Measure, Rule, Setting, Study
from colonnade.study.findings import Findings
from colonnade.study.page import HEADINGS

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#5c5c5c", "#b51d14")
DASHES = ("-", "--", "-.", ":")
"""Colours from Okabe and Ito, and dashes beside them: no two arms differ by colour alone."""
ACROSS = 3
PANEL_INCHES = (3.1, 2.35)
COLUMNS_MAX, ROW_INCHES = 4, 0.19
HANDLE_INCHES, LETTER_INCHES = 0.55, 0.066
"""Of the legend: what a row takes, and a name with the line before it, at eight points."""
POINTS_MAX = 80
"""Of one curve: more do not show in a picture of this size, and make the file large."""
WIDE = 20.0
"""The ratio of the longest course to the shortest from which an axis is logarithmic."""
LOW, HIGH = 0.03, 0.02
"""Of the range of values: what is left free below the lower edge and above the upper one."""


@dataclass(frozen=True)
class Curve:
    """An arm's metric along its runs: mean, least and most over the seeds."""

    spent: list[float]
    mean: list[float]
    least: list[float]
    most: list[float]

    @classmethod
    def of(cls, courses: Sequence[Outcome], measure: Measure, unit: float = 1.0) -> Curve:
        """Evaluation by evaluation, as far as all runs have them.

        >>> from colonnade.run.points import Measured
        >>> one = Outcome("a", 0, "end", history=[Measured(10, 1.0, 5, 0.4)])
        >>> two = Outcome("a", 1, "end", history=[Measured(10, 3.0, 5, 0.6)])
        >>> Curve.of([one, two], "time_s")
        Curve(spent=[2.0], mean=[0.5], least=[0.4], most=[0.6])
        """
        known = [
            [(getattr(each, measure) / unit, each.value) for each in course.history
             if each.value is not None]
            for course in courses
        ]  # fmt: skip
        length = min(map(len, known), default=0)
        step = max(1, math.ceil(length / POINTS_MAX))
        # The last one counts: it is where the curve ends.
        places = sorted({*range(0, length, step), length - 1}) if length else []
        columns = [[course[place] for course in known] for place in places]
        values = [[value for _, value in column] for column in columns]
        return cls(
            [fmean(spent for spent, _ in column) for column in columns],
            [fmean(each) for each in values],
            [min(each) for each in values],
            [max(each) for each in values],
        )


def picture(findings: Findings, rule: Rule) -> str | None:
    """The metric of every arm against what it has cost, a panel for each setting, as SVG; None
    where nothing was trained by the rule."""
    study = findings.study
    panels = [
        (setting, curves)
        for setting in study.settings
        if (curves := _curves(findings, rule, setting))
    ]
    if not panels:
        return None
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    across = min(ACROSS, len(panels))
    down = math.ceil(len(panels) / across)
    wide, high = PANEL_INCHES
    # Text as text, and the same file for the same figures.
    options = {"svg.fonttype": "none", "svg.hashsalt": "colonnade", "font.size": 8}
    with matplotlib.rc_context(options):
        width = max(2, across) * wide
        labels = [arm.label for arm in study.arms if any(arm.label in own for _, own in panels)]
        columns = legend_columns(labels, width)
        rows = math.ceil(len(labels) / columns)
        figure = Figure(figsize=(width, down * high + rows * ROW_INCHES), layout="constrained")
        axes = figure.subplots(down, across, squeeze=False)
        for place, (setting, curves) in enumerate(panels):
            _panel(axes[place // across][place % across], findings, rule, setting, curves)
        for place in range(len(panels), down * across):
            axes[place // across][place % across].set_visible(False)
        handles: dict[str, Any] = {}
        for each in axes.flat:
            handles |= {line.get_label(): line for line in each.lines if line.get_label()[0] != "_"}
        figure.legend(
            [handles[label] for label in labels], labels, loc="outside lower center",
            ncols=columns, frameon=False,
        )  # fmt: skip
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return _compact(text.getvalue())


def legend_columns(labels: Sequence[str], inches: float) -> int:
    """In how many columns the names of arms fit side by side.

    >>> legend_columns(["FedSGD", "FedBCD", "CELU", "PASTA", "VAFL"], 6.2)
    4
    >>> legend_columns(["C-VFL, 5 updates, 4 bits both ways"] * 3, 6.2)
    2
    """
    widest = HANDLE_INCHES + LETTER_INCHES * max(map(len, labels))
    return max(1, min(COLUMNS_MAX, len(labels), int(inches / widest)))


def _compact(svg: str) -> str:
    """The same picture with each path on a line of its own and coordinates to a tenth of a point,
    as far as one sees; no line ends in spaces.

    >>> _compact('<path d="M 50.239323 192.47109 \\nL 50.239323 865.285072 \\nz\\n"/> \\n')
    '<path d="M 50.2 192.5 L 50.2 865.3 z"/>\\n'
    """

    def on_one_line(path: re.Match[str]) -> str:
        rounded = (word if word.isalpha() else f"{float(word):.1f}" for word in path[1].split())
        return f' d="{" ".join(rounded)}"'

    whole = re.sub(r' d="([^"]*)"', on_one_line, svg)
    return "".join(f"{line.rstrip()}\n" for line in whole.splitlines())


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise RequestError("pictures need matplotlib: pip install 'colonnade[plots]'") from None
    return matplotlib


def _curves(findings: Findings, rule: Rule, setting: Setting) -> dict[str, Curve]:
    """Of the arms that have any."""
    study = findings.study
    unit = 1.0 if study.unit is None else study.unit[1]
    found = {
        arm.label: findings.courses(rule.name, setting.label, arm.label)
        for arm in study.arms_of(setting)
    }
    return {label: Curve.of(own, study.measure, unit) for label, own in found.items() if own}


def look(number: int) -> tuple[str, str]:
    """The colour and the dashes of an arm, by its place among all.

    >>> len({look(number) for number in range(32)})
    32
    >>> [look(number)[1] for number in range(4)]
    ['-', '--', '-.', ':']
    """
    colour = COLOURS[number % len(COLOURS)]
    return colour, DASHES[(number + number // len(COLOURS)) % len(DASHES)]


def _panel(
    axes: Any, findings: Findings, rule: Rule, setting: Setting, curves: dict[str, Curve]
) -> None:
    study = findings.study
    for number, arm in enumerate(study.arms):
        curve = curves.get(arm.label)
        if curve is None:
            continue
        colour, dash = look(number)
        axes.fill_between(curve.spent, curve.least, curve.most, color=colour, alpha=0.15, lw=0)
        axes.plot(curve.spent, curve.mean, dash, color=colour, lw=1.2, label=arm.label)
    target = findings.of(rule.name, setting.label, study.baseline.label)[0].target
    axes.axhline(target, color="#5c5c5c", lw=0.8, ls=(0, (2, 3)))
    lengths = [curve.spent[-1] for curve in curves.values() if curve.spent[-1] > 0]
    if lengths and max(lengths) > WIDE * min(lengths):
        axes.set_xscale("log")
    low, high = _range(list(curves.values()), target)
    axes.set_ylim(low, high)
    axes.set_title(setting.label or study.job, fontsize=8)
    axes.set_xlabel(_cost(study))
    axes.set_ylabel(_metric(findings, rule, setting))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)


def _range(curves: Sequence[Curve], target: float) -> tuple[float, float]:
    """From where it becomes interesting: the lower half of the values is how a training begins."""
    every = sorted(value for curve in curves for value in curve.mean)
    ends = [value for curve in curves for value in (curve.least[-1], curve.most[-1])]
    low = min(every[len(every) // 10], target, *ends)
    high = max(target, *(value for curve in curves for value in curve.most))
    room = (high - low) or 1.0
    return low - LOW * room, high + HIGH * room


def _cost(study: Study) -> str:
    name = HEADINGS[study.measure]
    if study.unit is not None:
        return f"{name}, {study.unit[0]}"
    return {"time_s": f"{name}, s", "bytes": name, "round": name}[study.measure]


def _metric(findings: Findings, rule: Rule, setting: Setting) -> str:
    arms = findings.study.arms_of(setting)
    courses = (findings.courses(rule.name, setting.label, arm.label) for arm in arms)
    return next((course.metric or "" for own in courses for course in own), "")
