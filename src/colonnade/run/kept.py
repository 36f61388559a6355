"""The figures of many trainings, each kept in a file: a study that was interrupted goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from colonnade.record.private import write_whole
from colonnade.run.pool import side_by_side


class Cell(Protocol):
    """One training of a study; a value."""

    @property
    def file(self) -> str:
        """The name of its file, after all that its figures depend on."""

    @property
    def title(self) -> str:
        """For a person."""


C = TypeVar("C", bound=Cell)
Figures = dict[str, Any]


def measure_all(
    cells: Sequence[C],
    measure: Callable[[C], Figures],
    out: Path | None,
    say: Callable[[str, int, int], None],
    workers: int | None,
) -> dict[C, Figures]:
    """The figures of all cells, in their order: those that were kept in `out`, and the others
    anew, side by side. `say` is told a text, and how many are done, of how many."""
    found = {} if out is None else {cell: _read(out / cell.file) for cell in cells}
    figures = {cell: kept for cell, kept in found.items() if kept is not None}
    missing = [cell for cell in cells if cell not in figures]
    say(f"{len(missing)} of {len(cells)} trainings to do", len(figures), len(cells))
    with closing(side_by_side(measure, missing, workers)) as answers:
        for place, answer in answers:
            cell = missing[place]
            figures[cell] = answer
            if out is not None:
                out.mkdir(parents=True, exist_ok=True)
                about = msgspec.to_builtins(cell) | {"figures": answer}
                write_whole(out / cell.file, json.dumps(about, indent=1))
            say(f"{cell.title}: done", len(figures), len(cells))
    return {cell: figures[cell] for cell in cells}


def once(path: Path | None, setting: str, make: Callable[[], Figures]) -> Figures:
    """Figures that are kept in a file with the setting that they are of, and made anew where the
    file is not there or is of another one. Without a path nothing is kept."""
    if path is None:
        return make()
    try:
        content: Figures = json.loads(path.read_text())
        if content.pop("setting", None) == setting:
            return content
    except (FileNotFoundError, ValueError):
        pass
    figures = make()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({"setting": setting, **figures}, indent=1) + "\n")
    return figures


def _read(path: Path) -> Figures | None:
    try:
        kept: Figures = json.loads(path.read_text())["figures"]
        return kept
    except (FileNotFoundError, ValueError, KeyError):
        return None
