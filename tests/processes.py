"""Processes: to begin them, and what the system says of them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path


def begin(command: Sequence[str]) -> subprocess.Popen[str]:
    """A process in a session of its own, so that a signal reaches it only, as `kill -INT` does."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def children(parent: int) -> list[int]:
    """The processes that a process has started and that are there."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def alive(pid: int) -> bool:
    """Whether a process runs, or could."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
