"""Processes that do not outlive whoever started them."""

from __future__ import annotations

import multiprocessing
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from typing import NamedTuple

_READ_BYTES = 1 << 16


def end_with_parent() -> None:
    """To be called in a worker: end it as soon as its parent process has ended.

    A parent that is killed cannot tell its workers; without this they wait for work for ever.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None, "this process is no worker"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def end_with_input() -> None:
    """To be called in a process of `Children`: end it as soon as whoever started it has ended.

    Its standard input is a pipe whose other end only that process holds, and writes nothing to.
    """

    def watch() -> None:
        while os.read(sys.stdin.fileno(), _READ_BYTES):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="end-with-input", daemon=True).start()


def free_port() -> int:
    """A port of this computer that nobody uses; for a minute nobody is given it by chance.

    >>> 1024 <= free_port() < 65536
    True
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        # A connection that this end closes first leaves the port in TIME_WAIT: the system gives it
        # to nobody who asks for any port, and whoever asks for this one gets it.
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()
    return port


class Said(NamedTuple):
    """A line that a process has written."""

    name: str
    text: str
    is_error: bool
    """Whether to standard error."""


class Children:
    """Processes on this computer, by name. Leaving the `with` ends those that still run.

    Each has a process group of its own, so that Ctrl-C in a terminal does not reach it, and ends
    with this process if it calls `end_with_input`.
    """

    def __init__(self) -> None:
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._begun: dict[int, bytes] = {}
        """What was read of a line that is not whole yet, by file descriptor."""
        self._ended_s: dict[str, float] = {}
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
        for process in self._processes.values():
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream is not None
                stream.close()
        self._selector.close()

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a process."""
        process = self._processes[name] = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            is_error = stream is process.stderr
            self._selector.register(stream.fileno(), selectors.EVENT_READ, (name, is_error))

    def listen(self, most_s: float) -> list[Said]:
        """What was said; waits for at most so long until somebody speaks or ends."""
        said: list[Said] = []
        for key, _ in self._selector.select(most_s):
            said += self._read(key)
        for name, process in self._processes.items():
            if name not in self._ended_s and process.poll() is not None:
                self._ended_s[name] = time.monotonic()
                for key in list(self._selector.get_map().values()):
                    if key.data[0] == name:
                        said += self._read(key, whole=True)
        return said

    def _read(self, key: selectors.SelectorKey, whole: bool = False) -> list[Said]:
        """The lines that have come; `whole`: all that will ever come, whoever holds the pipe."""
        text, ended = self._begun.pop(key.fd, b""), whole
        try:
            while data := os.read(key.fd, _READ_BYTES):
                text += data
            ended = True
        except BlockingIOError:
            pass
        if ended:
            self._selector.unregister(key.fd)
        lines = text.split(b"\n")
        if not ended:
            self._begun[key.fd] = lines.pop()
        texts = [line.decode(errors="replace").rstrip() for line in lines]
        return [Said(key.data[0], line, key.data[1]) for line in texts if line]

    @property
    def running(self) -> list[str]:
        """Those that have not ended, as far as `listen` has heard."""
        return [name for name in self._processes if name not in self._ended_s]

    def code(self, name: str) -> int:
        """The exit code of one that has ended; -9 if by signal 9."""
        code = self._processes[name].returncode
        assert code is not None
        return code

    def ended_for_s(self, name: str) -> float:
        """How many seconds ago one ended; 0 while it runs."""
        ended_s = self._ended_s.get(name)
        return 0.0 if ended_s is None else time.monotonic() - ended_s

    def interrupt(self, name: str) -> None:
        """As Ctrl-C does."""
        if self._processes[name].poll() is None:
            self._processes[name].send_signal(signal.SIGINT)

    def end(self) -> None:
        """End all that run, at once."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
