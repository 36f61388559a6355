"""A run that goes on, or was cut off: what `live.jsonl` says of it so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from colonnade.page.curves import history_of, thinned
from colonnade.page.reading import Floats, clean_text
from colonnade.record.live import FILE, is_followed
from colonnade.record.reading import read_regular

BYTES_MAX = 2**26
POINTS = 240
Attempt = Callable[[Callable[[], Any]], Any]


def goes_on(folder: Path) -> bool:
    """Whether a process writes the events of a run into a folder now.

    >>> goes_on(Path("nowhere"))
    False
    """
    return is_followed(folder / FILE)


def add(attempt: Attempt, folder: Path, own: Mapping[str, Path], found: dict[str, Any]) -> None:
    """Put into the facts of a run what its events say, where nothing better is there."""
    places = [folder, *(place for place in own.values() if place != folder)]
    events: list[dict[str, Any]] = []
    for place in places:
        events += attempt(partial(_listed, place)) or []
    if not found["history"]:
        found["history"] = _history(events)
        _take_metric(found)
    _take_names(found, events)
    rounds = [each for each in events if each.get("type") == "RoundDone"]
    if not found["exchanges"]:
        found["exchanges"] = _exchanges(rounds)
    if not found["rounds"] and rounds:
        # The active party knows the loss, and its count is the job's.
        leads = [each for each in rounds if each.get("loss") is not None] or rounds
        found["rounds"] = int(_number(leads[-1].get("round")) or 0) + 1
        found["time_s"] = max((_number(each.get("time_ns")) or 0) for each in rounds) / 1e9


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    path = folder / FILE
    if not path.exists() and not path.is_symlink():
        return
    for line in read_regular(path, BYTES_MAX).splitlines():
        try:
            event = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            # The last line may be half written.
            continue
        if isinstance(event, dict):
            yield event


def standing(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events that still count: where a run began anew or went back to a checkpoint, the rounds
    after it are done again.

    >>> told = [{"type": "RoundDone", "round": 4}, {"type": "RoundDone", "round": 5}]
    >>> standing([*told, {"type": "Resumed", "round": 5}])
    [{'type': 'RoundDone', 'round': 4}, {'type': 'Resumed', 'round': 5}]
    """
    found: list[dict[str, Any]] = []
    for event in events:
        kind, back = event.get("type"), None
        if kind == "Resumed":
            back = _number(event.get("round"))
        elif kind == "Opened" and event.get("clock") == "virtual":
            back = 0.0
        if back is not None:
            found = [each for each in found if (_number(each.get("round")) or 0.0) < back
                     or each.get("type") not in ("RoundDone", "Evaluated")]  # fmt: skip
        found.append(event)
    return found


def chief_metric(names: Iterable[str]) -> str | None:
    """The metric that a run is judged by, among the names of what was measured.

    >>> chief_metric(["validation_loss", "auc"])
    'auc'
    """
    known = list(names)
    chief = [name for name in known if name == "log_loss" or not name.endswith("_loss")]
    return next(iter(chief or known), None)


def _listed(folder: Path) -> list[dict[str, Any]]:
    return standing(list(_events(folder)))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _history(events: list[dict[str, Any]]) -> dict[str, Any]:
    rows = [each for each in events if each.get("type") == "Evaluated"]
    columns: dict[str, list[float]] = {}
    for place, row in enumerate(rows):
        told = row.get("measured")
        values = {
            "round": (_number(row.get("round")) or 0) + 1,
            "time_s": (_number(row.get("time_ns")) or 0) / 1e9,
            "bytes_up": _number(row.get("bytes_up")),
            "bytes_down": _number(row.get("bytes_down")),
        }
        for name, value in (told if isinstance(told, dict) else {}).items():
            values.setdefault(clean_text(str(name), 80), _number(value))
        for name, number in values.items():
            column = columns.setdefault(name, [np.nan] * place)
            column.append(np.nan if number is None else number)
        for column in columns.values():
            column += [np.nan] * (place + 1 - len(column))
    return history_of({name: np.array(column) for name, column in columns.items()})


def _take_names(found: dict[str, Any], events: list[dict[str, Any]]) -> None:
    """What run it is, where neither a job nor a summary says it yet, and its bytes so far."""
    opened = next((each for each in events if each.get("type") == "Opened"), {})
    if not found["job"]:
        for key in ("job", "method", "active", "clock"):
            if isinstance(opened.get(key), str):
                found[key] = clean_text(opened[key], 200)
        if isinstance(opened.get("seed"), int):
            found["seed"] = opened["seed"]
    if found["target"] is None:
        found["target"] = _number(opened.get("target"))
    history = found["history"]
    if not found["bytes"] and history.get("bytes"):
        up, down = (history[f"bytes_{way}"][-1] or 0 for way in ("up", "down"))
        found["bytes"] = {"up": int(up), "down": int(down), "total": int(up + down)}


def _take_metric(found: dict[str, Any]) -> None:
    """The metric of a run without a summary is the first that was measured."""
    known = ("round", "time_s", "bytes_up", "bytes_down", "bytes")
    name = chief_metric(each for each in found["history"] if each not in known)
    if name is not None and not found["metric"]["name"]:
        values = [each for each in found["history"][name] if each is not None]
        found["metric"] |= {"name": name, "final": values[-1] if values else None}


def _exchanges(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_party: dict[str, list[dict[str, Any]]] = {}
    for each in rounds:
        if "window" in each:
            by_party.setdefault(clean_text(str(each.get("party")), 80), []).append(each)
    found = []
    for name, own in by_party.items():
        columns: dict[str, Floats] = {}
        for key in ("round", "window", "in_flight", "staleness", "updates"):
            columns[key] = np.array([_number(each.get(key)) or 0.0 for each in own])
        columns["time_s"] = np.array([(_number(each.get("time_ns")) or 0.0) / 1e9 for each in own])
        found.append({"party": name, "rounds": len(own), **thinned(columns, POINTS)})
    return found
