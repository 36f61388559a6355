"""How many encoded messages a second pass through the party programs, with a null learner.

    python -m benchmarks.messages                    two parties and five
    python -m benchmarks.messages --against REV      the same beside another commit, in turns

With `--against` two processes are told by turns to do the same job, one with the code of here and
one with that of the other commit, so that a noisy neighbour slows both. Medians are compared, by
the clock on the wall and by the processor time that each process used.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console

from benchmarks.figures import Figures
from colonnade import Compute, Costs, Job, Link, Network, Party, Train, simulate_clock

ROOT = Path(__file__).parents[1]
ROUNDS, TURNS, PAIRS = 4_000, 4, 12
PASSIVES = (1, 4)


@dataclass(frozen=True)
class Rate:
    """Messages per second of one run."""

    wall: float
    processor: float


def rate(passives: int, rounds: int) -> Rate:
    """Run a job once and count what the active party sent and received."""
    names = ["active", *(f"p{i}" for i in range(passives))]
    job = Job(
        parties={name: Party(role="active" if name == "active" else "passive") for name in names},
        train=Train(rounds=rounds, batch_size=32),
        network=Network(link=Link(latency="5ms", bandwidth="1gbit")),
        compute=Compute(costs=Costs(forward="10ms", backward="20ms", aggregate="10ms")),
    )
    wall, processor = time.perf_counter(), time.process_time()
    run = simulate_clock(job, rows=32_000, widths=dict.fromkeys(names, 16))
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    messages = sum(entry["messages"] for entry in run.parties["active"].ledger)
    return Rate(messages / wall, messages / processor)


def best_rate(passives: int, rounds: int = ROUNDS, turns: int = TURNS) -> float:
    """The best of several runs, by the clock on the wall."""
    return max(rate(passives, rounds).wall for _ in range(turns))


class Worker:
    """A process that measures with the code of one source folder, whenever it is asked."""

    def __init__(self, source: Path, rounds: int) -> None:
        command = [sys.executable, "-m", "benchmarks.messages", "--serve", str(rounds)]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def measure(self, passives: int) -> Rate:
        """One run in that process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{passives}\n")
        self._process.stdin.flush()
        wall, processor = self._process.stdout.readline().split()
        return Rate(float(wall), float(processor))


def serve(rounds: int) -> None:
    """The other end of a `Worker`: a number of passive parties on each line, a rate in answer."""
    for line in sys.stdin:
        found = rate(int(line), rounds)
        print(found.wall, found.processor, flush=True)


def against(revision: str, rounds: int, pairs: int) -> Figures:
    """Both codes by turns; each goes first in every other pair."""
    figures = Figures(f"Messages per second against {revision}, {pairs} pairs of runs")
    with tempfile.TemporaryDirectory(prefix="colonnade-bench-") as folder:
        archive = ["git", "-C", str(ROOT), "archive", revision, "src"]
        code = subprocess.run(archive, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=code, check=True)
        sources = Path(folder) / "src", ROOT / "src"
        with Worker(sources[0], rounds) as before, Worker(sources[1], rounds) as now:
            for passives in PASSIVES:
                _compare(figures, passives, before, now, pairs)
    return figures


def _compare(figures: Figures, passives: int, before: Worker, now: Worker, pairs: int) -> None:
    found: dict[Worker, list[Rate]] = {before: [], now: []}
    for pair in range(pairs + 1):
        for worker in (before, now) if pair % 2 else (now, before):
            measured = worker.measure(passives)
            if pair:
                found[worker].append(measured)
    for clock in ("wall", "processor"):
        old, new = (median(getattr(rate, clock) for rate in found[w]) for w in (before, now))
        what = f"{passives + 1} parties, by {clock} time: {old:,.0f} before, {new:,.0f} now"
        figures.add(what, new / old, f"{new / old:.2f}×")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", metavar="REV", help="another commit to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    if asked.serve:
        serve(asked.serve)
        return
    if asked.against:
        figures = against(asked.against, asked.rounds, asked.pairs)
    else:
        figures = Figures("Messages per second, null learner")
        for passives in PASSIVES:
            found = best_rate(passives, asked.rounds)
            figures.add(f"{passives + 1} parties", found, f"{found:,.0f}", least=40_000)
    figures.show(Console())


if __name__ == "__main__":
    main()
