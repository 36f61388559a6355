"""The runs and the job files below a folder: a walk with bounds, which follows no link."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from colonnade.errors import RequestError, reason
from colonnade.record.chain import printable
from colonnade.record.live import FILE as LIVE

DEPTH_MAX = 8
FOLDERS_MAX = 20_000
ENTRIES_MAX = 20_000
"""Of one folder."""
RUNS_MAX = 2_000
JOBS_MAX = 500
NAME_CHARS_MAX = 300
NOTES_MAX = 20
_RUN_FILES = {"summary.json", "party.json", LIVE}
_RUN_FOLDERS = {"parties", "checkpoints"}
"""With `job.toml` beside it, such a folder is of a run that has left nothing else yet."""
_OTHERS = {
    "race.json": "a race, which keeps no run folders: colonnade report shows its table and curves",
    "sweep.json": "a sweep, which keeps no run folders: its figures are in sweep.json",
    "claims.json": "a reproduction: its tables and verdicts are in page.md",
    "alignment.json": "an alignment: colonnade trace shows when it did what",
    "prediction.json": "predictions: colonnade trace shows when the last one did what",
}
"""What the list says of folders that hold something else, by the file that only they have."""
_WITHIN = ("sweep.json", "race.json", "alignment.json", "prediction.json")
"""Of those, the ones within which there are no runs."""
_NO_RUNS = {*_OTHERS, "comparison.json"}


@dataclass(frozen=True)
class Place:
    """A folder or a file that was found, and the name that it goes by in addresses. No address
    holds a path, so that none can lead elsewhere."""

    id: str
    path: Path
    name: str
    """As people read it: below the root."""


@dataclass
class Findings:
    """What there is below a root."""

    runs: dict[str, Place] = field(default_factory=dict)
    jobs: dict[str, Place] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What was left out, and why; and what the folders hold that are no runs."""


def check_root(root: Path) -> Path:
    """The folder of all runs, as it truly is; or a `RequestError`.

    >>> check_root(Path("nowhere"))
    Traceback (most recent call last):
    colonnade.errors.RequestError: there is no folder nowhere: give the folder that holds your \
runs, as --out names them
    """
    if not root.is_dir():
        raise RequestError(
            f"there is no folder {root}: give the folder that holds your runs, as --out names them"
        )
    return root.resolve()


def find(root: Path) -> Findings:
    """All runs and job files below a folder, by breadth: the nearest first."""
    found, left, others = Findings(), FOLDERS_MAX, list[str]()
    waiting = deque([(root, 0)])
    while waiting:
        folder, depth = waiting.popleft()
        left -= 1
        if left < 0 or len(found.runs) >= RUNS_MAX:
            most = f"{RUNS_MAX:,} runs" if left >= 0 else f"{FOLDERS_MAX:,} folders"
            found.notes.append(f"Only the first {most} are looked at: name a folder further down.")
            break
        try:
            files, folders = _entries(folder)
        except OSError as error:
            said = f"{_name(folder, root)} cannot be read: {reason(error)}"
            found.notes.append(printable(said))
            continue
        if _is_run(files, folders):
            _add(found.runs, folder, root)
            folders = []
        elif (sign := next((each for each in _OTHERS if each in files), None)) is not None:
            others.append(printable(f"{_name(folder, root)} holds {_OTHERS[sign]}."))
            folders = [] if sign in _WITHIN else folders
        for name in files:
            if name.endswith(".toml") and len(found.jobs) < JOBS_MAX:
                _add(found.jobs, folder / name, root)
        if depth < DEPTH_MAX:
            waiting += [(folder / name, depth + 1) for name in folders]
        elif folders:
            found.notes.append(
                f"{printable(_name(folder, root))} is {DEPTH_MAX} folders deep, and what lies below"
                " it is left out: name a folder further down."
            )
    # What was left out comes first: many alignments must not hide it.
    found.notes = [*found.notes[:NOTES_MAX], *others[:NOTES_MAX]]
    if len(others) > NOTES_MAX:
        found.notes.append(
            f"{len(others) - NOTES_MAX:,} more folders hold something else than runs."
        )
    return found


def _entries(folder: Path) -> tuple[list[str], list[str]]:
    """The names of its plain files and of its folders; what is hidden or a link is left out."""
    files, folders = [], []
    for entry in _some(folder):
        if entry.name.startswith(".") or len(entry.name) > 255:
            continue
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
        elif entry.is_file(follow_symlinks=False):
            files.append(entry.name)
    return sorted(files), sorted(folders)


def _some(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count == ENTRIES_MAX:
                return
            yield entry


def _is_run(files: list[str], folders: list[str]) -> bool:
    if _NO_RUNS & set(files):
        return False
    # An alignment that goes on: `work` holds its secrets, and it has nothing else of its own yet.
    if "work" in folders and "model.json" not in files:
        return False
    begun = "job.toml" in files and bool(_RUN_FOLDERS & set(folders))
    return begun or bool(_RUN_FILES & set(files))


def _add(places: dict[str, Place], path: Path, root: Path) -> None:
    name = _name(path, root)
    made = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    places[made] = Place(made, path, printable(name)[:NAME_CHARS_MAX])


def _name(path: Path, root: Path) -> str:
    return root.name if path == root else path.relative_to(root).as_posix()


def still_there(place: Place) -> bool:
    """Whether a folder or file is what it was when it was found, and no link that leads elsewhere.

    >>> still_there(Place("0", Path("nowhere").absolute(), "nowhere"))
    False
    """
    try:
        mode = place.path.lstat().st_mode
        return not stat.S_ISLNK(mode) and place.path.resolve(strict=True) == place.path
    except (OSError, RuntimeError):
        return False
