"""C-VFL: bytes to the same accuracy with 2, 3 and 4 bits a component, against none saved.

Four parties hold the quadrants of each MNIST image, the active one the lower right. Each has an
MLP 196 → 128 → 64 and sees the labels; the top model is one linear layer, 256 → 10. Q = 5 updates
on every snapshot, batch size 256, plain SGD. One rate for all: that with which the uncompressed
run needs the fewest rounds to the target, and beside it the next lower of the grid, because the
fastest rate lies close to those that diverge and its accuracy goes up and down.

Every run goes on to its end, so that final accuracies can be compared too. The bytes are those of
all frames until the evaluation that reached the target, the labels included, and without those of
evaluations. The paper measures no bytes but has a formula, b·(2·P·B·M² + M·|θ₀|) bits a round for
M parties. It counts every upload M times, and what the active party would send to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from colonnade.job.files import with_sets
from colonnade.job.records import Job, Party, Top, Train
from colonnade.record.table import show_found, show_spread, spread
from colonnade.reproduce import Reproduction, Say, figures, mean_figure, ratio, train
from colonnade.run.compare import Comparison
from colonnade.run.pool import Trial
from colonnade.units import show_bytes

QUADRANTS = ("top-left", "top-right", "bottom-left", "bottom-right")
ACTIVE = "bottom-right"
CLASSES = 10
Q = 5
PLAIN_BITS = 32
SEEDS = (0, 1, 2, 3, 4)
TUNING_SEEDS = 3
FEWER = {2: 0.90, 3: 0.85, 4: 0.80}
"""The share of the bytes that should be saved, by bits."""
POINTS = 0.005
"""What the final accuracy may differ by, if the deviation over the seeds is smaller."""


@dataclass(frozen=True)
class Setting:
    """A data set of images, and what is trained on it."""

    data: str
    hidden: int
    embedding: int
    batch_size: int
    epochs: int
    every: int
    """Rounds between evaluations."""
    target: float
    rates: tuple[float, ...]
    """Tried for the uncompressed run; one rate is taken as given."""

    def job(self, rate: float, stop: str = "end") -> Job:
        """The job with its four parties; all batches have the same size."""
        parties = {
            view: Party(
                role="active" if view == ACTIVE else "passive",
                view=view,
                model={"name": "mlp", "hidden": [self.hidden], "embedding": self.embedding},
                optimizer={"name": "sgd", "lr": rate},
            )
            for view in QUADRANTS
        }
        train = Train(
            epochs=self.epochs,
            batch_size=self.batch_size,
            drop_last=True,
            labels="shared",
            metric="accuracy",
            target=self.target,
            evaluate_every=f"{self.every} rounds",
            validation=0,
            evaluate_plain=True,
        )
        job = Job(
            name="cvfl-bytes", data=self.data, parties=parties, train=train, top=Top(hidden=[])
        )
        network = ("network.latency=50ms", "network.bandwidth=300mbit")
        return with_sets(job, f"train.stop={stop}", *network)

    def formula(self, bits: int) -> float:
        """The paper's bytes a round: b·(2·P·B·M² + M·|θ₀|) bits."""
        count = len(QUADRANTS)
        top = (count * self.embedding + 1) * CLASSES
        components = 2 * self.embedding * self.batch_size * count**2 + count * top
        return bits * components / 8


FULL = Setting(
    data="mnist",
    hidden=128,
    embedding=64,
    batch_size=256,
    epochs=10,
    every=10,
    target=0.97,
    rates=(0.05, 0.1, 0.2, 0.4, 0.8),
)
QUICK = Setting(
    data="digits",
    hidden=64,
    embedding=32,
    batch_size=128,
    epochs=30,
    every=10,
    target=0.93,
    rates=(0.1,),
)


CASES: dict[str, tuple[str, int]] = {"plain": ("plain", PLAIN_BITS)} | {
    f"{name}:{bits}": (name, bits) for bits in FEWER for name in ("lattice", "scalar")
}
COLUMNS = [
    "rate",
    "compressor",
    "bits",
    "accuracy",
    "to plain",
    "bytes to target",
    "fewer",
    "rounds",
    "reached",
    "bytes a round",
    "paper's formula",
    "holds",
]


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """Bytes to the target and final accuracy by compressor and bits, the paper's formula beside.

    The quick form takes one seed, one rate and the quadrants of `digits`, where headers and labels
    weigh more. Models this small are trained sooner on a CPU than on a GPU.
    """
    setting = QUICK if quick else FULL
    chosen = seeds or list(SEEDS[:1] if quick else SEEDS)
    tried = _tune(setting, chosen[:TUNING_SEEDS], say)
    rates = _two(tried)
    say(f"{', '.join(CASES)} at {' and '.join(f'{rate:g}' for rate in rates)}")
    comparisons = _train(setting, rates, chosen)
    rows: list[list[str]] = []
    for rate, comparison in comparisons.items():
        groups = comparison.methods()
        for (name, bits), trials in zip(CASES.values(), groups.values(), strict=True):
            cells = _cells(setting, bits, trials, groups["plain"])
            rows.append([f"{rate:g}", name, str(bits), *cells])
        if out is not None:
            comparison.save(out / f"rate-{rate:g}")
    once = _once(comparisons[rates[0]].trials)
    return Reproduction(
        title=f"C-VFL, bytes to an accuracy of {setting.target:g}",
        columns=COLUMNS,
        rows=rows,
        notes=[
            f"{setting.data}, quadrants, Q = {Q}; mean ± deviation over seeds "
            f"{', '.join(map(str, chosen))}; accuracy: the final one",
            "bytes are those of frames; fewer: on the seeds that reached the target with both",
            f"of the bytes to target, {show_bytes(once)} are the labels and greetings, sent once",
            "holds: all seeds reach the target, at least 90 / 85 / 80 % fewer bytes, and the final "
            "accuracy is within a deviation of plain's or 0.5 points",
        ],
        data={
            "rounds_by_rate": {f"{rate:g}": rounds for rate, rounds in tried.items()},
            "once": once,
            "rates": {f"{rate:g}": each.to_dict() for rate, each in comparisons.items()},
        },
    )


def _two(tried: Mapping[float, float]) -> list[float]:
    """The rate with the fewest rounds, and the next lower one if there is one."""
    best = min(tried, key=tried.__getitem__)
    return [*sorted(rate for rate in tried if rate < best)[-1:], best]


def _train(
    setting: Setting, rates: Sequence[float], seeds: Sequence[int]
) -> dict[float, Comparison]:
    """Every compressor with every seed at every rate, all at once."""
    groups = [
        {text: replace(setting.job(rate), method=_method(text)) for text in CASES} for rate in rates
    ]
    return dict(zip(rates, train(groups, seeds), strict=True))


def _method(compressor: str) -> dict[str, Any]:
    return {"name": "cvfl", "q": Q, "compressor": compressor}


def _tune(setting: Setting, seeds: Sequence[int], say: Say) -> dict[float, float]:
    """Mean rounds to the target of the uncompressed run, by rate; one miss rules a rate out."""
    if len(setting.rates) == 1:
        return {setting.rates[0]: 0.0}
    say(f"plain at rates of {', '.join(map(str, setting.rates))}")
    jobs = {
        f"{rate:g}": replace(setting.job(rate, "target"), method=_method("plain"))
        for rate in setting.rates
    }
    (found,) = train([jobs], seeds)
    means: dict[float, float] = {}
    for rate, trials in zip(setting.rates, found.methods().values(), strict=True):
        means[rate] = mean_figure(trials, "rounds_to_target")
        missed = figures(trials, "rounds_to_target").count(None)
        say(f"{rate:g}: {f'{missed} missed' if missed else f'{means[rate]:.0f} rounds'}")
    return means


def _bytes(trial: Trial) -> tuple[float, float]:
    """What a run sends once, and in a round; all rounds are alike."""
    rows = [(row["round"], row["bytes_up"] + row["bytes_down"]) for row in trial.history]
    (first, before), (last, after) = rows[0], rows[-1]
    a_round = (after - before) / max(1, last - first)
    return before - first * a_round, a_round


def _once(trials: Sequence[Trial]) -> float:
    return next((_bytes(trial)[0] for trial in trials if not trial.bad), 0.0)


def _cells(setting: Setting, bits: int, trials: list[Trial], plain: list[Trial]) -> list[str]:
    """A row's cells after the compressor and its bits."""
    finals, baseline = _finals(trials), _finals(plain)
    mean, deviation = spread(finals)
    base, base_deviation = spread(baseline)
    formula = show_bytes(setting.formula(bits))
    if mean is None or deviation is None or base is None or base_deviation is None:
        return ["failed", "–", "missed", "–", "missed", f"0/{len(trials)}", "–", formula, "no"]
    accuracy = show_spread(mean, deviation, "{:.4f}".format, len(finals), len(trials))
    costs, rounds = figures(trials, "bytes_to_target"), figures(trials, "rounds_to_target")
    share = ratio(costs, figures(plain, "bytes_to_target"))
    fewer = None if share is None else 1 - share
    reached = len([cost for cost in costs if cost is not None])
    near = abs(mean - base) <= max(base_deviation, POINTS)
    is_plain = trials is plain
    holds = reached == len(trials) and near and fewer is not None and fewer >= FEWER.get(bits, 0)
    return [
        accuracy,
        "–" if is_plain else f"{100 * (mean - base):+.2f}",
        _mean(costs, show_bytes),
        "–" if is_plain or fewer is None else f"{fewer:.1%}",
        _mean(rounds, lambda count: f"{count:.0f}"),
        f"{reached}/{len(trials)}",
        show_bytes(spread([_bytes(trial)[1] for trial in trials if not trial.bad])[0] or 0),
        formula,
        "–" if is_plain else "yes" if holds else "no",
    ]


def _finals(trials: list[Trial]) -> list[float]:
    return [t.summary["metric"]["final"] for t in trials if t.summary is not None and not t.bad]


def _mean(values: list[float | None], show: Any) -> str:
    return show_found([value for value in values if value is not None], show)
