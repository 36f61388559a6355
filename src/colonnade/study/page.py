"""What an experiment has found, as a page: tables in Markdown, and what comes of the claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING, Any

from colonnade.record.table import columns_table, show_spread
from colonnade.study.design import Arm, Claim, Column, Cost, Rule, Setting, Study
from colonnade.study.findings import Findings, Spread
from colonnade.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

CLAIM_COLUMNS = ("claim", "rule", "paper", "ours", "verdict")
HEADINGS: dict[Cost, str] = {
    "time_s": "time",
    "round": "rounds",
    "bytes": "bytes",
    "steady_time_s": "time, steady",
    "steady_round": "rounds, steady",
    "steady_bytes": "bytes, steady",
}


def show_cost(study: Study, measure: Cost | None = None) -> Callable[[float], str]:
    """How a study's costs are written."""
    name = measure or study.measure
    if study.unit is not None and name in (study.measure, f"steady_{study.measure}"):
        scale = study.unit[1]
        return lambda value: f"{value / scale:,.0f}"
    shows: dict[str, Callable[[float], str]] = {
        "time_s": show_seconds,
        "round": "{:.0f}".format,
        "bytes": show_bytes,
    }
    return shows[name.removeprefix("steady_")]


@dataclass(frozen=True)
class Sheet:
    """A table of a page, with what stands above it."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table for a page."""
        return f"{self.heading}\n\n{table(self.columns, self.rows)}"

    def rich(self) -> Table:
        """The table for a terminal."""
        words = 2 if self.columns[0] == "claim" else 1
        made = columns_table(self.columns[:words], self.columns[words:])
        for row in self.rows:
            made.add_row(*row)
        made.title, made.title_justify = self.heading.replace("**", ""), "left"
        return made


def sheets(findings: Findings, pictures: Collection[str] = ()) -> list[Sheet]:
    """All tables of a page: the claims, then every setting by every rule; a rule whose picture is
    among these has it above its tables."""
    study = findings.study
    found = [claims_sheet(findings)] if study.claims else []
    for rule in study.rules:
        intro = f"**By the {rule.name} rule.** {rule.text}\n\n"
        if rule.name in pictures:
            intro += f"![{_described(study, rule)}]({picture_file(rule)})\n\n"
        for setting in study.settings:
            rows = [
                _arm(findings, rule, setting, arm)
                for arm in study.arms_of(setting)
                if findings.of(rule.name, setting.label, arm.label)
            ]
            if rows:
                heading = intro + _heading(findings, rule, setting)
                found.append(Sheet(heading, _columns(study), rows))
                intro = ""
    return found


def picture_file(rule: Rule) -> str:
    """What the picture of a rule is called, beside the page."""
    return f"{rule.name}.svg"


def _described(study: Study, rule: Rule) -> str:
    """What a picture shows, for whoever does not see it."""
    arms = ", ".join(arm.label for arm in study.arms)
    return (
        f"Curves by the {rule.name} rule: the metric against {HEADINGS[study.measure]} for {arms}; "
        "mean, least and most over the seeds, the target dotted. The table below has the figures."
    )


def markdown(findings: Findings, pictures: Collection[str] = ()) -> str:
    """The page's generated part."""
    parts = [sheet.markdown() for sheet in sheets(findings, pictures)]
    notes = remarks(findings)
    if notes:
        parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(parts) + "\n"


def remarks(findings: Findings) -> list[str]:
    """What has to be said of the tables."""
    return [*findings.study.notes, *findings.failures()]


def claims_sheet(findings: Findings) -> Sheet:
    """The study's claims: the paper's figure, ours, and what comes of it."""
    return claims_table(findings.claims())


def claims_table(found: Sequence[tuple[Claim, float | None]]) -> Sheet:
    """Claims beside what was found of each."""
    rows = [claim_cells(claim, ours) for claim, ours in found]
    return Sheet("What is claimed, and what came of it:", CLAIM_COLUMNS, rows)


def claim_cells(claim: Claim, ours: float | None) -> list[str]:
    """A claim's row."""
    return [
        claim.text,
        claim.rule,
        "–" if claim.paper is None else claim.show(claim.paper),
        _figure_of(claim, ours),
        claim.verdict(ours),
    ]


def _figure_of(claim: Claim, ours: float | None) -> str:
    if ours is None:
        return "–"
    if not isinf(ours):
        return claim.show(ours)
    return "missed" if ours < 0 or claim.smaller else "the other missed"


def claims_told(found: Sequence[tuple[Claim, float | None]]) -> list[dict[str, str]]:
    """The same as plain values."""
    rows = (claim_cells(claim, ours) for claim, ours in found)
    return [dict(zip(CLAIM_COLUMNS, row, strict=True)) for row in rows]


def _heading(findings: Findings, rule: Rule, setting: Setting) -> str:
    first = findings.of(rule.name, setting.label, findings.study.baseline.label)[0]
    name = f"{setting.label}: target" if setting.label else "Target"
    held = {1: "first touch", None: "held for the rest of the run"}
    how = held.get(rule.hold, f"held for {rule.hold} evaluations")
    return f"{name} {first.target:.4g}, {how}."


def _columns(study: Study) -> list[str]:
    cost = HEADINGS[study.measure]
    if study.unit is not None:
        cost += f", {study.unit[0]}"
    base = study.baseline.label
    return [
        *("method", "rate", f"{cost} to the target", "reached", f"× {base}"),
        *("end", f"less {base}'s", "best", "final", "test"),
        *(column.heading for column in study.columns),
    ]


def _arm(findings: Findings, rule: Rule, setting: Setting, arm: Arm) -> list[str]:
    place = (rule.name, setting.label, arm.label)
    own = findings.of(*place)
    cost = findings.cost(*place)
    times = findings.times(*place)
    base = arm.label == findings.study.baseline.label
    return [
        arm.label,
        own[0].rate,
        spread_text(cost, show_cost(findings.study), "missed"),
        f"{cost.count}/{cost.of}",
        "–" if base or times is None else f"{times:.2f}×" if times < 10 else f"{times:.1f}×",
        _figure(findings, place, "end"),
        "–" if base else gain_text(findings.gain(*place, "end")),
        *(_figure(findings, place, name) for name in ("best", "final", "test")),
        *(column.of(findings, *place) for column in findings.study.columns),
    ]


def cost_column(measure: Cost) -> Column:
    """A column with another cost of the target than the study's own, or with its own until the
    target was steady."""

    def of(findings: Findings, rule: str, setting: str, arm: str) -> str:
        cost = findings.cost(rule, setting, arm, measure)
        return spread_text(cost, show_cost(findings.study, measure), "missed")

    return Column(HEADINGS[measure], of)


def figure_column(heading: str, name: str, show: Callable[[float], str]) -> Column:
    """A column with a figure of the whole runs, such as `idle_share`."""
    return Column(
        heading,
        lambda findings, *place: spread_text(findings.figure(*place, name), show, "–"),
    )


def saved_column(measure: Cost) -> Column:
    """A column with the share of the baseline's cost that an arm saves, on the seeds with which
    both reached the target."""

    def of(findings: Findings, rule: str, setting: str, arm: str) -> str:
        share = findings.saved(rule, setting, arm, measure=measure)
        base = arm == findings.study.baseline.label
        return "–" if base or share is None else f"{share:.1%}"

    return Column(f"{HEADINGS[measure]} saved", of)


def told_column(heading: str, told: Mapping[tuple[str, str], str]) -> Column:
    """A column with what is known without running anything, such as the paper's own figures, by
    setting and arm."""
    return Column(heading, lambda findings, rule, setting, arm: told.get((setting, arm), "–"))


def _figure(findings: Findings, place: tuple[str, str, str], name: str) -> str:
    return spread_text(findings.figure(*place, name), "{:.4f}".format, "–")


def spread_text(spread: Spread, show: Callable[[float], str], none: str) -> str:
    """A mean with its deviation; `none` where there is nothing to show.

    >>> spread_text(Spread(12.0, 2.0, 3, 3), "{:.1f}".format, "missed")
    '12.0 ± 2.0'
    """
    if spread.mean is None or spread.deviation is None:
        return none
    text = show(spread.mean)
    if "," in text:  # a number with thousands: its deviation is written as it is
        return f"{text} ± {show(spread.deviation)}" if spread.count > 1 else text
    return show_spread(spread.mean, spread.deviation, show, spread.count, spread.count)


def gain_text(gain: tuple[float, float | None] | None) -> str:
    """A paired difference in hundredths, with half of its 95 % interval.

    >>> gain_text((0.0123, 0.004)), gain_text((-0.001, None)), gain_text(None)
    ('+1.23 ± 0.40', '−0.10', '–')
    """
    if gain is None:
        return "–"
    mean, half = gain
    text = f"{100 * mean:+.2f}".replace("-", "−")
    return text if half is None else f"{text} ± {100 * half:.2f}"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown.

    >>> print(table(["method", "time"], [["fedsgd", 3]]))
    | method | time |
    |---|---|
    | fedsgd | 3 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    text = ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    text[1] = text[1].replace(" ", "")
    return "\n".join(text)
