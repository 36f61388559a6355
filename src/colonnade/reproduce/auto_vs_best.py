"""Auto against the best preset: on networks that nobody has tuned it to, how far behind is it?

Twelve networks, drawn from seeds: latencies of 2 to 400 ms, links of 50 kbit to 200 Mbit, forward
passes of 1 to 30 ms, different for every party. On each of them all presets and `auto`, as they
are, over one grid of rates: which preset is best differs from network to network, and `auto` does
not know which.
"""

from __future__ import annotations

from statistics import fmean

import numpy as np

from colonnade.study.design import Arm, Claim, Column, Rule, Setting, Study
from colonnade.study.findings import Findings

WITHIN = 1.25
"""How much longer than the best preset it may take."""
ACCURACY = 0.98
"""How much of the best preset's accuracy it must keep."""
NETWORKS = 12
OURS = "auto"
AVERAGE = {"average": "ema:0.999"}
ARMS = (
    Arm("FedSGD", {"name": "fedsgd", **AVERAGE}),
    Arm("FedBCD, 5 updates", {"name": "fedbcd", "updates": 5, **AVERAGE}),
    Arm("CELU-VFL, R=5", {"name": "celu", "r": 5, **AVERAGE}),
    Arm("PASTA, B=3", {"name": "pasta", "b_max": 3, **AVERAGE}),
    Arm("VAFL", {"name": "vafl", **AVERAGE}),
    Arm("EF-VFL, 4 bits", {"name": "efvfl", "compressor": "scalar:4", **AVERAGE}),
    Arm(
        "C-VFL, 5 updates, 4 bits both ways",
        {
            "name": "cvfl",
            "q": 5,
            "compressor": "scalar:4",
            "exchange": "gradients",
            "both": True,
            **AVERAGE,
        },
    ),
    Arm("fullpipe", {"name": "fullpipe"}),
    Arm(OURS, {"name": "auto"}),
)
PARTIES = ("clinic", "lab", "insurer")
ACTIVE = "clinic"


def network(seed: int) -> Setting:
    """A network of its own for the job `digits`.

    >>> [each for each in network(0).sets if "lab.latency" in each]
    ['network.lab.latency=2ms']
    >>> [each for each in network(1).sets if "lab.bandwidth" in each]
    ['network.lab.bandwidth=130635804bit']
    """
    draw = np.random.default_rng(seed)
    sets = []
    for name in PARTIES:
        forward_us = int(1000 * 30 ** draw.random())
        costs = {"forward": forward_us, "backward": 2 * forward_us, "aggregate": forward_us}
        sets += [f"compute.{name}.{work}={cost}us" for work, cost in costs.items()]
        if name != ACTIVE:
            sets.append(f"network.{name}.latency={int(2 * 200 ** draw.random())}ms")
            sets.append(f"network.{name}.bandwidth={int(50_000 * 4000 ** draw.random())}bit")
    return Setting(f"network {seed}", tuple(sets))


def best_preset(found: Findings, rule: str, setting: str) -> str | None:
    """The preset that holds the target soonest, of those that hold it with every seed."""
    costs = {arm.label: found.cost(rule, setting, arm.label) for arm in found.study.arms[:-1]}
    sound = {
        label: cost.mean
        for label, cost in costs.items()
        if cost.mean is not None and cost.count == cost.of
    }
    return min(sound, key=sound.__getitem__, default=None)


def as_long(found: Findings, rule: str, setting: str, arm: str = OURS) -> float | None:
    """How many times the best preset's time an arm takes; None where a seed misses."""
    best, own = best_preset(found, rule, setting), found.cost(rule, setting, arm)
    if best is None or own.mean is None or own.count < own.of:
        return None
    mean = found.cost(rule, setting, best).mean
    assert mean is not None, "it is sound"
    return own.mean / mean


def as_good(found: Findings, rule: str, setting: str) -> float | None:
    """What share of the best preset's accuracy on the test rows auto has."""
    best = best_preset(found, rule, setting)
    if best is None:
        return None
    ours, theirs = (
        [row.test for row in found.of(rule, setting, arm) if row.test is not None]
        for arm in (OURS, best)
    )
    return fmean(ours) / fmean(theirs) if ours and theirs else None


def near(found: Findings) -> float | None:
    """On how many networks auto is within the bound."""
    if not found.rows:
        return None
    ratios = [as_long(found, "fair", setting.label) for setting in found.study.settings]
    return float(sum(ratio is not None and ratio <= WITHIN for ratio in ratios))


def kept(found: Findings) -> float | None:
    """On how many networks it has as much of the accuracy as it should."""
    if not found.rows:
        return None
    shares = [as_good(found, "fair", setting.label) for setting in found.study.settings]
    return float(sum(share is not None and share >= ACCURACY for share in shares))


def _ratio(found: Findings, rule: str, setting: str, arm: str) -> str:
    ratio = as_long(found, rule, setting, arm)
    return "–" if ratio is None else f"{ratio:.2f}"


STUDY = Study(
    about="Auto against the best preset, on twelve random networks",
    paper="ours, 2026",
    job="digits",
    sets=("train.epochs=40", "train.evaluate_every=10 rounds"),
    settings=tuple(network(seed) for seed in range(NETWORKS)),
    arms=ARMS,
    rules=(
        Rule(
            "fair",
            "Everybody as it is, at its own best of one grid of rates, chosen with another seed on "
            "the validation rows; averaged weights for everybody.",
            0.93,
            ("2x", "4x", "8x"),
            growth=1,
            tuning_seeds=(100,),
            hold=None,
        ),
    ),
    seeds=(0, 1),
    columns=(Column("÷ best preset", _ratio),),
    claims=(
        Claim(
            f"networks of {NETWORKS} on which auto takes at most {WITHIN:g} of the best preset's "
            "time",
            None,
            "fair",
            near,
            show="{:.0f}".format,
            least=float(NETWORKS),
        ),
        Claim(
            f"networks of {NETWORKS} on which it has at least {ACCURACY:.0%} of its accuracy",
            None,
            "fair",
            kept,
            show="{:.0f}".format,
            least=float(NETWORKS),
        ),
    ),
    quick={
        "settings": (network(0),),
        "sets": ("train.epochs=6", "train.evaluate_every=10 rounds"),
        "arms": (ARMS[0], ARMS[3], ARMS[-1]),
        "rules": (Rule("fair", "One rate for all.", 0.3, ("8x",), tuning_seeds=(100,), hold=None),),
        "seeds": (0,),
    },
)
