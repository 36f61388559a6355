"""Which runs a folder holds: one, or those of a comparison or of a race."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from colonnade.errors import RequestError
from colonnade.page.reading import read_json
from colonnade.record.folder import kind_of

RUNS_MAX = 60
"""The most runs of one report."""
_OF_A_RUN = ("summary.json", "parties", "party.json", "ledger.chain", "start.json", "lock",
             "model.json", "live.jsonl")  # fmt: skip
_POINTS_MAX = 10_000


class Point(msgspec.Struct, frozen=True):
    """A run of a race, which keeps no folder of its own: its file among the race's points."""

    label: str = ""
    seed: int = 0
    status: str = ""
    error: str | None = None
    metric: str | None = None
    history: list[dict[str, float | None]] = []
    test: float | None = None
    job: dict[str, Any] = {}


@dataclass(frozen=True)
class Found:
    """What a folder holds."""

    runs: list[Path] = field(default_factory=list)
    race: dict[str, Any] | None = None
    points: list[tuple[str, Point]] = field(default_factory=list)
    """The runs of a race's table, by method."""


def runs_of(folder: Path) -> Found:
    """The runs below a folder, or one sentence.

    >>> runs_of(Path("nowhere"))
    Traceback (most recent call last):
    colonnade.errors.RequestError: there is no folder nowhere: give the folder of a run, as --out \
named it
    """
    give = "give the folder of a run, as --out named it"
    if not folder.is_dir():
        what = "is a file" if folder.exists() else ""
        raise RequestError(
            f"{folder} {what}: {give}" if what else f"there is no folder {folder}: {give}"
        )
    if (folder / "race.json").exists():
        race = read_json(folder / "race.json", dict, "race") or {}
        return Found(race=race, points=_points(folder / "points", race))
    _refuse_programs(folder)
    if is_run(folder):
        return Found(runs=[folder])
    below = list(islice(_compared(folder), RUNS_MAX + 1))
    if below:
        return Found(runs=below)
    if (folder / "sweep.json").exists():
        raise RequestError(
            f"{folder} holds a sweep, which keeps no curves: train its best settings with --out"
        )
    if (folder / "claims.json").exists():
        raise RequestError(
            f"{folder} holds a reproduction, which keeps no runs: read its page.md, or report a run"
        )
    if (folder / "points").is_dir():
        raise RequestError(
            f"{folder} holds a sweep, a race or a reproduction that is not at its end: start the "
            "same command again"
        )
    inside = [path.name for path in _folders(folder) if is_run(path) or any(_compared(path))]
    if inside:
        named = ", ".join(inside[:4]) + (f" and {len(inside) - 4} more" if len(inside) > 4 else "")
        raise RequestError(
            f"{folder} holds runs ({named}) and is none: name those that the report is to show, or "
            f"see them all with colonnade dashboard {folder}"
        )
    raise RequestError(f"{folder} holds no run: {give}")


def _refuse_programs(folder: Path) -> None:
    """Refuse what a party has done other than training: it has no curves to draw."""
    kind = kind_of(folder)
    if kind == "service":
        raise RequestError(
            f"{folder} holds a service, and a report shows trainings: see what it has sent with "
            f"colonnade ledger {folder}, and give the folder of the training to the report"
        )
    if kind in ("alignment", "prediction"):
        article = "an" if kind == "alignment" else "a"
        raise RequestError(
            f"{folder} holds {article} {kind}, and a report shows trainings: see when it did what "
            f"with colonnade trace {folder}, what crossed with colonnade ledger {folder}, and give "
            "the folder of a training to the report"
        )


def is_run(folder: Path) -> bool:
    """Whether a folder is that of one run, of all its parties or of one.

    >>> is_run(Path("nowhere"))
    False
    """
    return any((folder / name).exists() for name in _OF_A_RUN)


def _compared(folder: Path) -> Iterator[Path]:
    """The runs of a comparison, in the order of their names."""
    for method in _folders(folder / "runs"):
        for run in _folders(method):
            if is_run(run):
                yield run


def _folders(folder: Path) -> list[Path]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    found = islice((path for path in folder.iterdir() if path.is_dir()), 1000)
    return sorted(path for path in found if not path.is_symlink())


def _points(folder: Path, race: dict[str, Any]) -> list[tuple[str, Point]]:
    """The runs of a race's table: with its seeds, which no run of the tuning has."""
    rows = race.get("methods")
    labels = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("composed"), dict):
            labels[str(row.get("method"))] = row["composed"]
    seeds = race.get("seeds")
    wanted = set(seeds) if isinstance(seeds, list) and all(type(s) is int for s in seeds) else set()
    found: list[tuple[str, Point]] = []
    files = sorted(islice(folder.glob("*.json"), _POINTS_MAX)) if folder.is_dir() else []
    for path in files:
        point = read_json(path, Point, "race")
        if point is None or point.seed not in wanted:
            continue
        names = [label for label, table in labels.items() if table == point.job.get("method")]
        found += [(name, point) for name in names[:1]]
    order = list(labels)
    return sorted(found, key=lambda each: (order.index(each[0]), each[1].seed))
