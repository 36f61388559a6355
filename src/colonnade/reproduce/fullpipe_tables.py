"""Full pipe on tables: FedSGD's best AUC in a tenth of its time, at links of 100 ms?

Four tables, divided between two parties as in the built-in jobs. Links of 100 ms one-way and
100 Mbit; forward 1 ms, backward 2 ms, aggregate 1 ms, as small MLPs take. On each of them a race
(`run/race.py`): FedSGD is tuned first, and the target is its best AUC less 0.003. Then all are
tuned for the time to that target over one grid of rates, FedSGD with and without averaged weights,
full pipe and auto as they are, and measured with other seeds. `--out` keeps every run, and a second
call trains only what is missing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from colonnade.errors import FailedError
from colonnade.job.files import load
from colonnade.job.records import Job
from colonnade.record.table import show_spread, spread
from colonnade.reproduce import Progress, Reproduction, Say
from colonnade.run.compare import prepare_all
from colonnade.run.entrants import AVERAGES, entrants
from colonnade.run.halving import FACTOR, rungs
from colonnade.run.ladder import GROWTH, Ladder
from colonnade.run.points import Points
from colonnade.run.race import race
from colonnade.run.standings import Race
from colonnade.run.tuning import Judge, Tuning
from colonnade.units import show_seconds

MARGIN = 0.003
"""Of AUC: how near to FedSGD's best is near enough."""
WANTED = 10
"""How much sooner than FedSGD."""
LINES = (
    "network.latency=100ms",
    "network.bandwidth=100mbit",
    "compute.forward=1ms",
    "compute.backward=2ms",
    "compute.aggregate=1ms",
    "train.evaluate_every=10 rounds",
    "train.stop=end",
)
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Plan:
    """What is trained."""

    epochs: dict[str, int]
    """By job."""
    rates: tuple[str, ...]
    growth: int
    methods: tuple[str, ...]
    """Beside FedSGD."""
    averages: tuple[str, ...]
    tuning_seeds: list[int]
    workers: int | None = None

    def job(self, name: str) -> Job:
        """The built-in job on these lines, which nothing ends early."""
        made = load(name, [*LINES, f"train.epochs={self.epochs[name]}"])
        train = msgspec.structs.replace(made.train, target=None, patience=None)
        return msgspec.structs.replace(made, train=train, seed=0)


FULL = Plan(
    epochs={"credit": 20, "adult": 10, "bank": 10, "gmsc": 5},
    rates=("1x", "2x", "4x", "8x"),
    growth=GROWTH,
    methods=("fullpipe:most=16", "auto"),
    averages=AVERAGES,
    tuning_seeds=[100, 101],
)
QUICK = Plan(
    epochs={"breast-cancer": 15},
    rates=("2x",),
    growth=0,
    methods=("fullpipe:most=16", "auto"),
    averages=AVERAGES[1:],
    tuning_seeds=[100],
    workers=1,
)


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """Time to FedSGD's best AUC, less 0.003, of FedSGD, full pipe and auto, each at its best.

    The quick form takes one seed, one rate and the data set `breast-cancer`, which needs no files.
    """
    plan = QUICK if quick else FULL
    chosen = seeds or list(SEEDS[:1] if quick else SEEDS)
    with tempfile.TemporaryDirectory() as spare:
        folder = Path(spare) if out is None else out
        races = {name: _race(plan, name, chosen, folder / name, say) for name in plan.epochs}
    return _table(races, chosen, plan)


def _race(plan: Plan, name: str, seeds: list[int], out: Path, say: Say) -> Race:
    job, progress = plan.job(name), Progress(name, say)
    points = Points(
        out / "points", workers=plan.workers, on_plan=progress.plan, on_done=progress.done
    )
    target = fedsgd_best(plan, job, points) - MARGIN
    say(f"{name}: the target is {target:.4f}")
    return race(
        job,
        plan.methods,
        seeds,
        out=out,
        tuning_seeds=plan.tuning_seeds,
        rates=plan.rates,
        average=plan.averages,
        target=target,
        growth=plan.growth,
        workers=plan.workers,
        on_plan=progress.plan,
        on_done=progress.done,
    )


def fedsgd_best(plan: Plan, job: Job, points: Points) -> float:
    """FedSGD's best AUC on the validation rows: of the setting that ends best, as in a race with a
    share for its target, mean over the tuning seeds."""
    active = prepare_all([job])
    schedule, judge = active.agreement().schedule, Judge(active.metrics[0])
    assert schedule.period is not None
    lengths = rungs(schedule.rounds, schedule.period)
    baseline = entrants(plan.methods, {}, plan.averages)[0]
    tuning = Tuning(job, plan.tuning_seeds, lengths, FACTOR, points, plan.growth)
    tuned, _ = tuning.tune([baseline], Ladder.of(plan.rates), judge)
    bests = [judge.best(each) for each in tuned[baseline.label].outcomes]
    known = [best for best in bests if best is not None]
    if not known:
        raise FailedError(f"FedSGD failed or diverged on {job.name} at every rate")
    return fmean(known)


def _table(races: Mapping[str, Race], seeds: list[int], plan: Plan) -> Reproduction:
    rows = [(name, row) for name, each in races.items() for row in each.rows()]
    fast = dict.fromkeys(name for name, row in rows if _is_fast(row))
    return Reproduction(
        title=f"Full pipe on tables: time to FedSGD's best AUC less {MARGIN:g}, links of 100 ms",
        columns=[
            "data",
            "method",
            "rate",
            "average",
            "target",
            "reached",
            "virtual time",
            "rounds",
            "speed-up",
            "test AUC",
            "− FedSGD's",
        ],
        rows=[_cells(name, row, races[name]) for name, row in rows],
        notes=[
            f"mean ± deviation over seeds {', '.join(map(str, seeds))}; chosen on the validation "
            f"rows with seeds {', '.join(map(str, plan.tuning_seeds))}",
            f"held with every seed, in a tenth of FedSGD's time: {', '.join(fast) or 'none'}",
            *(f"{name}: {note}" for name, each in races.items() for note in each.notes()[2:]),
        ],
        data={"races": {name: each.to_dict() for name, each in races.items()}},
    )


def _is_fast(row: Mapping[str, Any]) -> bool:
    return row["reached"] == row["runs"] and (row["speed_up"] or 0) >= WANTED


def _cells(name: str, row: Mapping[str, Any], own: Race) -> list[str]:
    first = own.rows()[0]["by_seed"]
    less = [
        each["test"] - first[seed]["test"]
        for seed, each in row["by_seed"].items()
        if each["test"] is not None and first[seed]["test"] is not None
    ]
    hit = row["reached"] > 0
    return [
        name,
        row["method"],
        row["rate"] + ("*" if row["at_edge"] else ""),
        row["average"] if row["method"] == "fedsgd" else "its own",
        f"{own.target:.4f}",
        f"{row['reached']}/{row['runs']}",
        _spread(row, "time_s") if hit else "missed",
        f"{row['rounds_mean']:.0f}" if hit else "–",
        _speed_up(row),
        "–" if row["test_mean"] is None else f"{row['test_mean']:.4f}",
        f"{spread(less)[0]:+.4f}" if less and row["method"] != "fedsgd" else "–",
    ]


def _spread(row: Mapping[str, Any], name: str) -> str:
    mean, deviation = row[f"{name}_mean"], row[f"{name}_deviation"]
    return show_spread(mean, deviation, show_seconds, row["reached"], row["reached"])


def _speed_up(row: Mapping[str, Any]) -> str:
    if row["speed_up"] is None:
        return "–"
    low, high = row["speed_up_min"], row["speed_up_max"]
    return f"{row['speed_up']:.1f}×" + ("" if low == high else f" ({low:.1f}–{high:.1f})")
