"""A paper's table, ours beside it; one file a table, found by looking.

A reproduction's name is that of its file with hyphens; the file has a function `reproduce`.

May import run, record, data, job, methods.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

Say = Callable[[str], None]
ReproduceFunction = Callable[[Path | None, list[int] | None, bool, Say], "Reproduction"]


@dataclass(frozen=True)
class Reproduction:
    """A table with the paper's figures beside ours."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    """The figures behind the table, for `--json`."""

    def table(self) -> Table:
        """The table, to print with rich."""
        from rich.table import Table

        table = Table(title=self.title, caption="\n".join(self.notes), caption_justify="left")
        for number, column in enumerate(self.columns):
            words = number == 0 or any(row[number][:1].isalpha() for row in self.rows[:1])
            table.add_column(column, justify="left" if words else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        return table

    def to_dict(self) -> dict[str, Any]:
        """The reproduction as plain values."""
        table = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"title": self.title, "table": table, "notes": self.notes, **self.data}


def slow_network(latency: int, unit_ms: int) -> list[str]:
    """The settings of PASTA's experiments: one-way latency in units, forward 10 units, backward
    20, aggregate 10, at 300 Mbit.

    >>> slow_network(50, unit_ms=10)[0]
    'network.latency=500ms'
    """
    return [
        f"network.latency={latency * unit_ms}ms",
        "network.bandwidth=300mbit",
        f"compute.forward={10 * unit_ms}ms",
        f"compute.backward={20 * unit_ms}ms",
        f"compute.aggregate={10 * unit_ms}ms",
    ]


def known() -> dict[str, ReproduceFunction]:
    """Every reproduction, by name.

    >>> [name for name in known() if name.startswith("pasta")]
    ['pasta-latency', 'pasta-timing']
    """
    found: dict[str, ReproduceFunction] = {}
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        found[module_info.name.replace("_", "-")] = module.reproduce
    return found
