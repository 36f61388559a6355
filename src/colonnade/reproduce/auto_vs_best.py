"""Auto against the best preset: on networks that nobody has tuned it to, how far behind is it?

Twelve networks, drawn from seeds: latencies of 2 to 400 ms, lines of 50 kbit to 200 Mbit, forward
passes of 1 to 30 ms, everything another for each party. On each a race (`run/race.py`) of all
presets as they are, and of `auto` as it is, over one grid of rates: who is best is another preset
on each network, and `auto` does not know which.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from colonnade.job.files import load
from colonnade.job.records import Job
from colonnade.reproduce import Progress, Reproduction, Say
from colonnade.run.race import race
from colonnade.units import show_seconds

WITHIN = 1.25
"""How much longer than the best preset it may take."""
ACCURACY = 0.98
"""How much of the best preset's accuracy it must keep."""
OURS = "auto"
PRESETS = (
    *("fedbcd:updates=5", "celu:r=5", "pasta:b_max=3", "vafl", "efvfl:compressor=scalar:4"),
    *("cvfl:q=5:compressor=scalar:4:exchange=gradients:both=true", "fullpipe:most=16"),
)
SEEDS = (0, 1)


@dataclass(frozen=True)
class Plan:
    """What is trained."""

    networks: int
    methods: tuple[str, ...]
    """Beside FedSGD."""
    epochs: int
    rates: tuple[str, ...]
    growth: int
    tuning_seeds: tuple[int, ...]
    target: float
    workers: int | None = None


FULL = Plan(12, (*PRESETS, OURS), 40, ("2x", "4x", "8x"), 1, (100,), 0.93)
QUICK = Plan(1, ("pasta:b_max=3", OURS), 6, ("8x",), 0, (100,), 0.3, workers=1)


def network(seed: int, plan: Plan = FULL) -> Job:
    """The job `digits` on a network of its own.

    >>> network(0).network.of("lab").latency, network(1).network.of("lab").bandwidth
    ('2ms', '130635804bit')
    """
    draw = np.random.default_rng(seed)
    sets = [f"train.epochs={plan.epochs}", "train.evaluate_every=10 rounds", "train.stop=end"]
    for name in ("clinic", "lab", "insurer"):
        forward_us = int(1000 * 30 ** draw.random())
        costs = {"forward": forward_us, "backward": 2 * forward_us, "aggregate": forward_us}
        sets += [f"compute.{name}.{work}={cost}us" for work, cost in costs.items()]
        if name != "clinic":
            sets.append(f"network.{name}.latency={int(2 * 200 ** draw.random())}ms")
            sets.append(f"network.{name}.bandwidth={int(50_000 * 4000 ** draw.random())}bit")
    job = load("digits", sets)
    return msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, target=None))


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """Time to an accuracy of 0.93 on twelve random networks, of every preset and of `auto`.

    The quick form takes one network, two methods, one rate and an easier target.
    """
    plan = QUICK if quick else FULL
    chosen = seeds or list(SEEDS[:1] if quick else SEEDS)
    with tempfile.TemporaryDirectory() as spare:
        folder = Path(spare) if out is None else out
        found = {
            number: _rows(plan, number, chosen, folder / f"network-{number}", say)
            for number in range(plan.networks)
        }
    return _table(found, chosen, plan)


def _rows(plan: Plan, number: int, seeds: list[int], out: Path, say: Say) -> list[dict[str, Any]]:
    progress = Progress(f"network {number}", say)
    raced = race(
        network(number, plan),
        plan.methods,
        seeds,
        out=out,
        tuning_seeds=plan.tuning_seeds,
        rates=plan.rates,
        average=("ema:0.999",),
        target=plan.target,
        growth=plan.growth,
        workers=plan.workers,
        on_plan=progress.plan,
        on_done=progress.done,
    )
    return raced.rows()


def _table(
    found: Mapping[int, Sequence[Mapping[str, Any]]], seeds: list[int], plan: Plan
) -> Reproduction:
    rows, near, kept = [], 0, 0
    for number, raced in found.items():
        own = next(row for row in raced if row["method"] == OURS)
        sound = [row for row in raced if row["method"] != OURS and row["reached"] == row["runs"]]
        best = min(sound, key=lambda row: row["time_s_mean"], default=None)
        job = network(number, plan)
        ratio = None if best is None else _ratio(own, best, "time_s_mean")
        accuracy = None if best is None else _ratio(own, best, "test_mean")
        near += ratio is not None and ratio <= WITHIN
        kept += accuracy is not None and accuracy >= ACCURACY
        rows.append(
            [
                str(number),
                _told(job, "latency"),
                _told(job, "bandwidth"),
                "none" if best is None else best["method"],
                "–" if best is None else show_seconds(best["time_s_mean"]),
                f"{own['reached']}/{own['runs']}",
                "missed" if not own["reached"] else show_seconds(own["time_s_mean"]),
                "–" if ratio is None else f"{ratio:.2f}",
                "–" if accuracy is None else f"{accuracy:.3f}",
                "–" if own["speed_up"] is None else f"{own['speed_up']:.1f}×",
            ]
        )
    return Reproduction(
        title=f"Auto beside the best preset: time to an accuracy of {plan.target:g}, held",
        columns=[
            *("network", "latency, ms", "lines, Mbit", "best preset", "its time"),
            *("auto reached", "auto's time", "÷ best", "accuracy ÷ best", "auto × FedSGD"),
        ],
        rows=rows,
        notes=[
            f"mean over seeds {', '.join(map(str, seeds))}; rates chosen with seed "
            f"{plan.tuning_seeds[0]}, on the validation rows",
            f"within {WITHIN:g} of the best preset's time: {near} of {len(found)}; at least "
            f"{ACCURACY:.0%} of its accuracy: {kept} of {len(found)}",
        ],
        data={"networks": {str(number): list(raced) for number, raced in found.items()}},
    )


def _ratio(own: Mapping[str, Any], best: Mapping[str, Any], name: str) -> float | None:
    whole = own["reached"] == own["runs"]
    return own[name] / best[name] if whole and own[name] and best[name] else None


def _told(job: Job, what: str) -> str:
    texts = [str(getattr(job.network.of(name), what)) for name in job.passives]
    if what == "latency":
        return " / ".join(text.removesuffix("ms") for text in texts)
    return " / ".join(f"{int(text.removesuffix('bit')) / 1e6:.3g}" for text in texts)
