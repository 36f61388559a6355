"""The relay, a process of its own: `python -m tests.wan.relay FD`.

It makes the namespaces, carries packets between their TUN devices, obeys JSON lines on the
control socket, and removes the namespaces when that socket closes, for whatever reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import socket
import sys
import time
from dataclasses import asdict
from typing import Any

from tests.wan import spaces
from tests.wan.link import FOR_EVER_NS, NS_PER_SECOND, Link, Shape

SUBNET = "10.203.0"
READ_AT_ONCE = 64
"""Packets read from one device before the others have their turn."""
TURN_NS, TURNS_SAVED = 250_000, 8
"""A relay that turns for every packet does twice the work. So a busy one turns every so often and
its packets are at most this much late; one with less to do takes up to 8 turns at once."""
PR_SET_TIMERSLACK = 29


class Relay:
    """Namespaces in a star: the first host is the hub, every other has a line to it."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.mtu: int = config["mtu"]
        self.lines: dict[str, tuple[Link, Link]] = {}
        self.routes: dict[int, dict[bytes, tuple[Link, int]]] = {}
        """By device and destination address: the link to take and the device it ends in."""
        hub, *others = config["hosts"]
        hub_tun = self._host(hub, 1)
        for number, name in enumerate(others, start=2):
            tun, shape = self._host(name, number), Shape(**config["shapes"][name])
            seed = config["seed"] + 2 * number
            there, back = Link(shape, seed), Link(shape, seed + 1)
            self.lines[name] = (there, back)
            self.routes[hub_tun][address(number)] = (there, tun)
            self.routes[tun][address(1)] = (back, hub_tun)
        self.ends = [end for routes in self.routes.values() for end in routes.values()]

    def _host(self, name: str, number: int) -> int:
        space = spaces.namespace(os.getpid(), name)
        tun = spaces.make(space, f"{SUBNET}.{number}/24", self.mtu)
        self.routes[tun] = {}
        return tun

    def carry(self, control: socket.socket) -> None:
        """Move packets until the control socket closes."""
        orders, next_turn = b"", 0
        files = [*self.routes, control.fileno()]
        while True:
            due = self._deliver()
            wait = None if due == FOR_EVER_NS else max(0, due - time.monotonic_ns())
            ready = select.select(files, [], [], wait and wait / NS_PER_SECOND)[0]
            for file in ready:
                if file in self.routes:
                    self._take(file)
                    continue
                received = control.recv(65536)
                if not received:
                    return
                *lines, orders = (orders + received).split(b"\n")
                for line in lines:
                    control.sendall(json.dumps(self.obey(json.loads(line))).encode() + b"\n")
            now = time.monotonic_ns()
            next_turn = max(next_turn, now - TURNS_SAVED * TURN_NS) + TURN_NS
            if next_turn > now:
                time.sleep((next_turn - now) / NS_PER_SECOND)

    def _take(self, tun: int) -> None:
        """Read what a device has and put it on its links; what has no route is dropped."""
        routes, mtu, read = self.routes[tun], self.mtu, os.read
        now = time.monotonic_ns()
        with contextlib.suppress(BlockingIOError):
            for _ in range(READ_AT_ONCE):
                packet = read(tun, mtu)
                route = routes.get(packet[16:20])
                if route:
                    route[0].offer(now, packet)

    def _deliver(self) -> int:
        """Write out what is due; returns when to come again."""
        now, write, due = time.monotonic_ns(), os.write, FOR_EVER_NS
        for link, tun in self.ends:
            for packet in link.arrived(now):
                write(tun, packet)
            due = min(due, link.next_due())
        return due

    def obey(self, order: dict[str, Any]) -> Any:
        """Do what one line of the control socket says; returns the answer."""
        match order["do"]:
            case "set":
                for link in self.lines[order["host"]]:
                    link.shape = Shape(**order["shape"])
            case "cut":
                for link in self.lines[order["host"]]:
                    link.cut()
            case "partition":
                end = time.monotonic_ns() + int(order["seconds"] * NS_PER_SECOND)
                for link in self.lines[order["host"]]:
                    link.cut(end)
            case "heal":
                for link in self.lines[order["host"]]:
                    link.heal()
            case "counts":
                return [asdict(link.counts) for link in self.lines[order["host"]]]
            case "cpu":
                return time.process_time()
            case other:
                raise ValueError(f"the relay has no order '{other}'")
        return {}


def address(number: int) -> bytes:
    """The address of a host as it stands in a packet."""
    return socket.inet_aton(f"{SUBNET}.{number}")


def _be_punctual() -> None:
    """Wake when asked to, also on a busy machine: a real line does not wait for a processor."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    # Nothing here makes cycles, and a collection walks every packet under way.
    gc.disable()


def main() -> None:
    """Serve the control socket that is open as the given file."""
    control = socket.socket(fileno=int(sys.argv[1]))
    with control, control.makefile("rb") as lines:
        config = json.loads(lines.readline())
        try:
            relay = Relay(config)
            _be_punctual()
            control.sendall(b'"ready"\n')
            relay.carry(control)
        finally:
            for host in config["hosts"]:
                spaces.remove(spaces.namespace(os.getpid(), host))


if __name__ == "__main__":
    main()
