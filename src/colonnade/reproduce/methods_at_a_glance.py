"""All methods on one job, at four latencies: what each costs to the same target.

A unit is 10 ms: forward 10 units, backward 20, aggregate 10, latencies of 5, 50, 100 and 1000
units one-way, at 300 Mbit. The job is `fmnist` with its MLPs, or `digits` where there is no
Fashion-MNIST. Labels are shared, so that the snapshot methods can take part. One rate for all,
low enough for five updates on an exchange: nothing is tuned for a method, and FedSGD alone would
bear a higher one. A method whose weights do not depend on the clock is trained at one latency and
clocked again at the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from colonnade.data.named import load as load_data
from colonnade.errors import DataError
from colonnade.job.files import load
from colonnade.job.records import Job, first_step
from colonnade.methods import build
from colonnade.reproduce import Reproduction, Say, slow_network
from colonnade.run.compare import Comparison
from colonnade.run.pool import Task, Trial, train_families
from colonnade.units import show_bytes, show_seconds

UNIT_MS = 10
LATENCIES = (5, 50, 100, 1000)
SEEDS = (0, 1, 2)
RATES = {
    # The job's own rate, with momentum, is too high for several updates on one exchange.
    "fmnist": (
        "parties.*.optimizer={ name = 'sgd', lr = 0.05 }",
        "train.target=0.83",
        "train.epochs=30",
    ),
}
METHODS: dict[str, dict[str, Any]] = {
    "FedSGD": {"name": "fedsgd"},
    "FedBCD, Q=5": {"name": "fedbcd", "updates": 5},
    "C-VFL, Q=5, scalar:4": {"name": "cvfl", "q": 5, "compressor": "scalar:4"},
    "Flex-VFL, 5 updates' time": {"name": "flexvfl", "timeout": f"{5 * 30 * UNIT_MS}ms"},
    "Sync-Min, 5 updates' time": {"name": "sync_min", "timeout": f"{5 * 30 * UNIT_MS}ms"},
    "Sync-Max, 5 updates' time": {"name": "sync_max", "timeout": f"{5 * 30 * UNIT_MS}ms"},
    "P-BCD": {"name": "pbcd"},
    "VAFL": {"name": "vafl"},
    "FlexVFL-s": {"name": "flexvfl_s"},
    "CELU, W=5, R=5": {"name": "celu", "w": 5, "r": 5},
    "PASTA, B=3, s=4": {"name": "pasta", "b_max": 3, "s_max": 4},
}


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """Final accuracy, time, rounds and bytes to target, local updates and idle time of every
    method. The quick form takes one seed, two latencies and the job `digits`."""
    chosen = seeds or list(SEEDS[:1] if quick else SEEDS)
    name = "digits" if quick or not _has_fmnist() else "fmnist"
    latencies = (5, 1000) if quick else LATENCIES
    say(f"{name}: {len(METHODS)} methods at {len(latencies)} latencies, {len(chosen)} seeds")
    comparisons = _train(name, latencies, chosen, say)
    rows: list[list[str]] = []
    for latency, comparison in comparisons.items():
        if out is not None:
            comparison.save(out / f"latency-{latency}")
        for label, trials in comparison.methods().items():
            rows.append([str(latency), label, *_figures(trials)])
    figures = {str(latency): comparison.to_dict() for latency, comparison in comparisons.items()}
    return Reproduction(
        title=f"Methods at a glance: {name}, a unit is {UNIT_MS} ms",
        columns=["L", "method", "accuracy", "time", "rounds", "bytes", "local/fresh", "idle"],
        rows=rows,
        notes=[
            f"time, rounds and bytes to the target, mean over seeds {', '.join(map(str, chosen))}; "
            "(k/n): so many seeds reached it",
            "idle: share of the time that passive parties waited",
        ],
        data={"latencies": figures},
    )


def _train(
    name: str, latencies: Sequence[int], seeds: Sequence[int], say: Say
) -> dict[int, Comparison]:
    """Every method with every seed at every latency, each training once where once is enough."""
    families: list[list[Task]] = []
    for label, table in METHODS.items():
        for seed in seeds:
            tasks: list[Task] = [
                (label, msgspec.structs.replace(_job(name, latency), method=table, seed=seed), None)
                for latency in latencies
            ]
            families += [[task] for task in tasks] if build(table).by_clock else [tasks]
    trained = train_families(families, on_done=lambda trial: say(f"{trial.label}: {trial.status}"))
    by_latency: dict[int, list[Trial]] = {latency: [] for latency in latencies}
    for trial in (trial for family in trained for trial in family):
        link = trial.job.network.link
        by_latency[first_step(link.latency) // (UNIT_MS * 10**6)].append(trial)
    return {latency: Comparison(trials) for latency, trials in by_latency.items()}


def _has_fmnist() -> bool:
    try:
        load_data("fmnist")
    except DataError:
        return False
    return True


def _job(name: str, latency: int) -> Job:
    return load(
        name,
        [
            *RATES.get(name, ()),
            "train.labels=shared",
            "train.stop=target",
            "train.evaluate_every=10 rounds",
            "train.validation=0",
            "train.evaluate_plain=true",
            *slow_network(latency, UNIT_MS),
        ],
    )


def _figures(trials: list[Trial]) -> list[str]:
    """A method's cells: means over its seeds."""
    summaries = [trial.summary for trial in trials if trial.summary is not None and not trial.bad]
    if not summaries:
        return ["failed", "missed", "missed", "missed", "–", "–"]
    reached = [s for s in summaries if s["time_to_target_s"] is not None]
    share = "" if len(reached) == len(trials) else f" ({len(reached)}/{len(trials)})"

    def to_target(field: str) -> float:
        return sum(float(s[field]) for s in reached) / len(reached)

    costs = ["missed"] * 3
    if reached:
        costs = [
            show_seconds(to_target("time_to_target_s")) + share,
            f"{to_target('rounds_to_target'):.0f}",
            show_bytes(to_target("bytes_to_target")),
        ]
    accuracy = sum(s["metric"]["final"] for s in summaries) / len(summaries)
    updates = [counts for s in summaries for counts in s["updates"].values()]
    ratio = sum(c["local"] for c in updates) / sum(c["fresh"] for c in updates)
    return [f"{accuracy:.3f}", *costs, f"{ratio:.1f}", f"{_idle(summaries):.0%}"]


def _idle(summaries: list[dict[str, Any]]) -> float:
    passive = [
        (s["idle_s"][name], s["busy_s"][name]) for s in summaries for name in s["max_in_flight"]
    ]
    return float(sum(idle for idle, _ in passive) / sum(idle + busy for idle, busy in passive))
