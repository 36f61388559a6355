"""The tables of a report: parties, model cards, the audit, clocks, settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.job.files import to_tables
from colonnade.job.records import Job
from colonnade.page.reading import read_json
from colonnade.record.inspection import inspect
from colonnade.record.table import toml_text

if TYPE_CHECKING:
    from colonnade.page.facts import Part, Summary

COLUMNS_SHOWN = 200
CLASSES_SHOWN = 50
_PUBLIC = ("role", "width", "model", "optimizer", "schedule", "step", "compress", "view")
"""What a report shows of a party's entry in a job: no paths, no seeds, no names of columns."""
_FINDING = ("party", "of", "to", "attack", "needs", "one", "pooled", "baseline", "control",
            "split", "source")  # fmt: skip
Attempt = Callable[[Callable[[], Any]], Any]


def parties(
    folder: Path,
    job: Job | None,
    summary: Summary | None,
    parts: Mapping[str, Part],
    found: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """A row for each party: what it did, how long it worked and waited, what it sent and got."""
    names = list(job.parties) if job else []
    told = summary.updates if summary else {}
    known = [*names, *told, *parts, *(row["party"] for row in found["time"])]
    rows = []
    for name in dict.fromkeys(known):
        part = parts.get(name)
        updates = told.get(name) or ({"fresh": part.fresh, "local": part.local} if part else {})
        busy = summary.busy_s.get(name) if summary else None
        idle = summary.idle_s.get(name) if summary else None
        most = summary.max_in_flight.get(name) if summary else None
        sent = [row for row in found["flows"] if row["from"] == name]
        got = [row for row in found["flows"] if row["to"] == name]
        rows.append(
            {
                "party": name,
                "role": job.parties[name].role if job and name in job.parties else "",
                "fresh": updates.get("fresh"),
                "local": updates.get("local"),
                "busy_s": part.busy_s if busy is None and part else busy,
                "idle_s": part.idle_s if idle is None and part else idle,
                "max_in_flight": part.in_flight_max if most is None and part else most,
                "sent": sum(row["bytes"] for row in sent) if found["flows"] else None,
                "received": sum(row["bytes"] for row in got) if found["flows"] else None,
                "messages": sum(row["messages"] for row in sent) if found["flows"] else None,
            }
        )
    return rows[:1000]


def clocks(folder: Path, party: str) -> list[dict[str, Any]]:
    """How far the clocks of a party's peers are from its own, and how sure that is."""
    told = read_json(folder / "clocks.json", dict[str, Any])
    rows = []
    for peer, each in (told or {}).items():
        if isinstance(each, dict) and isinstance(each.get("offset_ns"), int | float):
            rows.append(
                {
                    "party": party,
                    "peer": peer,
                    "offset_ns": each["offset_ns"],
                    "uncertainty_ns": each.get("uncertainty_ns"),
                }
            )
    return rows[:1000]


def audit(folder: Path) -> dict[str, Any]:
    """What `colonnade privacy` found, as `privacy.json` has it."""
    told = read_json(folder / "privacy.json", dict[str, Any], "audit")
    if told is None:
        return {"audit": None}
    findings = told.get("findings")
    rows = [
        {key: each.get(key) for key in _FINDING}
        for each in (findings if isinstance(findings, list) else [])[:200]
        if isinstance(each, dict)
    ]
    sentences = {
        key: [str(line) for line in told[key][:100]] if isinstance(told.get(key), list) else []
        for key in ("verdict", "not_tested")
    }
    return {"audit": {"known": told.get("known"), "findings": rows, **sentences}}


def cards(attempt: Attempt, folder: Path) -> list[dict[str, Any]]:
    """The model card of each party whose model is in the folder."""
    report = attempt(lambda: inspect(folder))
    rows = []
    for each in (report or {}).get("parties", [])[:200]:
        model = each["model"]
        row = {"party": each["party"], "state": each["state"], "problems": each["problems"]}
        if model is None:
            rows.append(row | {"model": None})
            continue
        columns = model["columns"]
        kept = {
            key: model[key]
            for key in ("version", "job", "run", "round", "weights", "widths", "dtype", "model",
                        "row_shape", "rows", "method", "seed", "parent", "environment", "task",
                        "outputs", "top", "calibration", "metric", "measured", "parameters",
                        "integrity", "alignment", "active", "recorded")
        }  # fmt: skip
        kept["classes"] = model["classes"][:CLASSES_SHOWN]
        kept["class_count"] = len(model["classes"])
        kept["columns"] = columns[:COLUMNS_SHOWN]
        kept["column_count"] = len(columns)
        rows.append(row | {"model": kept})
    return rows


def settings(job: Job) -> list[dict[str, str]]:
    """The job's settings that differ from the defaults and are everybody's business."""
    rows = []
    tables = to_tables(job)
    for table in ("method", "train", "top", "network", "compute", "limits"):
        for key, value in dict(tables.get(table, {})).items():
            rows.append({"setting": f"{table}.{key}", "value": toml_text(value)})
    for name, own in dict(tables.get("parties", {})).items():
        rows += [
            {"setting": f"parties.{name}.{key}", "value": toml_text(own[key])}
            for key in _PUBLIC
            if key in own
        ]
    return rows[:1000]
