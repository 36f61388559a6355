"""How far the runs of a study are that go on in processes of their own: each says so in a small
file, now and then, for whoever watches."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from colonnade.net.detector import monotonic_ns
from colonnade.record.events import Evaluated, Event, RoundDone, is_metric
from colonnade.units import NS_PER

EVERY_NS = NS_PER["s"] // 4
FILE_BYTES_MAX = 10_000
"""Whoever can write into the folder could leave anything there."""


class UnderWay(msgspec.Struct, frozen=True):
    """How far a run is."""

    label: str
    seed: int
    done: int = 0
    """Rounds."""
    rounds: int = 0
    metric: str = ""
    value: float | None = None


class Beacon:
    """A subscriber that writes how far a run is into a file of this process."""

    def __init__(self, folder: Path, label: str, seed: int, active: str) -> None:
        self._path, self._active = folder / f"{os.getpid()}.json", active
        self._now = UnderWay(label, seed)
        self._written_ns = monotonic_ns()
        self._write()

    def __call__(self, event: Event) -> None:
        """Take note of a round or an evaluation of the active party."""
        # All work comes here too: tests of the type are quicker than patterns.
        if isinstance(event, RoundDone):
            if event.party == self._active and monotonic_ns() - self._written_ns >= EVERY_NS:
                self._written_ns = monotonic_ns()
                done = {"done": event.round + 1, "rounds": event.rounds}
                self._now = msgspec.structs.replace(self._now, **done)
                self._write()
        elif isinstance(event, Evaluated):
            found = {name: value for name, value in event.measured.items() if is_metric(name)}
            name, value = next(iter((found or event.measured).items()), ("", None))
            self._now = msgspec.structs.replace(self._now, metric=name, value=value)

    def _write(self) -> None:
        # A folder of another host, or one that is gone: nobody watches.
        with suppress(OSError):
            self._path.write_bytes(msgspec.json.encode(self._now))

    def close(self) -> None:
        """The run has ended."""
        with suppress(OSError):
            self._path.unlink()


def read_beacons(folder: Path) -> list[UnderWay]:
    """The runs that are under way; what is being written just now is left out.

    >>> read_beacons(Path("nowhere"))
    []
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        with suppress(OSError, msgspec.MsgspecError):
            if path.stat().st_size <= FILE_BYTES_MAX:
                found.append(msgspec.json.decode(path.read_bytes(), type=UnderWay))
    return found
