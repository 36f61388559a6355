"""A relay between two ends of TCP connections, which can cut them and stop the traffic."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

RESET = struct.pack("ii", 1, 0)
"""A socket that lingers for no time says RST when it is closed."""


class Relay:
    """Passes on what comes to its port; used with `with`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = []
        self.connections = 0

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self.reset()
        self._open.set()

    def cut(self) -> None:
        """Let nothing through; connections stay, and new ones are taken and hear nothing."""
        self._open.clear()

    def heal(self) -> None:
        """Let everything through again, also what has waited."""
        self._open.set()

    def reset(self) -> None:
        """Break all connections."""
        sockets, self._sockets = self._sockets, []
        for end in sockets:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                # A thread that reads keeps a socket open beyond its close.
                end.shutdown(socket.SHUT_RD)
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._sockets.append(near)
        self._open.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        self._sockets.append(far)
        for ends in ((near, far), (far, near)):
            threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                sink.sendall(data)
        self._open.wait()
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
