"""The server of `tests/warm.py`: it loads the libraries, and forks for whoever asks.

A process that was asked for returns from `serve`. The server itself ends when nobody is connected
any more.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
import threading
import types
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOADED = (
    "torch._dynamo",
    "torch.distributed.run",
    "pyarrow.parquet",
    "pyarrow.dataset",
    "safetensors.torch",
    "sklearn.datasets",
    "sklearn.metrics",
    "colonnade.cli.reporter",
    "colonnade.cli.dry_run",
    "colonnade.run.align",
    "colonnade.run.compare",
    "colonnade.run.join",
    "colonnade.run.launch",
    "colonnade.run.predict",
    "colonnade.run.simulate",
    "colonnade.run.workers",
)
HIGH = 200
"""Beyond all file descriptors that anybody asks for."""


@dataclass
class Client:
    """Somebody who is connected: a stand-in, a test, or a worker that wants the server to last."""

    socket: socket.socket
    said: bytes = b""
    files: list[int] = field(default_factory=list)
    pid: int = 0
    note: Path | None = None

    def hear(self) -> list[dict[str, Any]] | None:
        """What it has said; None when it is gone."""
        try:
            data, files, _, _ = socket.recv_fds(self.socket, 1 << 16, 64)
        except ConnectionResetError:
            # Killed before it had read what it was told.
            return None
        self.files += files
        if not data:
            return None
        *lines, self.said = (self.said + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def tell(self, **what: int) -> None:
        # Who is gone will be noticed when it is read from.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(json.dumps(what).encode() + b"\n")


@dataclass
class Server:
    """All who are connected."""

    listening: socket.socket
    place: Path
    clients: dict[int, Client] = field(default_factory=dict)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def serve(self) -> tuple[dict[str, Any], list[int]] | None:
        """In a new process, what was asked for; None when nobody is left."""
        woken, wakes = socket.socketpair()
        wakes.setblocking(False)
        signal.set_wakeup_fd(wakes.fileno())
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.selector.register(self.listening, selectors.EVENT_READ)
        self.selector.register(woken, selectors.EVENT_READ)
        began = False
        while self.clients or not began:
            for key, _ in self.selector.select():
                if key.fileobj is self.listening:
                    began = True
                    self.accept()
                elif key.fileobj is woken:
                    woken.recv(1 << 12)
                    self.reap()
                elif (asked := self.hear(key.fd)) is not None:
                    woken.close()
                    wakes.close()
                    return asked
        return None

    def accept(self) -> None:
        client = Client(self.listening.accept()[0])
        self.clients[client.socket.fileno()] = client
        self.selector.register(client.socket, selectors.EVENT_READ)

    def reap(self) -> None:
        running = {client.pid: client for client in self.clients.values() if client.pid}
        for pid, client in running.items():
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                client.pid = 0
                client.tell(code=os.waitstatus_to_exitcode(status))

    def hear(self, number: int) -> tuple[dict[str, Any], list[int]] | None:
        """Do what a client says; what was asked for, in the process that was."""
        client = self.clients[number]
        said = client.hear()
        for asked in said or ():
            if "signal" in asked and client.pid:
                os.kill(client.pid, asked["signal"])
            elif "words" in asked:
                files, client.files = client.files, []
                if (pid := os.fork()) == 0:
                    self.leave()
                    return asked, files
                client.pid = pid
                client.note = self.place / str(asked.get("for", pid))
                self.note(client.note, pid)
                client.tell(pid=pid)
                for file in files:
                    os.close(file)
        if said is None:
            self.selector.unregister(client.socket)
            del self.clients[number]
            client.socket.close()
            if client.note is not None:
                client.note.unlink(missing_ok=True)
            if client.pid:
                os.kill(client.pid, signal.SIGKILL)
                os.waitpid(client.pid, 0)
        return None

    def note(self, place: Path, pid: int) -> None:
        """Let be read which process another one stands for."""
        begun = self.place / ".begun"
        begun.write_text(str(pid))
        begun.rename(place)

    def leave(self) -> None:
        """In a new process: nothing of the server is its own."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        self.selector.close()
        self.listening.close()
        for client in self.clients.values():
            client.socket.close()


def become(asked: dict[str, Any], files: list[int]) -> None:
    """Go on as the interpreter does that is given these words."""
    high = [_above(file) for file in files]
    for file, number in zip(high, asked["fds"], strict=True):
        os.dup2(file, number)
        os.close(file)
    _enter_network(asked.get("for", os.getpid()))
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    more = asked["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [folder for folder in more if folder and folder not in sys.path]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    words, safe = asked["words"], False
    while words[0] in ("-B", "-P", "-W", "-u"):
        option = words.pop(0)
        safe = safe or option == "-P"
        if option == "-W":
            warnings.simplefilter(words.pop(0))
    first, *rest = words
    assert first in ("-m", "-c") or not first.startswith("-"), first
    if first == "-m":
        sys.argv = ["-m", *rest[1:]]
        sys.path[:0] = [] if safe else [str(Path.cwd())]
        runpy._run_module_as_main(rest[0])
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[:0] = [] if safe else [""]
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = [first, *rest]
        sys.path[:0] = [] if safe else [str(Path(first).resolve().parent)]
        runpy.run_path(first, run_name="__main__")


def _enter_network(pid: int) -> None:
    """Be in the network namespace of whoever stands for this process."""
    theirs, own = (Path(f"/proc/{each}/ns/net") for each in (pid, "self"))
    if theirs.exists() and theirs.readlink() != own.readlink():
        with theirs.open() as file:
            found = ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0)
        assert found == 0, os.strerror(ctypes.get_errno())


def _above(file: int) -> int:
    high = fcntl.fcntl(file, fcntl.F_DUPFD, HIGH)
    os.close(file)
    return high


def serve(number: int, stand_in: Path) -> None:
    # Nobody's child: it outlives the worker that has started it.
    if os.fork():
        os._exit(0)
    # What the processes start begins with the libraries too.
    sys.executable = str(stand_in)
    for name in LOADED:
        importlib.import_module(name)
    # What the command line loads only when it is given something to do.
    for words in (["methods"], ["simulate", "nothing", "--seed", "1"]):
        importlib.import_module("colonnade.cli").main(words)
    gc.collect()
    gc.freeze()
    # The folder of this module is none of theirs.
    sys.path.pop(0)
    asked = Server(socket.socket(fileno=number), stand_in.parent).serve()
    if asked is None:
        shutil.rmtree(stand_in.parent)
        return
    try:
        become(*asked)
    except SystemExit as end:
        leave(end.code)
    leave(None)


def leave(code: Any) -> None:
    """End as an interpreter does, but for taking down thousands of modules one by one."""
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
