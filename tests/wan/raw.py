"""A plain TCP sender and receiver: `python -m tests.wan.raw receive|send …`."""

from __future__ import annotations

import socket
import sys
import time

CHUNK_BYTES = 1 << 18
GO = b"!"


def receive(address: str) -> None:
    """Print the port, take one connection, print the bytes and the seconds they took to come.

    The clock starts when the sender is told to, so no byte of the measurement is on its way yet.
    """
    with socket.create_server((address, 0)) as server:
        print(server.getsockname()[1], flush=True)
        connection = server.accept()[0]
        with connection:
            left = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
            while left:
                left -= len(_some(connection, left))
            start, total = time.monotonic(), 0
            connection.sendall(GO)
            while data := connection.recv(CHUNK_BYTES):
                total += len(data)
            seconds = time.monotonic() - start
    print(total, seconds, flush=True)


def send(address: str, port: int, count: int, skip: int) -> None:
    """Send `skip` bytes, wait until they have arrived, then send the `count` that are measured."""
    with socket.create_connection((address, port), timeout=60) as connection:
        connection.sendall(skip.to_bytes(8, "big"))
        _send_zeros(connection, skip)
        assert _some(connection, 1) == GO
        _send_zeros(connection, count)


def _send_zeros(connection: socket.socket, count: int) -> None:
    chunk = bytes(CHUNK_BYTES)
    while count:
        connection.sendall(chunk[: min(count, CHUNK_BYTES)])
        count -= min(count, CHUNK_BYTES)


def _some(connection: socket.socket, most: int) -> bytes:
    data = connection.recv(min(most, CHUNK_BYTES))
    assert data, "the other side hung up"
    return data


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(sys.argv[2])
    else:
        send(sys.argv[2], *map(int, sys.argv[3:]))
