"""The parties of a small job as processes of this machine, to be stopped, cut off and killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet
from safetensors.torch import load_file

from colonnade.run.processes import free_port
from colonnade.tls.authority import create_authority, issue
from tests.warm import Warm

BUSY = 3
"""How many times as long everything may take on a busy machine."""
ACTIVE, PASSIVES = "clinic", ("lab", "insurer")
PARTIES = (ACTIVE, *PASSIVES)
JOB = """
name = "digits"
data = "digits"

[train]
rounds = 60
batch_size = 32
checkpoint_every = 10
evaluate_every = "20 rounds"
metric = "accuracy"

[timeouts]
absence = "60s"
finish = "20s"

[parties.clinic]
role = "active"
view = "strip 1/3"
model = { name = "mlp", hidden = [32], embedding = 16 }
optimizer = { name = "sgd", lr = 0.05, momentum = 0.5 }

[parties.lab]
view = "strip 2/3"
model = { name = "mlp", hidden = [32], embedding = 16, dropout = 0.1 }
optimizer = { name = "sgd", lr = 0.1 }

[parties.insurer]
view = "strip 3/3"
model = { name = "mlp", hidden = [32], embedding = 16 }
optimizer = { name = "adam", lr = 0.003 }

[top]
kind = "split"
hidden = [32]
"""


class Forked(Warm):
    """A process that begins where the libraries are loaded: a start takes no time."""

    def __init__(self, words: Sequence[str], output: Path) -> None:
        with output.open("ab") as file, Path(os.devnull).open() as nothing:
            fds = {0: nothing.fileno(), 1: file.fileno(), 2: file.fileno()}
            super().__init__(["-m", "colonnade", *words], fds)


class Fresh:
    """The command as a user gives it."""

    def __init__(self, words: Sequence[str], output: Path) -> None:
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "colonnade", *words], stdout=file, stderr=file
            )
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """How it ended, if it has."""
        return self._process.poll()


class Alliance:
    """A job's files and processes; used with `with`, nothing outlives it."""

    def __init__(
        self,
        folder: Path,
        *sets: str,
        emulate: str | None = "latency=2ms",
        start: type[Forked | Fresh] = Forked,
        keys: Path | None = None,
    ) -> None:
        self.folder = folder
        self.sets = sets
        self.port = free_port()
        self.connect: dict[str, int] = {}
        """The port that a party dials, where it is not the active party's own."""
        self.more: tuple[str, ...] = ()
        """Further words of every party's command."""
        self.processes: dict[str, Forked | Fresh] = {}
        self.starts = 0
        self._start = start
        self._emulate = emulate
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.toml").write_text(JOB)
        (folder / "party.toml").write_text("[policy]\nshares_labels = true\n")
        self._keys = keys or new_keys(folder / "keys")

    def __enter__(self) -> Alliance:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.processes):
            self.kill(name)

    def run_folder(self, name: str) -> Path:
        """A party's own folder."""
        return self.folder / name

    def start(self, *names: str, sets: Iterable[str] = ()) -> None:
        """Start parties, with the same command each time."""
        for name in names or PARTIES:
            assert self.ended(name), f"{name} runs already"
            output = self.folder / f"{name}.out"
            self.processes[name] = self._start(self._words(name, [*self.sets, *sets]), output)
            self.starts += 1

    def _words(self, name: str, sets: Sequence[str]) -> list[str]:
        words = ["join", str(self.folder / "job.toml"), "--trust-job", "--me", name]
        words += self.more
        words += ["--keys", str(self._keys / name), "--out", str(self.run_folder(name))]
        port = self.connect.get(name, self.port)
        words += ["--listen" if name == ACTIVE else "--connect", f"127.0.0.1:{port}"]
        words += ["--emulate", self._emulate] if self._emulate else []
        secret = f"parties.{name}.seed={PARTIES.index(name) + 1}"
        for text in (*sets, secret):
            words += ["--set", text]
        return words

    def ended(self, name: str) -> bool:
        """Whether no process of a party runs."""
        process = self.processes.get(name)
        return process is None or process.poll() is not None

    def signal(self, name: str, number: int) -> None:
        """Send a signal; one that comes too late does nothing."""
        process = self.processes[name]
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def kill(self, name: str) -> None:
        """End a party at once, and wait until it is gone."""
        self.signal(name, 9)
        until(lambda: self.ended(name), 10, f"{name} to die")

    def over(self) -> bool:
        """Whether nobody runs."""
        return all(self.ended(name) for name in self.processes)

    def codes(self, limit_s: float = 60) -> dict[str, int | None]:
        """Wait until all have ended; with which exit codes."""
        waited = until(self.over, limit_s)
        assert waited, f"some did not end in {limit_s} s:\n{self.said()}"
        return {name: process.poll() for name, process in self.processes.items()}

    def codes_of(self, name: str, limit_s: float) -> int | None:
        """Wait until one party has ended; with which exit code."""
        waited = until(lambda: self.ended(name), limit_s)
        assert waited, f"{name} did not end in {limit_s} s:\n{self.said()}"
        return self.processes[name].poll()

    def complete(self, limit_s: float = 60) -> None:
        """Wait until all have ended, and well."""
        until(lambda: self.over() or self.failed(), limit_s)
        assert not self.failed(), self.said()
        self.codes(0)

    def failed(self) -> bool:
        """Whether somebody has not ended well."""
        return any(process.poll() for process in self.processes.values())

    def output(self, name: str) -> str:
        """What a party has said, in all its lives."""
        path = self.folder / f"{name}.out"
        return path.read_text() if path.exists() else ""

    def log(self, name: str) -> str:
        """What a party has written into its log."""
        path = self.run_folder(name) / "log.txt"
        return path.read_text() if path.exists() else ""

    def said(self) -> str:
        """What everybody has said, for a person to find a fault in."""
        return "\n".join(f"--- {name}\n{self.output(name)}" for name in PARTIES)

    def wait_for(self, name: str, words: str, times: int = 1, limit_s: float = 40) -> None:
        """Until a party's log has these words so many times."""
        waited = until(lambda: self.log(name).count(words) >= times, limit_s)
        assert waited, f"{name} did not say '{words}' in {limit_s} s:\n{self.said()}"

    def wait_for_round(self, round: int, limit_s: float = 60) -> None:
        """Until the active party has saved the checkpoint of a round."""
        self.wait_for(ACTIVE, f"saved the checkpoint of round {round}", limit_s=limit_s)

    def result(self) -> dict[str, Any]:
        """All that must be the same each time a job is run."""
        found: dict[str, Any] = {}
        up = down = 0
        for name in PARTIES:
            folder = self.run_folder(name)
            # A party that learns nothing itself has no such files.
            for file in folder.glob("*.safetensors"):
                for key, tensor in load_file(file).items():
                    found[f"{name} {file.stem} {key}"] = tensor.numpy().tobytes()
            for row in json.loads((folder / "ledger.json").read_text()):
                counts, key = [row["messages"], row["bytes"]], f"{row['direction']} {row['peer']}"
                if row["kind"] in ("Hello", "MaskKey"):
                    # The one says which checkpoints there are, the other has a signature, so their
                    # lengths may differ.
                    up += row["bytes"] * (name == ACTIVE and row["direction"] == "received")
                    down += row["bytes"] * (name == ACTIVE and row["direction"] == "sent")
                    counts.pop()
                found[f"{name} {key} {row['kind']}"] = counts
        for file in ("history", "rounds"):
            table = pyarrow.parquet.read_table(self.run_folder(ACTIVE) / f"{file}.parquet")
            columns = table.to_pydict()
            for key in columns.keys() - {"time_s"}:
                # What is not known is the same as itself.
                found[f"{file} {key}"] = [None if v != v else v for v in columns[key]]
        found["history bytes_up"] = [size - up for size in found["history bytes_up"]]
        found["history bytes_down"] = [size - down for size in found["history bytes_down"]]
        return found


def new_keys(folder: Path) -> Path:
    """Certificates for all parties."""
    create_authority(folder)
    issue(folder, PARTIES)
    return folder


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """What is not the same in two results; the undisturbed one comes first."""
    return [
        f"{key}: {_short(one.get(key))}, not {_short(other.get(key))}"
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    ]


def _short(value: object) -> str:
    return repr(value)[:80]


STREAM_CANCELLED = re.compile(
    r"Traceback \(most recent call last\):\n.*_schedule_rpc_coro\n.*CancelledError\n"
)
"""What gRPC itself has been seen to print of an old stream, some time after its connection was
lost; nothing of ours is in it. In gRPC's `_schedule_rpc_coro` a task waits for the handler of a
stream, and prints the traceback of whatever ends that wait, even of a cancellation of the task
itself. The handler has ended by then, or is cancelled with it, so nothing is lost; and since it is
printed, not logged, no filter of the log keeps it away."""


def has_traceback(said: str) -> bool:
    """Whether a party showed a traceback that is not gRPC's own."""
    return "Traceback" in STREAM_CANCELLED.sub("", said)


def until(
    condition: Callable[[], bool], limit_s: float, what: str = "", step_s: float = 0.01
) -> bool:
    """Wait for something, not for ever; whether it came, if nobody needs to be told.

    The limit is that of a quiet machine.
    """
    end = time.monotonic() + BUSY * limit_s
    while not condition():
        if time.monotonic() > end:
            assert not what, f"waited {limit_s} s for {what}"
            return False
        time.sleep(step_s)
    return True
