"""Several runs in one report: which belong together, what they are compared by, and what to say
where they cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from colonnade.errors import RequestError
from colonnade.page.curves import bands
from colonnade.page.facts import FORMAT, Facts, facts_of, point_facts
from colonnade.page.folders import RUNS_MAX, runs_of
from colonnade.page.headline import BASELINE, headline
from colonnade.page.levels import TARGET, level_of, rows_of
from colonnade.page.reading import clean
from colonnade.page.words import named

PAGE_BYTES = 3_600_000
"""What the timelines of a report may take together, of the 6 MB that it may have."""


def report_of(folders: Sequence[str | Path]) -> Facts:
    """The facts of a report on the runs of some folders.

    >>> report_of([])
    Traceback (most recent call last):
    colonnade.errors.RequestError: a report needs a run: give the folder of one, as --out named it
    """
    if not folders:
        raise RequestError("a report needs a run: give the folder of one, as --out named it")
    found = [runs_of(Path(folder)) for folder in folders]
    paths = list(dict.fromkeys(path.resolve() for each in found for path in each.runs))
    points = [point for each in found for point in each.points]
    races = [each.race for each in found if each.race is not None]
    if len(races) > 1 or (races and paths):
        raise RequestError(
            "a race is a report of its own, in which each method has its best rate: give its "
            "folder alone"
        )
    if len(paths) + len(points) > RUNS_MAX:
        raise RequestError(
            f"a report shows up to {RUNS_MAX} runs, and these folders have more: name fewer"
        )
    each = PAGE_BYTES // max(1, len(paths))
    runs = [facts_of(path, timeline_bytes=each) for path in paths]
    runs += [point_facts(label, point) for label, point in points]
    _refuse_nothing(runs, folders)
    return report_on(runs, races[0] if races else None)


def report_on(runs: Sequence[Facts], race: Mapping[str, Any] | None = None) -> Facts:
    """The facts of a report on runs whose facts are known."""
    metric = _metric(runs)
    groups = grouped(runs)
    level: tuple[float | None, str] = (None, "")
    if metric is not None:
        if race is not None and isinstance(race.get("target"), int | float):
            level = (race["target"], TARGET)
        else:
            level = level_of(groups, metric)
    rows = rows_of(groups, metric or "", level[0])
    different = differences(runs)
    told = headline(groups, rows, metric, level, race)
    if different:
        told["title"] = f"{len(runs)} runs of different jobs"
        told["lead"] = different
        told["figures"] = []
    return dict(
        clean(
            {
                "format": FORMAT,
                "version": version("colonnade"),
                "headline": told,
                "metric": metric,
                "level": {"value": level[0], "is": level[1]},
                "comparable": not different,
                "groups": [
                    {
                        "label": group["label"],
                        "is_baseline": group["is_baseline"],
                        "runs": group["places"],
                        "bands": bands([run["history"] for run in group["runs"]])
                        if len(group["runs"]) > 1
                        else {},
                    }
                    for group in groups
                ],
                "comparison": rows if len(groups) > 1 and not different else [],
                "race": _race(race),
                "chosen": _chosen(groups, rows),
            }
        )
    ) | {"runs": list(runs)}


def grouped(runs: Sequence[Facts]) -> list[dict[str, Any]]:
    """Runs that differ by nothing but their seed are one method's."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for place, run in enumerate(runs):
        key = (run["job"], run["method"], run["settings"] or run["folder"])
        group = found.setdefault(key, {"label": run["method"] or run["folder"], "runs": [],
                                       "places": []})  # fmt: skip
        group["runs"].append(run)
        group["places"].append(place)
    # The baseline first, as in a race.
    groups = sorted(found.values(), key=lambda group: group["label"] != BASELINE)
    labels = [group["label"] for group in groups]
    for group, label in zip(groups, labels, strict=True):
        group["is_baseline"] = label == BASELINE
        if labels.count(label) > 1:
            # Two settings of one method are told apart by their folders.
            group["label"] = f"{label} ({group['runs'][0]['folder']})"
    return groups


def differences(runs: Sequence[Facts]) -> str:
    """Why runs cannot be compared; nothing where they can."""
    jobs = [*dict.fromkeys(run["job"] for run in runs if run["job"])]
    if len(jobs) > 1:
        return (
            f"They are of the jobs {named(jobs[:6])}: their curves are drawn together, and neither "
            "speeds nor bytes are compared."
        )
    metrics = [*dict.fromkeys(run["metric"]["name"] for run in runs if run["metric"]["name"])]
    if len(metrics) > 1:
        return f"They go by different metrics, {named(metrics[:6])}, and are not compared."
    clocks = {run["clock"] for run in runs}
    if len(clocks) > 1:
        return (
            "Some ran in virtual time and some by the wall clock, so that neither speeds nor bytes "
            "are compared."
        )
    return ""


def _chosen(groups: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> int:
    """The run that is looked into first: one of the method that is the fastest, or else the first
    of which there is a timeline."""
    there = [place for place, row in enumerate(rows) if row["to_time_s"] is not None]
    fastest = min(there, key=lambda place: rows[place]["to_time_s"], default=0)
    return int(groups[fastest]["places"][0]) if groups else 0


def _metric(runs: Sequence[Facts]) -> str | None:
    """The metric that the report begins with: that of most runs."""
    names = [run["metric"]["name"] for run in runs if run["metric"]["name"]]
    return max(dict.fromkeys(names), key=names.count) if names else None


def _race(race: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if race is None:
        return None
    rows = race.get("methods")
    keys = ("method", "rate", "options", "average", "settings", "runs", "reached", "time_s_mean",
            "time_s_deviation", "rounds_mean", "bytes_mean", "test_mean", "test_deviation",
            "speed_up", "speed_up_min", "speed_up_max", "bytes_ratio")  # fmt: skip
    kept = [
        {key: row.get(key) for key in keys}
        for row in (rows if isinstance(rows, list) else [])[:100]
        if isinstance(row, dict)
    ]
    told = {key: race.get(key) for key in ("job", "metric", "target", "target_share")}
    return {**told, "methods": kept}


def _refuse_nothing(runs: Sequence[Facts], folders: Sequence[str | Path]) -> None:
    """A run of which nothing is known yet makes no report."""
    for run in runs:
        models = [each for each in run["models"] if each["model"] is not None]
        if run["history"] or run["timeline"] or run["flows"] or models or run["status"]:
            return
    named_ = ", ".join(str(folder) for folder in folders)
    if any(run["state"] == "running" for run in runs):
        raise RequestError(
            f"{named_} is still running and has measured nothing yet: wait for its first "
            "evaluation, or watch it with colonnade dashboard"
        )
    why = next((problem for run in runs for problem in run["problems"]), "")
    if why:
        raise RequestError(f"{named_} shows nothing: {why}")
    raise RequestError(
        f"{named_} was interrupted before anything was kept: start the same command again"
    )
