"""`fullpipe` beside FedSGD and PASTA at four latencies, each at its best rate, and its ablation.

Small VGGs on CIFAR-10 in two halves, on PASTA's clock: forward 10 units, backward 20, aggregate 10.
Every method has averaged weights and is tuned over one grid of rates, with a seed that is not among
those of the table. The target is 98 % of what FedSGD reaches in the end, held for three
evaluations; evaluations are of validation rows, and the test rows are looked at once. FedSGD's
weights do not depend on the clock, so it is trained once and clocked again at every latency.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from msgspec.structs import replace

from colonnade.job.files import load, with_sets
from colonnade.job.records import Job
from colonnade.record.metrics import METRICS
from colonnade.reproduce import Reproduction, Say, slow_network
from colonnade.run.compare import Comparison
from colonnade.run.pool import Task, Trial, train_families
from colonnade.run.steady import steady_from

UNIT_MS = 10
LATENCIES: tuple[int, ...] = (1000, 100, 50, 5)
RATES: tuple[float, ...] = (1.25e-4, 2.5e-4, 5e-4, 1e-3, 2e-3)
SEEDS, TUNING_SEED = (1, 2, 3), 0
EPOCHS = 40
HELD, LAST = 3, 5
"""Evaluations for which a target is held, and over which the end of a run is averaged."""
TARGET = 0.98
AVERAGE = {"average": "ema:0.999"}
BASELINE, OURS = "FedSGD", "fullpipe"
METHODS: dict[str, dict[str, Any]] = {
    BASELINE: {"name": "fedsgd", **AVERAGE},
    "PASTA, B=3, s=4": {"name": "pasta", **AVERAGE},
    OURS: {"name": "fullpipe"},
}
ABLATION: dict[str, dict[str, Any]] = {
    "without averaged weights": {"average": "none"},
    "without the falling rate": {"rate": "constant"},
    "with all momentum": {"momentum": "kept"},
    "backward with the weights of then": {"version": "stash"},
    "with instance weights": {"weight": "cosine_fresh:0"},
    "with instance weights and all momentum": {"weight": "cosine_fresh:0", "momentum": "kept"},
}


@dataclass(frozen=True)
class Curve:
    """The accuracy of a run over time, and on the test rows at the end."""

    units: Sequence[float]
    values: Sequence[float]
    test: float | None

    @property
    def end(self) -> float:
        """The mean of the last evaluations: one of them alone differs by a point from the next."""
        return fmean(self.values[-LAST:]) if self.values else 0.0

    def time(self, target: float) -> float | None:
        """When the target is reached and held, in units; None if never."""
        place = steady_from(self.values, target, METRICS["accuracy"], HELD)
        return None if place is None else self.units[place]


Curves = Mapping[int, Curve]
"""By seed."""


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """Times to the target at every latency, and what each ingredient brings at the longest.

    The quick form takes the job `digits`, one rate, one seed and two latencies, and leaves out the
    ablation. It computes on a GPU if there is one.
    """
    base, rates, latencies = _job(quick), RATES, LATENCIES
    chosen = seeds or list(SEEDS)
    if quick:
        rates, latencies, chosen = (0.2,), (LATENCIES[0], LATENCIES[-1]), seeds or [1]
    study = Study(base, out, say)
    tuned = study.train(
        "tuning",
        {
            (name, latency): {rate: (table, rate, TUNING_SEED) for rate in rates}
            for name, table in METHODS.items()
            for latency in _own(name, latencies[:2])
        },
    )
    target = TARGET * max(curve.end for curve in tuned[BASELINE, latencies[0]].values())
    best = {cell: _best(curves, target) for cell, curves in tuned.items()}

    def rate_of(name: str, latency: int) -> float:
        """That of the nearest latency at which it was tuned."""
        known = [each for own, each in best if own == name]
        return best[name, min(known, key=lambda each: abs(each - latency))]

    table = study.train(
        "table",
        {
            (name, latency): {seed: (own, rate_of(name, latency), seed) for seed in chosen}
            for name, own in METHODS.items()
            for latency in _own(name, latencies)
        },
        latencies,
    )
    longest = latencies[0]
    ablation = study.train(
        "ablation",
        {
            (name, longest): {s: (METHODS[OURS] | own, rate_of(OURS, longest), s) for s in chosen}
            for name, own in ({} if quick else ABLATION).items()
        },
    )
    chosen_rates = {cell: rate_of(*cell) for cell in table}
    return tabulated(table, chosen_rates, {name: curves for (name, _), curves in ablation.items()})


def tabulated(
    table: Mapping[tuple[str, int], Curves],
    rates: Mapping[tuple[str, int], float],
    removed: Mapping[str, Curves],
) -> Reproduction:
    """The table of these runs, by method and latency; the target is of FedSGD's."""
    latencies = list(dict.fromkeys(latency for _, latency in table))
    target = TARGET * fmean(curve.end for curve in table[BASELINE, latencies[0]].values())
    rows = []
    for latency in latencies:
        base = table[BASELINE, latency]
        for name in dict.fromkeys(name for name, _ in table):
            if (name, latency) in table:
                rate = f"{rates[name, latency]:g}"
                rows.append(_row(name, latency, rate, table[name, latency], base, target))
    for name, curves in removed.items():
        rate = f"{rates[OURS, latencies[0]]:g}"
        base = table[BASELINE, latencies[0]]
        rows.append(_row(f"{OURS}, {name}", latencies[0], rate, curves, base, target))
    return Reproduction(
        title=f"Time to an accuracy of {target:.3f}, in units of {UNIT_MS} ms",
        columns=[
            *("method", "latency", "rate", "time", "reached", "faster than FedSGD"),
            *("end", "test", "test, less FedSGD's"),
        ],
        rows=rows,
        notes=[
            f"target: {TARGET:.0%} of FedSGD's end, held for {HELD} evaluations of validation rows",
            f"end: mean of the last {LAST} evaluations; test: the best round, once",
            "faster: mean of FedSGD's times over the mean of the method's, on the seeds of both",
            "less FedSGD's: mean over the seeds, with the 95 % interval of the paired differences",
        ],
        data={"target": target},
    )


def _row(
    name: str, latency: int, rate: str, curves: Curves, base: Curves, target: float
) -> list[str]:
    times = {seed: curve.time(target) for seed, curve in curves.items()}
    known = {seed: time for seed, time in times.items() if time is not None}
    theirs = {seed: curve.time(target) for seed, curve in base.items()}
    both = [(theirs[s], time) for s, time in known.items() if theirs.get(s) is not None]
    faster = sum(a or 0 for a, _ in both) / sum(b for _, b in both) if both else None
    tests = [curve.test for curve in curves.values() if curve.test is not None]
    return [
        name,
        str(latency),
        rate,
        f"{fmean(known.values()):,.0f}" if known else "missed",
        f"{len(known)}/{len(times)}",
        "–" if faster is None else f"{faster:.1f}×",
        f"{fmean(curve.end for curve in curves.values()):.4f}",
        f"{fmean(tests):.4f}" if tests else "–",
        _paired(curves, base),
    ]


T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78}
"""Student's t for a 95 % interval, by the number of seeds."""


def _paired(curves: Curves, base: Curves) -> str:
    """The mean difference of the test accuracies in points, and half its interval."""
    differences = []
    for seed, curve in curves.items():
        other = base.get(seed)
        if other is not None and curve.test is not None and other.test is not None:
            differences.append(100 * (curve.test - other.test))
    if not differences:
        return "–"
    text, count = f"{fmean(differences):+.2f}", len(differences)
    if count not in T95:
        return text
    return f"{text} ± {T95[count] * stdev(differences) / math.sqrt(count):.2f}"


def _job(quick: bool) -> Job:
    if quick:
        return load("digits", ["train.epochs=12", "train.batch_size=32"])
    import torch

    device = ["parties.*.device=cuda"] if torch.cuda.is_available() else []
    return load("cifar10", ["data=cifar10-subset", f"train.epochs={EPOCHS}", *device])


def _own(name: str, latencies: Sequence[int]) -> Sequence[int]:
    """FedSGD learns the same at every latency: it is trained at the first."""
    return latencies[:1] if name == BASELINE else latencies


def _clocked(name: str, latency: int, latencies: Sequence[int]) -> list[int]:
    """The latencies of a run: that at which it is trained first, and where it is clocked again."""
    return [latency, *(each for each in latencies if name == BASELINE and each != latency)]


Cell = tuple[str, int]
"""A method and a latency."""
Run = tuple[Mapping[str, Any], float, int]
"""A method's table, a rate and a seed."""


@dataclass(frozen=True)
class Study:
    """Trains the runs of a plan, and keeps them."""

    base: Job
    out: Path | None
    say: Say

    def train(
        self, part: str, plan: Mapping[Cell, Mapping[Any, Run]], clocked: Sequence[int] = ()
    ) -> dict[Cell, dict[Any, Curve]]:
        """All runs side by side; FedSGD's also at the latencies at which it is clocked again."""
        self.say(part)
        keys = [(cell, key) for cell, runs in plan.items() for key in runs]
        families: list[list[Task]] = []
        for (name, latency), key in keys:
            run = plan[name, latency][key]
            jobs = [self._job(*run, each) for each in _clocked(name, latency, clocked)]
            families.append([(f"{name}, {key:g}", job, None) for job in jobs])
        done: list[Trial] = []

        def tell(trial: Trial) -> None:
            done.append(trial)
            self.say(f"{trial.label}: {trial.status}", len(done), sum(map(len, families)))

        found: dict[Cell, dict[Any, Curve]] = {}
        trained = train_families(families, on_done=tell)
        for ((name, latency), key), trials in zip(keys, trained, strict=True):
            for units, trial in zip(_clocked(name, latency, clocked), trials, strict=True):
                found.setdefault((name, units), {})[key] = _curve(trial)
        if self.out is not None and done:
            Comparison(done).save(self.out / part)
        return found

    def _job(self, method: Mapping[str, Any], rate: float, seed: int, latency: int) -> Job:
        sets = slow_network(latency, UNIT_MS)
        job = with_sets(self.base, *sets, f"parties.*.optimizer.lr={rate}", "train.stop=end")
        return replace(job, method=dict(method), seed=seed)


def _curve(trial: Trial) -> Curve:
    measured = [row for row in trial.history if row.get("accuracy") is not None]
    units = [row["time_s"] * 1000 / UNIT_MS for row in measured]
    test = None if trial.summary is None or trial.bad else trial.summary["metric"]["test"]
    return Curve(units, [row["accuracy"] for row in measured], test)


def _best(curves: Mapping[float, Curve], target: float) -> float:
    """The rate at which the target is reached soonest; if at none, the one that ends best."""

    def rank(rate: float) -> tuple[float, float]:
        time = curves[rate].time(target)
        return math.inf if time is None else time, -curves[rate].end

    return min(curves, key=rank)
