"""A study from its declaration to its files: every run kept, and the page that tells of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from colonnade.errors import RequestError
from colonnade.formats import metadata, stamp
from colonnade.record.private import write_whole
from colonnade.run.cluster import cluster
from colonnade.run.points import OnPlan, Points
from colonnade.run.pool import OnDone
from colonnade.study.conduct import Conduct
from colonnade.study.design import Study
from colonnade.study.findings import Findings
from colonnade.study.page import claims_told, markdown, picture_file
from colonnade.study.pictures import picture

RESULTS, PAGE, CLAIMS = "results.parquet", "page.md", "claims.json"


def run_study(
    study: Study,
    out: Path,
    *,
    quick: bool = False,
    seeds: Sequence[int] | None = None,
    only: Sequence[str] | None = None,
    rules: Sequence[str] | None = None,
    device: str | None = None,
    workers: int | None = None,
    on: str | None = None,
    on_plan: OnPlan | None = None,
    on_done: OnDone | None = None,
    beacons: Path | None = None,
    runs: Path | None = None,
) -> Findings:
    """Train what is missing of a study, judge all of it, and write its files into a folder.

    Runs are kept in `runs`, by default `points` in the folder, and what was trained before, by this
    study or another, is not trained again. A run that fails is a miss, and the page says why.
    `only` leaves out the settings whose labels begin with none of these, `rules` the rules that are
    not named.
    """
    chosen = study.in_brief() if quick else study
    if seeds is not None:
        settings = tuple(replace(setting, seeds=None) for setting in chosen.settings)
        chosen = replace(chosen, seeds=tuple(seeds), settings=settings)
    if rules is not None:
        chosen = _by(chosen, rules)
    if only is not None:
        chosen = _only(chosen, only)
    with cluster(on) if on is not None else nullcontext() as spread:
        out.mkdir(parents=True, exist_ok=True)
        points = Points(
            runs or out / "points",
            workers=workers,
            spread=spread,
            on_plan=on_plan,
            on_done=on_done,
            beacons=beacons,
            tolerant=True,
        )
        findings = Conduct(chosen, points, device).findings()
    save(findings, out)
    return findings


def _only(study: Study, wanted: Sequence[str]) -> Study:
    """The study with some of its settings, and those whose rates they need."""
    found = [each for each in study.settings if each.label.startswith(tuple(wanted))]
    if not found:
        labels = ", ".join(each.label for each in study.settings)
        raise RequestError(f"there is no setting '{wanted[0]}' in this study: choose of {labels}")
    needed = {each.label for each in found} | {each.like for each in found}
    needed |= {rule.tuned_in for rule in study.rules}
    settings = tuple(each for each in study.settings if each.label in needed)
    note = f"Only these settings were run: {', '.join(each.label for each in settings)}."
    return replace(study, settings=settings, notes=(*study.notes, note), partial=True)


def _by(study: Study, wanted: Sequence[str]) -> Study:
    """The study by some of its rules."""
    known = [rule.name for rule in study.rules]
    for name in wanted:
        if name not in known:
            raise RequestError(f"this study has no rule '{name}': choose of {', '.join(known)}")
    rules = tuple(rule for rule in study.rules if rule.name in wanted)
    note = f"Only the {' and the '.join(rule.name for rule in rules)} rule was applied."
    return replace(study, rules=rules, notes=(*study.notes, note), partial=True)


def save(findings: Findings, out: Path) -> None:
    """Write `results.parquet`, `claims.json`, `page.md` and, where matplotlib is installed, a
    picture for each rule."""
    rows = [msgspec.to_builtins(row) for row in findings.rows]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table.replace_schema_metadata(metadata("study")), out / RESULTS)
    drawn = _draw(findings, out) if find_spec("matplotlib") else []
    write_told(told_of(findings), markdown(findings, drawn), out)


def write_told(told: Mapping[str, Any], page: str, out: Path) -> None:
    """Write what an experiment has come to, as plain values and as a page."""
    text = json.dumps(stamp("study") | dict(told), indent=1, ensure_ascii=False)
    write_whole(out / CLAIMS, text + "\n")
    write_whole(out / PAGE, page)


def _draw(findings: Findings, out: Path) -> list[str]:
    """The rules that have a picture now."""
    drawn = []
    for rule in findings.study.rules:
        made = picture(findings, rule)
        if made is not None:
            write_whole(out / picture_file(rule), made)
            drawn.append(rule.name)
    return drawn


def told_of(findings: Findings) -> dict[str, Any]:
    """What an experiment shows, and what comes of its claims, as plain values."""
    study = findings.study
    return {
        "about": study.about,
        "paper": study.paper,
        "seeds": list(study.seeds),
        "claims": claims_told(findings.claims()),
    }
