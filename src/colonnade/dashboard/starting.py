"""Runs that are started from the browser: simulations of jobs that have been planned there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from colonnade.dashboard.plans import folder_name
from colonnade.errors import RequestError
from colonnade.page.reading import clean_text

AT_ONCE = 2
"""How many started runs may go on at the same time."""
OFFERS_MAX = 64
REMEMBERED = 20
"""How many started runs are told of, those that have ended included."""
SAID_BYTES = 4_000
ENDING_S = 10
"""How long runs have to end in order when the dashboard ends."""
SUFFIX_MAX = 1_000
COMMAND = (sys.executable, "-P", "-m", "colonnade")


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a browser asks for."""

    job: str
    """The id of a job."""
    method: str
    """A method, as the plan of that job names it."""


@dataclass(frozen=True)
class Offer:
    """A job that has been planned, and may be started with the methods of the plan."""

    name: str
    source: str
    """What `colonnade simulate` is given: a built-in job, or the path of a file."""
    own: str
    """The job's own method. It is left to the job: what a command names may name code."""
    methods: frozenset[str]


@dataclass
class _Run:
    folder: str
    process: subprocess.Popen[bytes]
    words: IO[bytes]
    """What it says on standard error."""

    def told(self) -> dict[str, str]:
        code = self.process.poll()
        if code is None:
            return {"name": self.folder, "state": "running", "said": ""}
        if self.words.closed or code == 0:
            return {"name": self.folder, "state": "ended", "said": ""}
        size = self.words.seek(0, os.SEEK_END)
        self.words.seek(max(0, size - SAID_BYTES))
        lines = self.words.read().decode(errors="replace").strip().splitlines()
        said = lines[-1] if lines else f"it ended with the exit code {code}"
        return {"name": self.folder, "state": "failed", "said": clean_text(said, 1_000)}


class Starter:
    """Starts runs below a folder. Each is a process of its own, with the rights of whoever started
    the dashboard, and ends with it; what a browser sends decides between jobs and methods that this
    dashboard has offered, and nothing else of it gets into the command."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._offers: dict[str, Offer] = {}
        self._runs: list[_Run] = []

    def offer(self, id_: str, offer: Offer) -> None:
        """Let a job be started that has just been planned."""
        self._offers.pop(id_, None)
        self._offers[id_] = offer
        if len(self._offers) > OFFERS_MAX:
            del self._offers[next(iter(self._offers))]

    def start(self, wish: Wish) -> str:
        """Start a run; the name of its folder."""
        offer = self._offers.get(wish.job)
        if offer is None or wish.method not in offer.methods:
            raise RequestError("plan the job first, and start one of the methods of its plan")
        if sum(run.process.poll() is None for run in self._runs) >= AT_ONCE:
            raise RequestError(
                f"{AT_ONCE} runs that were started here go on already: wait until one has ended"
            )
        name = self._free_name(folder_name(offer.name, wish.method))
        method = [] if wish.method == offer.own else ["--method", wish.method]
        words = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the run is told of
        process = subprocess.Popen(
            [*COMMAND, "simulate", offer.source, *method, "--out", str(self._root / name), "-q"],
            cwd=self._root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            start_new_session=True,
        )
        self._runs.append(_Run(name, process, words))
        while len(self._runs) > REMEMBERED and self._runs[0].process.poll() is not None:
            self._runs.pop(0).words.close()
        return name

    def told(self) -> list[dict[str, str]]:
        """What has become of the runs that were started, the newest first."""
        return [run.told() for run in reversed(self._runs)]

    def close(self) -> None:
        """End what goes on, as Ctrl-C does; what has not ended after a while, at once."""
        going = [run.process for run in self._runs if run.process.poll() is None]
        for process in going:
            process.send_signal(signal.SIGINT)
        for process in going:
            try:
                process.wait(ENDING_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for run in self._runs:
            run.words.close()

    def _free_name(self, name: str) -> str:
        for number in range(1, SUFFIX_MAX):
            found = name if number == 1 else f"{name}-{number}"
            taken = any(run.folder == found for run in self._runs)
            if not taken and not os.path.lexists(self._root / found):
                return found
        raise RequestError(f"there are {SUFFIX_MAX} runs named {name} already: move some away")
