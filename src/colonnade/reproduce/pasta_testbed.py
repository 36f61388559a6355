"""PASTA, Fig. 5: CIFAR-10 among four parties on links of 100, 50 and 5 Mbit."""

from __future__ import annotations

from dataclasses import replace

from colonnade.reproduce._pasta import (
    CIFAR,
    FEDBCD,
    FEDSGD,
    FLEX,
    PAPER,
    PASTA,
    RULES,
    brief,
    faster,
)
from colonnade.study.design import Setting, Study

RATES = {"upper": ("top-left", 100), "third": ("top-right", 50), "slow": ("bottom-left", 5)}
"""Of the passive parties: the quadrant, and the link's rate in Mbit."""
PLACE = "testbed"


def testbed() -> Setting:
    """Four parties on a switch: what they send takes long, the way does not."""
    sets = [*CIFAR, "top.hidden=[512, 512]", "network.latency=1ms"]
    sets += ["compute.forward=10ms", "compute.backward=20ms", "compute.aggregate=5ms"]
    model = "model={name='vgg_small'}, optimizer={name='adam', lr=0.0002}, "
    schedule = "schedule={name='inverse-sqrt'}"
    sets.append(f"parties.lower={{role='active', view='bottom-right', {model}{schedule}}}")
    for party, (view, rate) in RATES.items():
        sets.append(f"parties.{party}={{view='{view}', {model}{schedule}}}")
        sets.append(f"network.{party}.bandwidth={rate}mbit")
    return Setting(PLACE, tuple(sets), "cifar10", target=0.76)


STUDY = Study(
    about="PASTA, Fig. 5: CIFAR-10 among four parties on links of 100, 50 and 5 Mbit",
    paper=f"{PAPER}, Fig. 5",
    job="cifar10",
    settings=(testbed(),),
    arms=(FEDSGD, FEDBCD, FLEX, replace(PASTA, label="PASTA")),
    rules=RULES,
    seeds=(97, 98, 99),
    claims=(
        *faster(PLACE, replace(PASTA, label="PASTA"), paper=4.04),
        *faster(PLACE, FEDBCD, paper=7766 / 3431),
        *faster(PLACE, FLEX, paper=7766 / 6058),
    ),
    notes=(
        "Links and costs are simulated: the paper's testbed was four GPUs on a switch, whose "
        "times for a forward and a backward pass it does not state; 10, 20 and 5 ms are ours.",
        "`python -m benchmarks.wan --speedup` trains a smaller job over real links of these rates.",
    ),
    quick=brief(FEDSGD, FEDBCD, replace(PASTA, label="PASTA")),
)
