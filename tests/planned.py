"""Random networks and speeds for tests of plans, and the simulator's word on them."""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from typing import Any

import colonnade as cn
from colonnade import methods
from colonnade.job.records import Compute, Costs, Job, Link, Network, Party, Top, Train
from colonnade.methods.method import Method
from colonnade.planning.prediction import Prediction, time_of
from colonnade.planning.workload import Workload
from colonnade.policies.local import repeat
from colonnade.policies.view import View
from colonnade.policies.window import WindowPolicy

REGIMES = {
    "latency": ((2, 3.5), (8, 9.5)),
    "bandwidth": ((0, 1), (5.5, 6.5)),
    "compute": ((-1, 1), (8, 9.5)),
    "mixed": ((0, 3), (5.5, 8.5)),
}
"""Powers of ten: milliseconds of latency, bits a second."""


@dataclass(frozen=True)
class Scene:
    """A job with null learners."""

    job: Job
    rows: int
    widths: dict[str, int]

    def predicted(self) -> Prediction:
        workload = Workload.of(self.job, self.rows, self.widths)
        return time_of(methods.build(self.job.method), workload)

    def simulated(self) -> cn.Run:
        return cn.simulate_clock(self.job, self.rows, self.widths)


def scene(
    seed: int,
    table: dict[str, Any],
    regime: str,
    *,
    jitter: float = 0,
    epochs: int | None = None,
) -> Scene:
    """A job among two to five parties with uneven lines and speeds; `jitter` is a share of the
    latency."""
    draw = random.Random(f"{seed} {regime}")
    latency, bandwidth = REGIMES[regime]
    passives = [f"p{number}" for number in range(draw.choice([1, 1, 2, 3, 4]))]

    def some(powers: tuple[float, float]) -> str:
        return f"{max(1, int(1000 * 10 ** draw.uniform(*powers)))}us"

    lines = {}
    for name in passives:
        rate = int(10 ** draw.uniform(*bandwidth))
        late = some(latency)
        most = f"{int(int(late[:-2]) * jitter)}us"
        lines[name] = Link(latency=late, bandwidth=f"{rate}bit", jitter=most)
    costs = {
        name: Costs(
            forward=some((0, 2)),
            backward=some((0, 2)),
            aggregate=some((0, 2)),
            top=some((-1, 1)) if draw.random() < 0.5 else "0ms",
            codec=some((-2, 0)) if draw.random() < 0.3 else "0ms",
        )
        for name in ("a", *passives)
    }
    widths = {name: draw.choice([4, 16, 64, 128]) for name in ("a", *passives)}
    if draw.random() < 0.2:
        widths["a"] = 0
    shares = methods.build(table).exchange.sends_snapshots
    job = Job(
        parties={"a": Party(role="active")} | dict.fromkeys(passives, Party()),
        method=table,
        train=Train(
            epochs=epochs or draw.choice([2, 3, 5]),
            batch_size=draw.choice([16, 64]),
            labels="shared" if shares else "private",
        ),
        network=Network(overrides=lines),
        compute=Compute(overrides=costs),
        top=Top(kind="split", hidden=[16]),
        seed=seed,
    )
    return Scene(job, draw.choice([333, 700, 1000]), widths)


@dataclass(frozen=True)
class Full(WindowPolicy):
    """Always as many exchanges in flight as it may have."""

    most: int

    def may_send(self, view: View) -> bool:
        return view.in_flight < self.most


@dataclass(frozen=True)
class Eager(Full):
    """The same, and sends before it uses a reply."""

    def refill(self, view: View) -> int:
        return self.most - view.in_flight


@cn.extension("method")
def full(most: int = 4, eager: bool = False, updates: int = 2) -> Method:
    """A window that nobody steers."""
    return Method(window=(Eager if eager else Full)(most), local=repeat(updates))


def measure(texts: list[str], networks: int, jitter: float) -> None:
    """Print by how much plans miss the simulator, over so many networks of each regime."""
    print(f"{'method':36}{'median':>9}{'95 of 100':>11}{'worst':>9}  worst in")
    for text in texts:
        table = cn.load("digits", method=text).method
        found = []
        for regime in REGIMES:
            for seed in range(networks):
                each = scene(seed, table, regime, jitter=jitter)
                miss = each.predicted().total_ns / 1e9 / each.simulated().time_s - 1
                found.append((abs(miss), regime))
        found.sort()
        middle, most = found[len(found) // 2][0], found[int(len(found) * 0.95)][0]
        worst, where = found[-1]
        print(f"{text:36}{middle:>9.3%}{most:>11.3%}{worst:>9.3%}  {where}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=25, help="of each regime")
    parser.add_argument("--jitter", type=float, default=0, help="as a share of the latency")
    parser.add_argument("methods", nargs="*", default=None)
    given = parser.parse_args()
    measure(given.methods or list(methods.known()), given.networks, given.jitter)
