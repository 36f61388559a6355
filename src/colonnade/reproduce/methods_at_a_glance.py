"""All methods on one job, at four latencies: what each costs to the same target.

A unit is 10 ms: forward 10 units, backward 20, aggregate 10, latencies of 5, 50, 100 and 1000
units one-way, at 300 Mbit. Labels are shared, so that the snapshot methods can take part. One rate
for all, low enough for five updates on an exchange: nothing is tuned for a method, and FedSGD alone
would bear a higher one.
"""

from __future__ import annotations

from colonnade.reproduce import slow_network
from colonnade.study.design import Arm, Rule, Setting, Study
from colonnade.study.page import cost_column, figure_column

UNIT_MS = 10
LATENCIES = (5, 50, 100, 1000)
FIVE = f"{5 * 30 * UNIT_MS}ms"
"""As long as five updates take."""
ARMS = (
    Arm("FedSGD", {"name": "fedsgd"}),
    Arm("FedBCD, Q=5", {"name": "fedbcd", "updates": 5}),
    Arm("C-VFL, Q=5, scalar:4", {"name": "cvfl", "q": 5, "compressor": "scalar:4"}),
    Arm("Flex-VFL, 5 updates' time", {"name": "flexvfl", "timeout": FIVE}),
    Arm("Sync-Min, 5 updates' time", {"name": "sync_min", "timeout": FIVE}),
    Arm("Sync-Max, 5 updates' time", {"name": "sync_max", "timeout": FIVE}),
    Arm("P-BCD", {"name": "pbcd"}),
    Arm("VAFL", {"name": "vafl"}),
    Arm("FlexVFL-s", {"name": "flexvfl_s"}),
    Arm("CELU, W=5, R=5", {"name": "celu", "w": 5, "r": 5}),
    Arm("PASTA, B=3, s=4", {"name": "pasta", "b_max": 3, "s_max": 4}),
)


def at(latency: int, data: str) -> Setting:
    """A latency."""
    return Setting(f"{latency} units", tuple(slow_network(latency, UNIT_MS)), data)


GIVEN = Rule(
    "given",
    "One rate for all, the job's with plain SGD; the first touch of the target, on the test rows.",
    0.83,
)
STUDY = Study(
    about="All methods on one job, at four latencies: what each costs to the same target",
    paper="ours, 2026",
    job="fmnist",
    settings=tuple(at(latency, "fmnist") for latency in LATENCIES),
    sets=(
        *("train.labels=shared", "train.evaluate_every=10 rounds", "train.validation=0"),
        *("train.evaluate_plain=true", "train.epochs=30"),
        # The job's own rate, with momentum, is too high for several updates on one exchange.
        "parties.*.optimizer={name='sgd', lr=0.05}",
    ),
    arms=ARMS,
    rules=(GIVEN,),
    seeds=(0, 1, 2),
    columns=(
        cost_column("round"),
        cost_column("bytes"),
        figure_column("local/fresh", "local_per_fresh", "{:.1f}".format),
        figure_column("idle", "idle_share", "{:.0%}".format),
    ),
    notes=("idle: share of the time of all parties that they waited",),
    quick={
        "settings": tuple(at(latency, "digits") for latency in (5, 1000)),
        "sets": (
            *("train.labels=shared", "train.evaluate_every=10 rounds", "train.validation=0"),
            *("train.evaluate_plain=true", "train.epochs=20"),
        ),
        "rules": (Rule("given", GIVEN.text, 0.8),),
        "seeds": (0,),
    },
)
