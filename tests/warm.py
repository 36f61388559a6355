"""Processes that begin where the libraries are loaded.

To import torch and all else that a training needs takes a process seconds, many times as long as
most tests let it run. `tests/warm_server.py` loads them, once for all workers of a test run, and
forks. `Warm` is for tests that start a process themselves; `python()` names a file that is started
in the place of the interpreter, for whoever else starts one: a shell, a launcher, torchrun.

A test of what a process does from its first moment needs an interpreter of its own.
"""

from __future__ import annotations

import errno
import json
import multiprocessing.spawn
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATIENCE_S = 250
INTERPRETER = sys.executable
"""The real one, whatever stands in for it."""
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}"
PLACE = Path(tempfile.gettempdir()).resolve() / f"colonnade-warm-{_RUN[:16]}"
"""The same for all workers of a test run."""
STAND_IN = """#!{python} -IS
import json, os, signal, socket, sys

server = socket.socket(socket.AF_UNIX)
there = [int(name) for name in os.listdir("/dev/fd")]
fds = [fd for fd in there if fd != server.fileno() and os.path.exists(f"/dev/fd/{{fd}}")]

def forward(number, frame):
    server.sendall(json.dumps({{"signal": number}}).encode() + b"\\n")

# One that comes before there is anybody to hand it to waits.
numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
for number in numbers:
    signal.signal(number, forward)
server.connect({place!r})
asked = {{"words": sys.argv[1:], "folder": os.getcwd(), "fds": fds, "for": os.getpid()}}
asked["environment"] = dict(os.environ)
text = json.dumps(asked).encode() + b"\\n"
server.sendall(text[socket.send_fds(server, [text], fds):])
signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
for fd in fds:
    os.close(fd)
for line in server.makefile():
    code = json.loads(line).get("code")
    if code is not None and code >= 0:
        os._exit(code)
    if code is not None:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
os._exit(70)
"""
"""What stands in for the interpreter: it asks for a process with its own words, folder,
environment and open files, hands on the signals it gets, and ends as that process does. If it is
killed, so is the process."""


@cache
def _server() -> socket.socket:
    """A connection with the server, which is there as long as anybody has one."""
    PLACE.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            listening.bind(str(PLACE / "socket"))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            listening.listen(64)
            _start_server(listening)
    return _connected()


def _start_server(listening: socket.socket) -> None:
    stand_in = PLACE / "python"
    stand_in.write_text(STAND_IN.format(python=INTERPRETER, place=str(PLACE / "socket")))
    command = PLACE / "colonnade"
    command.write_text(f'#!/bin/sh\nexec {stand_in} -P -m colonnade "$@"\n')
    for file in (stand_in, command):
        file.chmod(0o700)
    with (PLACE / "log").open("w") as log:
        subprocess.run(
            [INTERPRETER, "-m", "tests.warm_server", str(listening.fileno()), str(stand_in)],
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=True,
        )


def _connected() -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.connect(str(PLACE / "socket"))
    return server


def python() -> str:
    """A file to start in the place of the interpreter; beside it lies one named `colonnade`."""
    _server()
    return str(PLACE / "python")


def behind(pid: int) -> int:
    """The process that another one stands for, once it is there."""
    end = time.monotonic() + PATIENCE_S
    while not (noted := PLACE / str(pid)).exists():
        assert time.monotonic() < end, f"nobody stands behind {pid}"
        time.sleep(0.01)
    return int(noted.read_text())


@contextmanager
def stood_in() -> Iterator[None]:
    """Whatever this process starts in the meantime with `sys.executable`, the launcher and
    multiprocessing included, begins with the libraries loaded."""
    from colonnade.run import launch

    own, command, spawns = sys.executable, launch.COMMAND, multiprocessing.spawn.get_executable()
    sys.executable = python()
    launch.COMMAND = (sys.executable, *command[1:])
    multiprocessing.spawn.set_executable(sys.executable)
    try:
        yield
    finally:
        sys.executable, launch.COMMAND = own, command
        multiprocessing.spawn.set_executable(spawns)


class Warm:
    """A process that a test has started, with `words` as an interpreter has them."""

    def __init__(self, words: Sequence[str], fds: Mapping[int, int]) -> None:
        """`fds` are open files of this process, by the numbers that they have in the other."""
        _server()
        self._socket, self._said = _connected(), b""
        asked = {"words": list(words), "folder": str(Path.cwd()), "fds": list(fds)}
        text = json.dumps(asked | {"environment": dict(os.environ)}).encode() + b"\n"
        self._socket.sendall(text[socket.send_fds(self._socket, [text], list(fds.values())) :])
        self.pid: int = self._next()["pid"]
        self._socket.setblocking(False)
        self._code: int | None = None

    def poll(self) -> int | None:
        """How it ended, if it has."""
        if self._code is None:
            try:
                self._code = self._next()["code"]
                self._socket.close()
            except BlockingIOError:
                pass
        return self._code

    def _next(self) -> dict[str, int]:
        while b"\n" not in self._said:
            more = self._socket.recv(1 << 12)
            assert more, f"the server has ended: see {PLACE}/log"
            self._said += more
        line, _, self._said = self._said.partition(b"\n")
        return json.loads(line)
