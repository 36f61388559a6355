"""What a tracker is told of a job and of its end: hyper-parameters and figures, and nothing that
belongs to one party alone. A tracker may be a server of somebody else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from colonnade.job.files import to_tables
from colonnade.job.records import Job

Value = str | float | int | bool
TABLES = ("seed", "method", "train", "top", "network", "compute")
"""The tables of a job that say how it trains. Data sets and files are none of them."""
PARTY = ("role", "width", "model", "optimizer", "schedule", "step", "compress", "preprocessing")
"""What is said of a party: never its files, columns, device or seed."""
VALUE_LETTERS_MAX = 500
KEYS_MAX = 1_000
HIDDEN = "a path of this computer"
_PATH = re.compile(r"(^|[\"' =:])(/|~|\.{1,2}/|[A-Za-z]:\\)")
_KEY = re.compile(r"[^A-Za-z0-9_./ -]")


def parameters_of(job: Job) -> dict[str, Value]:
    """The hyper-parameters of a job, flat, without what is as by default.

    >>> from colonnade.job import load
    >>> found = parameters_of(load("digits", ["parties.lab.seed=7"]))
    >>> found["method.name"], found["seed"], "parties.lab.seed" in found
    ('fedsgd', 0, False)
    """
    tables = to_tables(job)
    shown = {name: tables[name] for name in TABLES if name in tables}
    shown["parties"] = {
        name: {field: own[field] for field in PARTY if field in own}
        for name, own in tables.get("parties", {}).items()
    }
    return dict(list(_flat("", shown).items())[:KEYS_MAX])


def _flat(prefix: str, tables: Mapping[str, Any]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, value in tables.items():
        key = f"{prefix}{_KEY.sub('_', str(name))}"
        if isinstance(value, Mapping):
            found |= _flat(f"{key}.", value)
        else:
            found[key] = _plain(value)
    return found


def _plain(value: Any) -> Value:
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return HIDDEN if _PATH.search(text) else text[:VALUE_LETTERS_MAX]


def tags_of(job: Job) -> dict[str, str]:
    """What a run is found again by."""
    return {"job": job.name, "method": str(job.method.get("name", "fedsgd"))}


def figures_of(summary: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a finished run, from its summary.

    >>> figures_of({"time_s": 2.0, "bytes": {"total": 9}, "metric": {"name": "auc", "best": 0.8}})
    {'final/time_s': 2.0, 'final/bytes.total': 9.0, 'final/auc.best': 0.8}
    """
    found = {name: summary.get(name) for name in _FIGURES}
    found |= {f"bytes.{way}": count for way, count in summary.get("bytes", {}).items()}
    metric = summary.get("metric", {})
    for which in ("final", "best", "test"):
        found[f"{metric.get('name')}.{which}"] = metric.get(which)
    for name in ("busy_s", "idle_s"):
        found |= {f"{name}.{party}": value for party, value in summary.get(name, {}).items()}
    return {
        f"final/{name}": float(value)
        for name, value in found.items()
        if isinstance(value, int | float)
    }


_FIGURES = ("rounds", "epochs", "time_s", "evaluation_bytes", "loss", "time_to_target_s",
            "rounds_to_target", "bytes_to_target")  # fmt: skip
