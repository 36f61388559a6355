"""A run that goes on: what `live.jsonl` says of it so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from colonnade.page.curves import history_of, thinned
from colonnade.page.reading import Floats, clean_text
from colonnade.record.reading import read_regular

FILE = "live.jsonl"
BYTES_MAX = 2**26
POINTS = 240
Attempt = Callable[[Callable[[], Any]], Any]


def goes_on(folder: Path) -> bool:
    """Whether a run is on its way in a folder: it has told of rounds, and not of its end.

    >>> goes_on(Path("nowhere"))
    False
    """
    last: dict[str, Any] = {}
    for event in _events(folder):
        last = event
    return bool(last) and last.get("type") != "Finished"


def add(attempt: Attempt, folder: Path, own: Mapping[str, Path], found: dict[str, Any]) -> None:
    """Put into the facts of a run what its events say, where nothing better is there."""
    places = [folder, *(place for place in own.values() if place != folder)]
    events: list[dict[str, Any]] = []
    for place in places:
        events += attempt(partial(_listed, place)) or []
    if not found["history"]:
        found["history"] = _history(events)
        _take_metric(found)
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


def _listed(folder: Path) -> list[dict[str, Any]]:
    return list(_events(folder))


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


def _take_metric(found: dict[str, Any]) -> None:
    """The metric of a run without a summary is the first that was measured."""
    known = ("round", "time_s", "bytes_up", "bytes_down", "bytes")
    names = [name for name in found["history"] if name not in known]
    if names and not found["metric"]["name"]:
        values = [each for each in found["history"][names[0]] if each is not None]
        found["metric"] |= {"name": names[0], "final": values[-1] if values else None}


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
