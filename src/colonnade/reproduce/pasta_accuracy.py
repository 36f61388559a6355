"""PASTA, Table I: final accuracy on three data sets, two kinds of top model, four latencies."""

from __future__ import annotations

from collections.abc import Callable

from colonnade.reproduce._pasta import (
    AGG,
    FEDBCD,
    FEDSGD,
    FLEX,
    JOBS,
    PAPER,
    PASTA,
    RULES,
    SEEDS,
    SPLIT,
    UNITS,
    brief,
    place,
    settings,
)
from colonnade.study.design import Claim, Study
from colonnade.study.findings import Findings

PRINTED = {
    ("MNIST", AGG): (97.28, 97.19),
    ("MNIST", SPLIT): (97.34, 97.51),
    ("Fashion-MNIST", AGG): (89.99, 89.80),
    ("Fashion-MNIST", SPLIT): (90.02, 90.45),
    ("CIFAR-10", AGG): (78.40, 77.09),
    ("CIFAR-10", SPLIT): (79.38, 79.51),
}
"""Table I at 1000 units: FedSGD's and PASTA's final accuracy, in per cent."""
POINTS = 0.5
"""By how much a difference may be less than the paper's: the deviation over its seeds."""


def lost(rule: str, setting: str) -> Callable[[Findings], float | None]:
    """PASTA's final accuracy less FedSGD's, in points, paired by seed."""

    def ours(found: Findings) -> float | None:
        gain = found.gain(rule, setting, PASTA.label, "final")
        return None if gain is None else 100 * gain[0]

    return ours


def claims() -> tuple[Claim, ...]:
    """What PASTA's final accuracy is beside FedSGD's at the longest latency."""
    made = []
    for (data, top), (base, theirs) in PRINTED.items():
        setting, paper = place(data, top, 1000), round(theirs - base, 2)
        text = f"{setting}: PASTA's final accuracy less FedSGD's, points"
        made += [
            Claim(
                text, paper, rule.name, lost(rule.name, setting), "{:+.2f}".format, paper - POINTS
            )
            for rule in RULES
        ]
    return tuple(made)


STUDY = Study(
    about="PASTA, Table I: final accuracy on three data sets, two kinds of top model, four "
    "latencies",
    paper=f"{PAPER}, Table I",
    job="fmnist-pasta",
    settings=tuple(each for data, top in JOBS for each in settings(data, top)),
    arms=(FEDSGD, FEDBCD, FLEX, PASTA),
    rules=RULES,
    seeds=SEEDS,
    unit=UNITS,
    claims=claims(),
    notes=("NUS-WIDE, the paper's fourth data set, is left out: its features are not to be had.",),
    quick=brief(FEDSGD, FEDBCD, FLEX, PASTA, latencies=(1000, 5)),
)
