"""`wan(...)`: hosts in namespaces, joined by lines with latency, rate, queue and loss."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from colonnade.units import duration_ns, rate_bits
from tests.wan import relay, spaces
from tests.wan.link import NS_PER_SECOND, Counts, Shape
from tests.warm import INTERPRETER

ROOT = Path(__file__).parents[2]
QUEUE_PACKETS = 64
CONTROL_TIMEOUT_S = 30


@dataclass(frozen=True)
class Side:
    """A host and its line to the hub, the same in both directions."""

    latency: str = "0ms"
    """One way."""
    rate: str = "1gbit"
    queue: int | None = None
    """Bytes; one round trip at full rate when not said, and never less than 64 packets."""
    loss: float = 0.0
    jitter: str = "0ms"

    def shape(self, mtu: int) -> Shape:
        """The same in the relay's units."""
        latency, rate = duration_ns(self.latency), rate_bits(self.rate)
        round_trip = rate * 2 * latency // (8 * NS_PER_SECOND)
        queue = max(round_trip, QUEUE_PACKETS * mtu) if self.queue is None else self.queue
        return Shape(latency, rate, queue, self.loss, duration_ns(self.jitter))


@dataclass
class Host:
    """One host: a network of its own, the machine's files."""

    name: str
    namespace: str
    address: str
    started: list[subprocess.Popen[Any]] = field(default_factory=list)

    def popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a command in this host's network; it is killed when the WAN ends."""
        inside = ["ip", "netns", "exec", self.namespace, *command]
        self.started.append(subprocess.Popen(inside, **options))
        return self.started[-1]

    def run(self, command: Sequence[str], timeout: float = 60) -> str:
        """What a command prints that must succeed in this host's network."""
        inside = ["ip", "netns", "exec", self.namespace, *command]
        return subprocess.run(
            inside, stdout=subprocess.PIPE, text=True, timeout=timeout, check=True, cwd=ROOT
        ).stdout

    def end(self) -> None:
        """Kill what still runs of what was started here."""
        for process in self.started:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()


class Net:
    """A running WAN. The first host is the hub."""

    def __init__(self, sides: dict[str, Side], mtu: int, control: socket.socket, pid: int) -> None:
        self.mtu, self.relay_pid = mtu, pid
        self._sides, self._control = sides, control
        self._answers = control.makefile("rb")
        self.hosts = {
            name: Host(name, spaces.namespace(pid, name), f"{relay.SUBNET}.{number}")
            for number, name in enumerate(sides, start=1)
        }
        self.hub = next(iter(self.hosts.values()))

    def host(self, name: str) -> Host:
        """One host."""
        return self.hosts[name]

    def set(self, host: str, **changes: Any) -> None:
        """Change a line: any field of `Side`. What is under way keeps its times."""
        self._sides[host] = replace(self._sides[host], **changes)
        self._order(do="set", host=host, shape=asdict(self._sides[host].shape(self.mtu)))

    def cut(self, host: str) -> None:
        """Lose all packets from and to a host, also those under way, until it is healed."""
        self._order(do="cut", host=host)

    def partition(self, host: str, seconds: float) -> None:
        """Cut a host off; the line heals by itself. Returns at once."""
        self._order(do="partition", host=host, seconds=seconds)

    def heal(self, host: str) -> None:
        """End a cut or a partition."""
        self._order(do="heal", host=host)

    def reset(self, host: str) -> int:
        """Break the TCP connections between a host and the hub; returns how many.

        The host's ends fail at once (ECONNABORTED), the hub's when the reset has travelled
        (ECONNRESET).
        """
        killed = self.host(host).run(["ss", "-KHtn", "dst", self.hub.address])
        return len(killed.splitlines())

    def counts(self, host: str) -> tuple[Counts, Counts]:
        """What became of the packets from the hub to a host, and of those from it to the hub."""
        there, back = self._order(do="counts", host=host)
        return Counts(**there), Counts(**back)

    def relay_cpu_seconds(self) -> float:
        """Processor time of the relay so far."""
        return float(self._order(do="cpu"))

    def answer(self) -> Any:
        """The relay's next answer."""
        line = self._answers.readline()
        assert line, "the relay has died; its last words are on stderr"
        return json.loads(line)

    def _order(self, **order: Any) -> Any:
        self._control.sendall(json.dumps(order).encode() + b"\n")
        return self.answer()

    def end(self) -> None:
        """Kill the hosts' processes and close the control socket, at which the relay cleans up."""
        for host in self.hosts.values():
            host.end()
        self._answers.close()
        self._control.close()


@contextmanager
def wan(sides: dict[str, Side], mtu: int = 1500, seed: int = 0) -> Iterator[Net]:
    """A star of hosts: the first is the hub, each other has its own line to it."""
    hub, *others = sides
    assert sides[hub] == Side(), "the hub has no line of its own: describe the others'"
    assert others, "a WAN has at least two hosts"
    spaces.sweep()
    ours, its = socket.socketpair()
    ours.settimeout(CONTROL_TIMEOUT_S)
    with its:
        process = subprocess.Popen(
            [INTERPRETER, "-m", "tests.wan.relay", str(its.fileno())],
            cwd=ROOT,
            pass_fds=[its.fileno()],
            start_new_session=True,
        )
    net = Net(dict(sides), mtu, ours, process.pid)
    try:
        shapes = {name: asdict(sides[name].shape(mtu)) for name in others}
        config = {"hosts": list(sides), "shapes": shapes, "mtu": mtu, "seed": seed}
        ours.sendall(json.dumps(config).encode() + b"\n")
        net.answer()
        yield net
    finally:
        net.end()
        try:
            process.wait(CONTROL_TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
            spaces.sweep()


def congestion_control(net: Net) -> str:
    """The TCP congestion control in use on the hosts; state it beside every measurement."""
    names = {
        host.run(["cat", "/proc/sys/net/ipv4/tcp_congestion_control"]).strip()
        for host in net.hosts.values()
    }
    assert len(names) == 1, f"the hosts differ in congestion control: {names}"
    return names.pop()


def raw_socket_throughput(
    net: Net, host: str, count: int, *, to_hub: bool = True, skip: int = 0
) -> float:
    """Bytes per second of one plain TCP connection between a host and the hub.

    `skip` bytes go first, in which TCP finds its pace; the clock runs from when the receiver has
    them and asks for the rest until it has the `count` bytes of that, one round trip included.
    """
    ends = (net.host(host), net.hub)
    sender, receiver = ends if to_hub else ends[::-1]
    python = [INTERPRETER, "-m", "tests.wan.raw"]
    taking = receiver.popen(
        [*python, "receive", receiver.address], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert taking.stdout
    port = taking.stdout.readline().strip()
    sender.run([*python, "send", receiver.address, port, str(count), str(skip)], timeout=600)
    counted, seconds = taking.stdout.readline().split()
    return int(counted) / float(seconds)
