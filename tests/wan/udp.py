"""A UDP echo and its client: `python -m tests.wan.udp echo|ping …`."""

from __future__ import annotations

import json
import socket
import sys
import time

BUFFER_BYTES = 4 << 20


def echo(address: str) -> None:
    """Print the port and send every datagram back, for ever."""
    with _socket() as here:
        here.bind((address, 0))
        print(here.getsockname()[1], flush=True)
        while True:
            data, sender = here.recvfrom(2048)
            here.sendto(data, sender)


def ping(address: str, port: int, count: int, gap_s: float, patience_s: float) -> None:
    """Send `count` numbered datagrams; print the round trip times of those that came back."""
    sent: list[float] = []
    times: dict[int, float] = {}
    with _socket() as here:
        here.connect((address, port))
        end = start = time.monotonic()
        while time.monotonic() < end + patience_s and len(times) < count:
            now = time.monotonic()
            if len(sent) < count and now >= start + len(sent) * gap_s:
                here.send(len(sent).to_bytes(4, "big"))
                sent.append(now)
                end = now
            here.settimeout(max(1e-4, min(gap_s, 0.01)))
            try:
                number = int.from_bytes(here.recv(2048), "big")
            except TimeoutError:
                continue
            times[number] = time.monotonic() - sent[number]
    print(json.dumps(list(times.values())))


def _socket() -> socket.socket:
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    return here


if __name__ == "__main__":
    if sys.argv[1] == "echo":
        echo(sys.argv[2])
    else:
        ping(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *map(float, sys.argv[5:]))
