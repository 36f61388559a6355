"""The facts of one run, from its folder: plain values that a page is drawn from.

A file that is damaged takes its own part away and no other: the page says what is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from colonnade import methods
from colonnade.errors import ColonnadeError, RequestError
from colonnade.job.files import loads, to_tables
from colonnade.job.records import Job
from colonnade.page import exchanges, flows, lanes, live, spans, tables, words
from colonnade.page.curves import history_of, thinned
from colonnade.page.folders import Point, is_run
from colonnade.page.reading import (
    clean,
    clean_text,
    open_table,
    read_batches,
    read_json,
    read_table,
)
from colonnade.record.inspection import parties_of
from colonnade.record.lock import running
from colonnade.record.reading import read_regular
from colonnade.record.timeline_file import exchanges_batches, timeline_batches
from colonnade.run.naming import method_text
from colonnade.run.telling import what_it_tells

FORMAT = 1
TIMELINE_BYTES = 1_500_000
"""The bytes of a page that the timeline of a run may take."""
JOB_BYTES_MAX = 2**20
LOSSES = 400
Facts = dict[str, Any]
T = TypeVar("T")


class Summary(msgspec.Struct, frozen=True):
    """What `summary.json` says of a run, as far as it says it."""

    job: str = ""
    method: dict[str, Any] = {}
    composition: dict[str, str] = {}
    seed: int = 0
    status: str = ""
    error: str | None = None
    rounds: int = 0
    epochs: float = 0.0
    clock: str = "wall"
    time_s: float = 0.0
    bytes: dict[str, int] = {}
    evaluation_bytes: int = 0
    metric: dict[str, float | str | None] = {}
    classes: list[str] = []
    positive: str | None = None
    loss: float | None = None
    target: float | None = None
    time_to_target_s: float | None = None
    rounds_to_target: int | None = None
    bytes_to_target: int | None = None
    updates: dict[str, dict[str, int]] = {}
    busy_s: dict[str, float] = {}
    idle_s: dict[str, float] = {}
    max_in_flight: dict[str, int] = {}
    calibrations: list[dict[str, Any]] = []
    epsilon: dict[str, dict[str, float | None]] = {}


class Part(msgspec.Struct, frozen=True):
    """What `party.json` says of a party's part of a run over the network."""

    party: str = ""
    status: str = ""
    rounds: int = 0
    time_s: float = 0.0
    clock: str = "wall"
    fresh: int = 0
    local: int = 0
    in_flight_max: int = 0
    busy_s: float = 0.0
    idle_s: float = 0.0
    privacy: dict[str, float | None] | None = None


class _Reader:
    """Reads the files of a folder; what cannot be read becomes a sentence."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []

    def attempt(self, read: Callable[[], T | None]) -> T | None:
        try:
            return read()
        except ColonnadeError as error:
            # Without the folder, which is nobody's business where the report goes.
            said = str(error).replace(str(self.folder) + "/", "").replace(str(self.folder), "it")
            if said not in self.problems:
                self.problems.append(said)
            return None


def facts_of(folder: str | Path, *, timeline_bytes: int = TIMELINE_BYTES) -> Facts:
    """All that a run folder says of its run, as plain values, for `Colonnade.show`.

    Args:
        folder: of a run of all its parties (`simulate`, `launch`), or one party's own (`join`).
        timeline_bytes: about how many bytes its timeline may take.

    Example:
        >>> import tempfile, colonnade as cn
        >>> run = cn.simulate(cn.load("digits", ["train.epochs=1"]))
        >>> with tempfile.TemporaryDirectory() as out:
        ...     facts = facts_of(run.save(out))
        >>> facts["method"], facts["state"], facts["metric"]["name"]
        ('fedsgd', 'ended', 'accuracy')
    """
    path = Path(folder)
    if not path.is_dir() or not is_run(path):
        raise RequestError(f"{path} holds no run: give the folder of a run, as --out named it")
    reader = _Reader(path)
    own = reader.attempt(lambda: parties_of(path)) or {}
    job = reader.attempt(lambda: read_job(path))
    summary = reader.attempt(lambda: read_json(path / "summary.json", Summary, "run"))
    parts = {
        name: part
        for name, place in own.items()
        if (part := reader.attempt(partial(read_json, place / "party.json", Part, "party")))
    }
    found = _about(path, job, summary, parts, own)
    found |= _measured(reader, path, own)
    found |= _timeline(reader, path, own, found["active"], timeline_bytes)
    found["flows"] = reader.attempt(lambda: flows.flows_of(path, own)) or []
    found["parties"] = (
        reader.attempt(lambda: tables.parties(path, job, summary, parts, found)) or []
    )
    found["calibrations"] = summary.calibrations[:100] if summary else []
    found["privacy"] = reader.attempt(lambda: tables.audit(path)) or {"audit": None}
    found["privacy"]["epsilon"] = _epsilon(summary, parts)
    found |= _in_words(reader, job, summary)
    found["models"] = tables.cards(reader.attempt, path)
    if found["state"] == "running" or not found["history"]:
        live.add(reader.attempt, path, own, found)
    found["problems"] = [*found["problems"], *reader.problems]
    return dict(clean(found))


def read_job(folder: Path) -> Job | None:
    """The job of a run folder; code that it names is not run, and such a job is refused."""
    path = folder / "job.toml"
    if not path.exists() and not path.is_symlink():
        return None
    text = read_regular(path, JOB_BYTES_MAX).decode(errors="replace")
    return loads(text)


def _about(
    path: Path,
    job: Job | None,
    summary: Summary | None,
    parts: Mapping[str, Part],
    own: Mapping[str, Path],
) -> Facts:
    """Whose run it is, and how it went."""
    some = next(iter(parts.values()), Part())
    told = summary or Summary(
        status=some.status, rounds=some.rounds, time_s=some.time_s, clock=some.clock
    )
    table = told.method or (dict(job.method) if job else {})
    status = told.status
    return {
        "format": FORMAT,
        "folder": clean_text(path.resolve().name, 80),
        "job": told.job or (job.name if job else ""),
        "active": job.active if job else "",
        "method": method_text(table) if table else "",
        "seed": told.seed if summary else (job.seed if job else 0),
        "state": _state(path, status, own),
        "status": status,
        "error": told.error,
        "clock": told.clock,
        "rounds": told.rounds,
        "epochs": told.epochs,
        "time_s": told.time_s,
        "bytes": told.bytes,
        "evaluation_bytes": told.evaluation_bytes,
        "metric": {"name": None, "final": None, "best": None, "test": None, "chosen_on": None}
        | told.metric,
        "positive": told.positive,
        "loss": told.loss,
        "target": told.target if summary else (job.train.target if job else None),
        "time_to_target_s": told.time_to_target_s,
        "rounds_to_target": told.rounds_to_target,
        "bytes_to_target": told.bytes_to_target,
        "one_party": "" if (path / "parties").is_dir() or not own else next(iter(own)),
        "settings": settings_of(job) if job else None,
        "problems": [],
    }


def settings_of(job: Job) -> str:
    """A name for all that a job says but its seed: runs that share it are seeds of one method."""
    settings = to_tables(job)
    settings.pop("seed", None)
    return hashlib.sha256(msgspec.json.encode(settings, order="deterministic")).hexdigest()[:16]


def _state(path: Path, status: str, own: Mapping[str, Path]) -> str:
    if any(running(place) is not None for place in own.values()):
        return "running"
    if status in ("failed", "interrupted"):
        return status
    if status:
        return "ended"
    if live.goes_on(path):
        return "running"
    return "interrupted"


def _measured(reader: _Reader, path: Path, own: Mapping[str, Path]) -> Facts:
    """The history and the training loss; in a folder of one party, where that one leads."""

    def history() -> dict[str, Any] | None:
        file = open_table(path / "history.parquet")
        if file is None:
            return None
        names = [name for name in file.schema_arrow.names if name != "best"][:60]
        return read_table(path / "history.parquet", dict.fromkeys(names, "float"))

    columns = reader.attempt(history) or {}
    wanted = dict.fromkeys(("round", "time_s", "loss"), "float")
    losses = reader.attempt(lambda: read_table(path / "rounds.parquet", wanted)) or {}
    return {"history": history_of(columns), "losses": thinned(losses, LOSSES)}


def _timeline(
    reader: _Reader, path: Path, own: Mapping[str, Path], active: str, bytes_max: int
) -> Facts:
    """The spans, the exchanges, and what both add up to."""
    found: Facts = {"timeline": None, "exchanges": [], "time": [], "clocks": []}
    columns = reader.attempt(
        lambda: read_batches(path / "timeline.parquet", timeline_batches, lanes.TEMPLATE)
    )
    rounds = reader.attempt(
        lambda: read_batches(path / "exchanges.parquet", exchanges_batches, exchanges.TEMPLATE)
    )
    if columns is not None:
        read = exchanges.with_staleness(lanes.spans_of(columns), rounds)
        found["time"] = spans.totals(read)
        found["timeline"] = spans.timeline(read, active, bytes_max)
    if rounds is not None:
        found["exchanges"] = exchanges.exchanges_of(rounds)
    places = {"": path} if path in own.values() or not own else {"": path, **own}
    for name, place in places.items():
        clocks = reader.attempt(partial(tables.clocks, place, name))
        found["clocks"] += clocks or []
    return found


def _epsilon(summary: Summary | None, parts: Mapping[str, Part]) -> Facts:
    told: Facts = dict(summary.epsilon) if summary else {}
    return {name: part.privacy for name, part in parts.items() if part.privacy} | told


def _in_words(reader: _Reader, job: Job | None, summary: Summary | None) -> Facts:
    """The job and its method, sentence by sentence."""
    is_simulated = summary is not None and summary.clock == "virtual"
    plain = [
        {"axis": axis, "choice": text, "sentence": "", "neutral": False}
        for axis, text in (summary.composition.items() if summary else ())
    ]
    if job is None:
        return {"words": [], "composition": plain, "tells": "", "about": []}
    method = reader.attempt(lambda: methods.build(job.method))
    if method is None:
        return {
            "words": words.in_words(job, is_simulated),
            "composition": plain,
            "tells": "",
            "about": [],
        }
    return {
        "words": words.in_words(job, is_simulated),
        "composition": words.composition(method),
        "tells": reader.attempt(lambda: what_it_tells(job, method)) or "",
        "about": tables.settings(job),
    }


def point_facts(label: str, point: Point) -> Facts:
    """The facts of a run of a race, of which no more is kept than its curve.

    >>> point_facts("fedsgd", Point(seed=3, status="end"))["seed"]
    3
    """
    metric = point.metric or "metric"
    rows = point.history[:100_000]
    history: dict[str, list[float | None]] = {}
    for name, key in (("round", "round"), ("time_s", "time_s"), ("bytes", "bytes"),
                      (metric, "value")):  # fmt: skip
        history[name] = [row.get(key) for row in rows]
    last: dict[str, float | None] = rows[-1] if rows else {}
    failed = point.status in ("failed", "diverged")
    return dict(
        clean(
            {
                "format": FORMAT, "folder": "", "job": str(point.job.get("name", "")),
                "active": "", "method": label, "seed": point.seed,
                "state": "failed" if failed else "ended", "status": point.status,
                "error": point.error, "clock": "virtual", "rounds": last.get("round") or 0,
                "epochs": 0, "time_s": last.get("time_s") or 0,
                "bytes": {"total": last.get("bytes") or 0}, "evaluation_bytes": 0,
                "metric": {"name": metric, "final": last.get("value"), "best": None,
                           "test": point.test, "chosen_on": "validation"},
                "positive": None, "loss": None, "target": None, "time_to_target_s": None,
                "rounds_to_target": None, "bytes_to_target": None, "one_party": "",
                "settings": label, "problems": [], "history": history, "losses": {},
                "timeline": None, "exchanges": [], "time": [], "clocks": [], "flows": [],
                "parties": [], "calibrations": [], "words": [], "composition": [], "tells": "",
                "about": [], "models": [], "privacy": {"audit": None, "epsilon": {}},
            }
        )
    )  # fmt: skip
