"""PASTA at a latency of 1000 units: the paper's CNN on Fashion-MNIST, and an MLP.

The MLPs are those of the job `fmnist`, trained by plain SGD to its target of 85 %: a model so small
that every method can be tuned over a wide grid.
"""

from __future__ import annotations

from dataclasses import replace

from colonnade.reproduce import slow_network
from colonnade.reproduce._pasta import (
    CELU,
    FAIR,
    FEDBCD,
    FEDSGD,
    GIVEN,
    PAPER,
    PASTA,
    SEEDS,
    SPLIT,
    UNIT_MS,
    UNITS,
    brief,
    faster,
    place,
    settings,
)
from colonnade.study.design import Setting, Study

CNN = place("Fashion-MNIST", SPLIT, 1000)
MLP = "Fashion-MNIST, MLP, 1000 units"
SMALL = Setting(
    MLP,
    (
        "parties.*.optimizer={name='sgd', lr=0.05}",
        *("train.epochs=30", "train.evaluate_every=40 rounds"),
        *slow_network(1000, UNIT_MS),
    ),
    "fmnist",
    target=0.85,
)
STUDY = Study(
    about="PASTA at a latency of 1000 units: the paper's CNN on Fashion-MNIST, and an MLP",
    paper=f"{PAPER}, Table II",
    job="fmnist-pasta",
    settings=(*settings("Fashion-MNIST", latencies=(1000,)), SMALL),
    arms=(FEDSGD, FEDBCD, CELU, PASTA),
    rules=(
        replace(GIVEN, rates=("1x",)),
        replace(FAIR, rates=("0.5x", "1x", "2x", "4x", "8x"), growth=2),
    ),
    seeds=SEEDS,
    unit=UNITS,
    claims=(
        *faster(CNN, PASTA, paper=4.6),
        *faster(CNN, FEDBCD, paper=1.1),
        *faster(MLP, PASTA, rules=(FAIR,)),
        *faster(MLP, CELU, rules=(FAIR,)),
    ),
    notes=("CELU-VFL is not in the paper's table.",),
    quick=brief(FEDSGD, FEDBCD, CELU, PASTA),
)
