"""A run as one row of the list: what it is, how far it is or how it ended, and what it cost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from colonnade.dashboard.finding import Place, still_there
from colonnade.dashboard.tail import Said, read_ends
from colonnade.errors import RequestError
from colonnade.formats import check_json
from colonnade.job.reading import parse_toml
from colonnade.page.live import chief_metric
from colonnade.page.reading import clean, clean_text
from colonnade.record.live import FILE as LIVE
from colonnade.record.live import is_followed
from colonnade.record.reading import read_regular
from colonnade.run.naming import method_text

SUMMARY_BYTES_MAX = 2**22
JOB_BYTES_MAX = 2**20
CELL_CHARS_MAX = 120
_FORMATS = {"summary.json": "run", "party.json": "party"}
_FILES = ("summary.json", "party.json", LIVE, "job.toml")
RUNNING, INTERRUPTED, DAMAGED = "running", "interrupted", "damaged"
T = TypeVar("T")


class Row(msgspec.Struct, frozen=True):
    """One run; None for what is not known, or not yet."""

    id: str
    name: str
    status: str = INTERRUPTED
    """`running`, `interrupted`, `damaged`, or how it ended, as `summary.json` has it."""
    job: str | None = None
    method: str | None = None
    seed: int | None = None
    metric: str | None = None
    value: float | None = None
    """Of the metric: on the test rows, or the best so far."""
    value_of: str = ""
    """Which: `test`, `best` or `latest`."""
    rounds: int | None = None
    rounds_all: int | None = None
    """Of how many; known of a run that goes on."""
    time_s: float | None = None
    clock: str | None = None
    bytes: int | None = None
    changed_s: float | None = None
    """When it last changed, in Unix time."""
    party: str | None = None
    """Whose folder it is, where it holds one party's part only."""
    fault: str | None = None
    """Why nothing more is known."""


class _Metric(msgspec.Struct, frozen=True):
    name: str | None = None
    final: float | None = None
    best: float | None = None
    test: float | None = None


class _Summary(msgspec.Struct, frozen=True):
    job: str | None = None
    method: dict[str, Any] = {}
    seed: int | None = None
    status: str = "end"
    rounds: int | None = None
    time_s: float | None = None
    clock: str | None = None
    metric: _Metric = _Metric()
    bytes: dict[str, int] = {}


class _Part(msgspec.Struct, frozen=True):
    party: str | None = None
    status: str = "end"
    rounds: int | None = None
    time_s: float | None = None


class _Job(msgspec.Struct, frozen=True):
    name: str | None = None
    seed: int = 0
    method: dict[str, Any] = {}


Signature = tuple[Any, ...]


@dataclass(frozen=True)
class Known:
    """A row, and the state of the files that it was read from."""

    signature: Signature
    row: Row


def row_of(place: Place, known: Known | None = None) -> Known:
    """The row of a run folder, read anew where its files have changed; whatever is wrong with the
    folder is said in its row."""
    signature = _signature(place.path)
    if known is not None and known.signature == signature:
        return known
    try:
        if not still_there(place):
            raise RequestError("the folder has gone, or has become a link")
        row = _read(place, _changed_s(signature))
    except RequestError as error:
        # Of the path people know the part that the list shows.
        said = str(error).replace(f"{place.path}{os.sep}", "")
        row = _damaged(place, said, _changed_s(signature))
    except OSError as error:
        row = _damaged(place, error.strerror or "it cannot be read", _changed_s(signature))
    except Exception as error:  # noqa: BLE001 - one folder must not hide all others
        row = _damaged(place, f"it cannot be read: {type(error).__name__}", _changed_s(signature))
    return Known(signature, row)


def _signature(folder: Path) -> Signature:
    found: list[Any] = []
    for name in _FILES:
        try:
            state = (folder / name).lstat()
            found.append((state.st_ino, state.st_size, state.st_mtime_ns))
        except OSError:
            found.append(None)
    # Whether a process still writes shows in no date.
    return *found, found[_FILES.index(LIVE)] is not None and is_followed(folder / LIVE)


def _changed_s(signature: Signature) -> float | None:
    times = [each[2] for each in signature[:-1] if each is not None]
    return max(times) / 1e9 if times else None


def _damaged(place: Place, said: str, changed_s: float | None) -> Row:
    return Row(place.id, place.name, DAMAGED, changed_s=changed_s, fault=clean_text(said, 300))


def _read(place: Place, changed_s: float | None) -> Row:
    folder = place.path
    goes_on = is_followed(folder / LIVE)
    summary = None if goes_on else _decoded(folder / "summary.json", _Summary)
    part = None if goes_on else _decoded(folder / "party.json", _Part)
    told = _told(folder)
    common = {"id": place.id, "name": place.name, "changed_s": changed_s}
    if summary is not None:
        found = told | _ended(summary) | ({} if part is None else {"party": part.party})
    elif part is not None:
        fields = {"party": part.party, "rounds": part.rounds, "time_s": part.time_s}
        found = told | fields | {"status": part.status, "clock": "wall"}
    else:
        seen = read_ends(folder / LIVE)
        found = told | glimpse(seen) | {"status": RUNNING if goes_on else INTERRUPTED}
        if not seen and not told:
            raise RequestError("there is neither a summary nor a job in it")
    return msgspec.convert({**clean(_short(found)), **common}, Row, strict=False)


def _short(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: clean_text(value, CELL_CHARS_MAX) if isinstance(value, str) else value
        for key, value in found.items()
    }


def _ended(summary: _Summary) -> dict[str, Any]:
    metric = summary.metric
    value, of = metric.test, "test"
    if value is None:
        value, of = metric.best, "best"
    return {
        "status": summary.status,
        "job": summary.job,
        "method": method_text(summary.method),
        "seed": summary.seed,
        "metric": metric.name,
        "value": value,
        "value_of": of,
        "rounds": summary.rounds,
        "time_s": summary.time_s,
        "clock": summary.clock,
        "bytes": summary.bytes.get("total"),
    }


def _told(folder: Path) -> dict[str, Any]:
    """What the job file says, where there is one."""
    job = _decoded(folder / "job.toml", _Job)
    if job is None:
        return {}
    return {"job": job.name, "method": method_text(job.method), "seed": job.seed}


def glimpse(seen: list[Said]) -> dict[str, Any]:
    """What the latest events of a run say of it.

    >>> seen = [{"type": "Opened", "job": "digits", "active": "lab", "parties": ["lab", "clinic"]},
    ...         {"type": "RoundDone", "party": "lab", "round": 4, "rounds": 10, "time_ns": 2e9}]
    >>> found = glimpse(seen)
    >>> found["rounds"], found["rounds_all"], found["time_s"]
    (5, 10, 2.0)
    """
    found: dict[str, Any] = {}
    active = None
    for said in seen:
        if said["type"] == "Opened":
            active = said.get("active")
            found |= {key: said.get(key) for key in ("job", "method", "seed", "clock")}
        elif said["type"] == "RoundDone" and (said.get("party") == active or "rounds" not in found):
            found["rounds"], found["rounds_all"] = _whole(said, "round", 1), _whole(said, "rounds")
            found["time_s"] = _seconds(said)
            if said.get("bytes_up") or said.get("bytes_down"):
                found["bytes"] = (_whole(said, "bytes_up") or 0) + (_whole(said, "bytes_down") or 0)
        elif said["type"] == "Evaluated":
            found |= _evaluated(said, found)
    return found


def _evaluated(said: Said, before: Mapping[str, Any]) -> dict[str, Any]:
    told = said.get("measured")
    measured: dict[str, Any] = told if isinstance(told, dict) else {}
    name = chief_metric(measured)
    if name is None:
        return {}
    value = measured[name] if isinstance(measured[name], int | float) else None
    found: dict[str, Any] = {
        "bytes": (_whole(said, "bytes_up") or 0) + (_whole(said, "bytes_down") or 0)
    }
    # Where the best evaluation is not among those that were looked at, the latest has to do.
    if said.get("best") is True or before.get("value_of") != "best":
        of = "best" if said.get("best") is True else "latest"
        found |= {"metric": name, "value": value, "value_of": of}
    return found


def _whole(said: Said, key: str, more: int = 0) -> int | None:
    value = said.get(key)
    return int(value) + more if isinstance(value, int | float) else None


def _seconds(said: Said) -> float | None:
    value = said.get("time_ns")
    return value / 1e9 if isinstance(value, int | float) else None


def _decoded(path: Path, kind: type[T]) -> T | None:
    """A file of plain values; None where there is none."""
    if not os.path.lexists(path):
        return None
    toml = path.suffix == ".toml"
    content = read_regular(path, JOB_BYTES_MAX if toml else SUMMARY_BYTES_MAX)
    if path.name in _FORMATS:
        check_json(_FORMATS[path.name], content, path)
    try:
        if toml:
            return msgspec.convert(parse_toml(content.decode(), str(path)), kind)
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise RequestError(f"{path} is damaged: copy the whole folder of the run again") from None
