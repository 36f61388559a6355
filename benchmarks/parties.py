"""Real parties of a job for the benchmarks: `colonnade join` in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from colonnade.job.records import Job
from colonnade.tls.authority import create_authority, issue

ROOT = Path(__file__).parents[1]
PORT = 7443
Popen = Callable[..., "subprocess.Popen[Any]"]


def alliance(folder: Path, parties: Sequence[str]) -> Path:
    """Certificates for some parties, each in a folder of its own."""
    create_authority(folder)
    issue(folder, list(parties))
    return folder


def join_all(
    job_file: Path | str,
    job: Job,
    keys: Path,
    out: Path,
    *,
    program: Sequence[str] = ("colonnade", "join"),
    options: Sequence[str] = (),
    starters: Mapping[str, Popen] | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    timeout_s: float = 300,
) -> None:
    """Run all parties of a job to their end, each with a run folder `out/PARTY`.

    `program` is a Python module and its words before the job. `starters` start a process in the
    party's own network. Whatever happens, none of the processes is left.
    """
    names = [job.active, *job.passives]
    started: dict[str, subprocess.Popen[Any]] = {}
    end = time.monotonic() + timeout_s

    def start(name: str, *ends: str) -> None:
        command = [sys.executable, "-m", *program, str(job_file), "--me", name, *ends]
        command += ["--keys", str(keys / name), "--out", str(out / name), *options]
        popen = (starters or {}).get(name, subprocess.Popen)
        log = (out / f"{name}.log").open("w")
        with log:
            started[name] = popen(command, stdout=log, stderr=log, cwd=ROOT)

    out.mkdir(parents=True, exist_ok=True)
    try:
        start(job.active, "--listen", f"{host}:{port}")
        port = port or _port(out / f"{job.active}.log", started[job.active], end)
        for name in job.passives:
            start(name, "--connect", f"{host}:{port}")
        for name in names:
            code = started[name].wait(max(1.0, end - time.monotonic()))
            if code:
                raise SystemExit(f"{name} ended with {code}:\n{(out / f'{name}.log').read_text()}")
    finally:
        for process in started.values():
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()


def _port(log: Path, process: subprocess.Popen[Any], end: float) -> int:
    """The port that the active party says it listens at."""
    while time.monotonic() < end:
        text = log.read_text()
        if "(port " in text:
            return int(text.partition("(port ")[2].partition(")")[0])
        if process.poll() is not None:
            raise SystemExit(f"the active party ended at once:\n{text}")
        time.sleep(0.05)
    raise SystemExit("the active party did not begin to listen in time")


def end_with_cleanup() -> None:
    """When this process is asked to end, let it end what it has started first."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def load_average() -> str:
    """How busy the machine is, to be stated beside each measurement."""
    return "load average {:.2f}, {:.2f}, {:.2f}".format(*os.getloadavg())


def zero_ns(folder: Path) -> int:
    """When a party's training began: the zero of the times in its run folder, by the clock of the
    day."""
    known = json.loads((folder / "start.json").read_text())
    return int(known["started_ns"] + known["begun_ns"])
