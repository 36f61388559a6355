"""The network over long lines (`make bench-wan`; root): namespaces joined by `tests/wan`'s relay.

    python -m benchmarks.wan                    line and overlap, a few minutes
    python -m benchmarks.wan --line             bytes per second against a raw TCP socket
    python -m benchmarks.wan --overlap          PASTA's seconds per round against the simulator's
    python -m benchmarks.wan --long             fullpipe at 200 ms one-way, beside the simulator
    python -m benchmarks.wan --speedup          time to an accuracy by method; most of an hour
    python -m benchmarks.wan --smoke            a few rounds of line and overlap, not judged

Everything is bounded in time, and nothing is left behind.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from benchmarks.figures import MISSED
from benchmarks.parties import PORT, alliance, end_with_cleanup, join_all, load_average
from benchmarks.wan_speedup import speedup
from colonnade import Compute, Costs, Job, Link, Network, Party, Train, simulate_clock
from colonnade.job.files import dumps
from tests.wan.net import Net, Side, congestion_control, raw_socket_throughput, wan
from tests.wan.spaces import why_not

LATENCY, RATE = "25ms", "300mbit"
BATCH, WIDTH, IN_FLIGHT = 4096, 256, 4
TENSOR_BYTES = BATCH * WIDTH * 4
TURNS = 3
COSTS = Costs(forward="10ms", backward="20ms", aggregate="10ms")
LONG_LATENCY, LONG_RATE = "200ms", "100mbit"
DEEP_BYTES = 16 << 20
"""For overlap: the simulator's line has a queue without an end, so this one holds every burst."""
MB = 1e6


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    warm: int
    """For the line: rounds not counted."""
    rounds: int
    """For the line: rounds counted."""
    sizes: tuple[tuple[int, int, int, int], ...]
    """For overlap: batch, width, rounds not counted, rounds counted."""
    judged: bool = True


WHOLE = Extent(20, 50, ((256, 64, 100, 400), (4096, 32, 40, 160), (4096, 256, 30, 70)))
SMOKE = Extent(1, 2, ((64, 8, 2, 6),), judged=False)


def job_of(
    batch: int, rounds: int, rate: str = RATE, latency: str = LATENCY, **fields: object
) -> Job:
    return Job(
        name="wan",
        parties={"bank": Party(role="active"), "telco": Party()},
        train=Train(rounds=rounds, batch_size=batch, evaluate_every="never"),
        network=Network(link=Link(latency=latency, bandwidth=rate)),
        **fields,
    )


class Line:
    """A WAN of two hosts, and a folder with the certificates of both parties."""

    def __init__(self, net: Net, folder: Path, path: str) -> None:
        self.net, self._path = net, path
        self.last = folder
        """Where the parties of the last run have left what they say of it."""
        self._folder = folder
        self._keys = alliance(folder / "alliance", ["bank", "telco"])
        self._runs = 0

    def run(self, program: str, job: Job, width: int, window: int = 0) -> list[float]:
        """When each round was aggregated, in seconds."""
        self._runs += 1
        out = self._folder / f"run-{self._runs}"
        out.mkdir()
        (out / "job.toml").write_text(dumps(job))
        join_all(
            out / "job.toml",
            job,
            self._keys,
            out,
            program=("benchmarks.wan_party", program),
            options=["--width", str(width), "--window", str(window)],
            starters={name: self.net.host(name).popen for name in job.parties},
            host=self.net.hub.address,
            port=PORT,
        )
        self.last = out
        times: list[float] = json.loads((out / "bank" / "rounds.json").read_text())
        return times

    def described(self) -> str:
        return (
            f"{self._path}, packets of {self.net.mtu} bytes, "
            f"{congestion_control(self.net)}, {load_average()}"
        )


def line_rate(line: Line, turns: int, extent: Extent) -> Table:
    """Bytes per second of embeddings, with replies as large going the other way."""
    table = Table(title=f"Line rate: {BATCH}×{WIDTH} float32, {IN_FLIGHT} exchanges in flight")
    for column in ("turn", "raw socket, one way", "ours, each way", "ours ÷ raw", "bound"):
        table.add_column(column, justify="right")
    count = extent.rounds * TENSOR_BYTES
    ratios = []
    job = job_of(BATCH, extent.warm + extent.rounds)
    for turn in range(turns):
        raw = _raw(line, extent)
        times = line.run("line", job, WIDTH, IN_FLIGHT)
        ours = count / (times[-1] - times[extent.warm - 1])
        ratios.append(ours / raw)
        table.add_row(
            str(turn + 1), f"{raw / MB:.1f} MB/s", f"{ours / MB:.1f} MB/s", f"{ours / raw:.0%}", ""
        )
    missed = extent.judged and median(ratios) < 0.9
    table.add_row("median", "", "", f"{median(ratios):.0%}", "≥ 90 %" + f" {MISSED}" * missed)
    table.caption = line.described()
    return table


def _raw(line: Line, extent: Extent) -> float:
    count, skip = extent.rounds * TENSOR_BYTES, extent.warm * TENSOR_BYTES
    return raw_socket_throughput(line.net, "telco", count, skip=skip)


def overlap(line: Line, turns: int, extent: Extent) -> Table:
    """PASTA's seconds per round, work being sleeps of the same length as the simulator charges.

    The simulator counts payload only, so its line has the rate of a raw socket on this one.
    """
    raw_mbit = _raw(line, extent) * 8 / MB
    table = Table(title="Overlap: PASTA (b_max = 3, s_max = 4), work emulated as sleeps")
    for column in ("tensor", "simulator", "network", "network ÷ simulator", "bound"):
        table.add_column(column, justify="right")
    for batch, width, warm, counted in extent.sizes:
        job = job_of(
            batch,
            warm + counted,
            f"{raw_mbit:.0f}mbit",
            method={"name": "pasta"},
            compute=Compute(costs=COSTS),
        )
        run = simulate_clock(job, batch * (warm + counted), dict.fromkeys(job.parties, width))
        expected = _per_round([row["time_s"] for row in run.losses], warm)
        found = [_per_round(line.run("clock", job, width), warm) for _ in range(turns)]
        missed = extent.judged and not 0.85 <= median(found) / expected <= 1.15
        table.add_row(
            f"{batch}×{width}",
            f"{expected * 1e3:.1f} ms",
            ", ".join(f"{each * 1e3:.1f}" for each in found) + " ms",
            f"{median(found) / expected:.2f}",
            "0.85–1.15" + f" {MISSED}" * missed,
        )
    table.caption = f"a raw socket moves {raw_mbit:.0f} Mbit; {line.described()}"
    return table


def long_path(line: Line, extent: Extent) -> Table:
    """Full pipe on a long way: how many in flight, how fast, how idle, beside the simulator."""
    table = Table(title="A long way: fullpipe, work emulated as sleeps")
    for column in ("tensor", "", "in flight", "rounds a second", "passive party idle"):
        table.add_column(column, justify="right")
    batch, width = 256, 64
    rounds = 8 if not extent.judged else 400
    job = job_of(
        batch,
        rounds,
        LONG_RATE,
        LONG_LATENCY,
        method={"name": "fullpipe", "share": 1.0},
        compute=Compute(costs=COSTS),
    )
    run = simulate_clock(job, batch * rounds, dict.fromkeys(job.parties, width))
    summary = run.summary()
    expected = _per_round([row["time_s"] for row in run.losses], rounds // 2)
    times = line.run("clock", job, width)
    facts = json.loads((line.last / "telco" / "facts.json").read_text())
    found = {
        "simulator": (summary["max_in_flight"]["telco"], expected,
                      summary["idle_s"]["telco"], summary["busy_s"]["telco"]),
        "network": (facts["in_flight_max"], _per_round(times, rounds // 2),
                    facts["idle_s"], facts["busy_s"]),
    }  # fmt: skip
    for where, (most, round_s, idle_s, busy_s) in found.items():
        share = idle_s / (idle_s + busy_s)
        row = f"{batch}×{width}", where, str(most), f"{1 / round_s:.1f}", f"{share:.0%}"
        table.add_row(*row)
    table.caption = f"the second half of {rounds} rounds; {line.described()}"
    return table


def _per_round(times: Sequence[float], warm: int) -> float:
    return (times[-1] - times[warm - 1]) / (len(times) - warm)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of --speedup")
    for part in ("line", "overlap", "long", "speedup"):
        parser.add_argument(f"--{part}", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="once, a few rounds, not judged")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--out", type=Path, help="speed-up: where results are kept and found again")
    parser.add_argument("--methods", help="speed-up: only these, as in fedsgd,pasta")
    asked = parser.parse_args(words)
    extent, turns = (SMOKE, 1) if asked.smoke else (WHOLE, asked.turns)
    end_with_cleanup()
    if reason := why_not():
        raise SystemExit(f"no WAN can be made here: {reason}")
    console = Console(width=max(Console().width, 110))
    if asked.speedup:
        speedup(asked.out, asked.methods, asked.seed, console)
    both = not (asked.line or asked.overlap or asked.speedup or asked.long)
    if both or asked.line:
        with _line(asked.mtu) as line:
            console.print(line_rate(line, turns, extent))
    if both or asked.overlap:
        with _line(asked.mtu, queue=DEEP_BYTES) as line:
            console.print(overlap(line, turns, extent))

    if both or asked.long:
        with _line(asked.mtu, DEEP_BYTES, LONG_LATENCY, LONG_RATE) as line:
            console.print(long_path(line, extent))


@contextmanager
def _line(
    mtu: int, queue: int | None = None, latency: str = LATENCY, rate: str = RATE
) -> Iterator[Line]:
    sides = {"bank": Side(), "telco": Side(latency=latency, rate=rate, queue=queue)}
    with tempfile.TemporaryDirectory() as folder, wan(sides, mtu=mtu) as net:
        yield Line(net, Path(folder), f"{rate}, {latency} one-way")


if __name__ == "__main__":
    main()
