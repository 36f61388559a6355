"""PASTA, Table IV: staleness that falls with the epochs, or stays, on CIFAR-10."""

from __future__ import annotations

from dataclasses import replace

from colonnade.reproduce._pasta import (
    ADDED_UP,
    AGG,
    CIFAR,
    FEDSGD,
    PAPER,
    PASTA,
    RULES,
    SEEDS,
    SPLIT,
    UNIT_MS,
    UNITS,
    brief,
    faster,
    place,
    settings,
)
from colonnade.study.design import Arm, Setting, Study

CONSTANT = Arm("PASTA, s constant", {"name": "pasta", "b_max": 3, "s_max": 4, "decay": False})
QUADRANTS = {
    "lower": "bottom-right",
    "quick": "top-left",
    "slow": "top-right",
    "far": "bottom-left",
}
COSTS = {"quick": (8, 15, 5), "slow": (25, 50, 5), "far": (10, 20, 100)}
"""Of the three passive parties: forward, backward and latency, in units."""
HETEROGENEOUS = "four parties"
PRINTED = {
    place("CIFAR-10", AGG, 1000): (2.3, 1.9, 0.75),
    place("CIFAR-10", SPLIT, 1000): (3.2, 2.7, 0.77),
    f"{HETEROGENEOUS}, {AGG}": (1.5, 0.7, 0.73),
    f"{HETEROGENEOUS}, {SPLIT}": (3.0, 2.2, 0.76),
}
"""How many times as fast as FedSGD with falling and with constant staleness; the target."""


def four(top: str) -> Setting:
    """Four parties with a quadrant each: a quick one, a slow one and one that is far away."""
    classifier = ", classifier=true" if top == AGG else ""
    sets = [
        *CIFAR,
        *(ADDED_UP if top == AGG else ("top.hidden=[512, 512]",)),
        *("compute.forward=100ms", "compute.backward=200ms", "compute.aggregate=100ms"),
        "network.bandwidth=300mbit",
    ]
    for name, view in QUADRANTS.items():
        party = "upper" if name == "quick" else name
        model = f"{{name='vgg_small'{classifier}}}"
        sets.append(
            f"parties.{party}={{view='{view}', model={model}, "
            "optimizer={name='adam', lr=0.0002}, schedule={name='inverse-sqrt'}"
            + (", role='active'}" if name == "lower" else "}")
        )
        if name in COSTS:
            forward, backward, latency = (each * UNIT_MS for each in COSTS[name])
            sets.append(f"compute.{party}={{forward='{forward}ms', backward='{backward}ms'}}")
            sets.append(f"network.{party}.latency={latency}ms")
    label = f"{HETEROGENEOUS}, {top}"
    return Setting(label, tuple(sets), "cifar10", target=PRINTED[label][2])


STUDY = Study(
    about="PASTA, Table IV: staleness that falls with the epochs, or stays, on CIFAR-10",
    paper=f"{PAPER}, Table IV",
    job="cifar10",
    settings=(
        *(each for top in (AGG, SPLIT) for each in settings("CIFAR-10", top, (1000,))),
        *(four(top) for top in (AGG, SPLIT)),
    ),
    arms=(FEDSGD, replace(PASTA, label="PASTA, s falls"), CONSTANT),
    rules=RULES,
    seeds=SEEDS,
    unit=UNITS,
    claims=tuple(
        claim
        for setting, (falls, stays, _) in PRINTED.items()
        for arm, paper in (
            (replace(PASTA, label="PASTA, s falls"), falls),
            (CONSTANT, stays),
        )
        for claim in faster(setting, arm, paper=paper)
    ),
    quick=brief(FEDSGD, replace(PASTA, label="PASTA, s falls"), CONSTANT),
)
