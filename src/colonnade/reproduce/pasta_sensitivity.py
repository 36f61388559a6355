"""PASTA, Tables II and III: more staleness and more batches in flight, on Fashion-MNIST."""

from __future__ import annotations

from colonnade.reproduce._pasta import (
    AGG,
    FEDSGD,
    PAPER,
    RULES,
    SEEDS,
    SPLIT,
    UNITS,
    brief,
    faster,
    place,
    settings,
)
from colonnade.study.design import Arm, Study

PRINTED = {
    (3, 2): (4.3, 3.2),
    (3, 3): (3.5, 4.4),
    (3, 4): (3.8, 4.6),
    (3, 6): (1.7, 4.8),
    (3, 8): (1.7, 4.8),
    (3, 10): (1.4, 4.6),
    (3, 12): (1.3, 4.3),
    (1, 4): (1.1, 1.4),
    (2, 4): (2.8, 3.2),
    (4, 4): (4.2, 6.5),
    (5, 4): (6.3, 7.2),
}
"""By B_max and s_max: how many times as fast as FedSGD, with AggVFL and with SplitVFL."""


def pasta(b_max: int, s_max: int) -> Arm:
    """PASTA with its two options."""
    return Arm(f"PASTA, B={b_max}, s={s_max}", {"name": "pasta", "b_max": b_max, "s_max": s_max})


ARMS = {options: pasta(*options) for options in PRINTED}

STUDY = Study(
    about="PASTA, Tables II and III: more staleness and more batches in flight, on Fashion-MNIST",
    paper=f"{PAPER}, Tables II and III",
    job="fmnist-pasta",
    settings=tuple(
        each for top in (AGG, SPLIT) for each in settings("Fashion-MNIST", top, (1000,))
    ),
    arms=(FEDSGD, *ARMS.values()),
    rules=RULES,
    seeds=SEEDS,
    unit=UNITS,
    claims=tuple(
        claim
        for options, printed in PRINTED.items()
        for top, paper in zip((AGG, SPLIT), printed, strict=True)
        for claim in faster(place("Fashion-MNIST", top, 1000), ARMS[options], paper=paper)
    ),
    quick=brief(FEDSGD, pasta(3, 2), pasta(3, 4), pasta(1, 4)),
)
