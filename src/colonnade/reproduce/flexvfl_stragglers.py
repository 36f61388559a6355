"""Flex-VFL, Table III, ImageNet100: four parties of which the fastest is four times the slowest.

The quadrants of MNIST stand in for those of ImageNet100. Within the timeout of 10 units the parties
do 2, 4, 6 and 8 updates and the server 10.
"""

from __future__ import annotations

from colonnade.reproduce._flexvfl import (
    ARMS,
    COMMUNICATION,
    DIGITS,
    FLEX,
    LONGER,
    MISSES,
    MNIST,
    PAPER,
    PBCD,
    SEEDS,
    SYNC_MAX,
    SYNC_MIN,
    UNITS,
    VAFL,
    Place,
    Printed,
    brief,
    printed_claims,
    rules,
    setting,
    stand_in,
)
from colonnade.study.design import Setting, Study
from colonnade.study.page import cost_column, figure_column

TIMEOUT, SERVER_UPDATES = 10, 10
UPDATES = (2, 4, 6, 8)
TARGET = 0.95
PRINTED: Printed = {
    1: {PBCD.label: 73.06, VAFL.label: 89.59, SYNC_MIN.label: 299.48, SYNC_MAX.label: 520.05,
        FLEX.label: 113.26},
    10: {PBCD.label: 182.66, VAFL.label: None, SYNC_MIN.label: 544.50, SYNC_MAX.label: 611.82,
         FLEX.label: 205.92},
    50: {PBCD.label: 669.74, VAFL.label: None, SYNC_MIN.label: 1633.50, SYNC_MAX.label: 1019.70,
         FLEX.label: 617.76},
}  # fmt: skip
"""Thousands of units to a top-5 accuracy of 60 %."""


def straggling(place: Place, t_comm: float) -> Setting:
    """Four parties at these speeds."""
    return setting(place, t_comm, TIMEOUT, UPDATES, SERVER_UPDATES)


RULES = rules(TARGET)
STUDY = Study(
    about="Flex-VFL, Table III: four parties of different speed, time to a target by the distance",
    paper=f"{PAPER}, Table III, ImageNet100",
    job="mnist-quadrants",
    settings=tuple(straggling(MNIST, t_comm) for t_comm in COMMUNICATION),
    arms=ARMS,
    rules=RULES,
    seeds=SEEDS,
    unit=UNITS,
    columns=(
        cost_column("round"),
        figure_column("local updates for each fresh one", "local_per_fresh", "{:.1f}".format),
    ),
    claims=printed_claims(MNIST, PRINTED),
    notes=(stand_in(MNIST), LONGER, MISSES),
    quick=brief([straggling(DIGITS, 50)], RULES[0], ARMS, "1x"),
)
