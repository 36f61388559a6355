"""Flex-VFL, Table III and Fig. 2: twelve parties at fixed speeds, even or as in Google's cluster.

The twelve views of ModelNet10 stand in for those of ModelNet40. Within the timeout of 20 units the
server does 20 updates; *evenly*, groups of three parties do 5, 10, 15 and 20, *typically* each
party and the server what the mean CPU use of a trace leaves, 20·(1 − c). MOSEI's column of the
table, three parties that do 5, 10 and 15, is told on three strips of MNIST, of which the third
party has the momentum.
"""

from __future__ import annotations

from dataclasses import replace

from colonnade.reproduce._flexvfl import (
    ARMS,
    COMMUNICATION,
    DIGITS,
    FLEX,
    LONGER,
    MISSES,
    MODELNET,
    OTHERS,
    PAPER,
    PBCD,
    SEEDS,
    STRIPS,
    SYNC_MAX,
    SYNC_MIN,
    UNITS,
    VAFL,
    Place,
    Printed,
    at,
    at_most,
    at_speeds,
    brief,
    far,
    faster,
    lasting_longer,
    printed_claims,
    rules,
    setting,
    stand_in,
    typical_updates,
    until,
)
from colonnade.study.design import Setting, Study
from colonnade.study.page import cost_column, figure_column

TIMEOUT, SERVER_UPDATES = 20, 20
GROUPS = (5, 10, 15, 20)
EVENLY = tuple(count for count in GROUPS for _ in range(3))
TARGET, STRIPS_TARGET = 0.75, 0.95
TYPICAL = replace(MODELNET, label="ModelNet10 views, speeds of Google's cluster")
PRINTED: Printed = {
    1: {PBCD.label: 44.51, VAFL.label: 52.27, SYNC_MIN.label: 32.34, SYNC_MAX.label: 84.82,
        FLEX.label: 25.23},
    10: {PBCD.label: 124.62, VAFL.label: 161.02, SYNC_MIN.label: 46.20, SYNC_MAX.label: 94.25,
         FLEX.label: 36.04},
    50: {PBCD.label: 480.66, VAFL.label: None, SYNC_MIN.label: 107.80, SYNC_MAX.label: 136.14,
         FLEX.label: 84.08},
}  # fmt: skip
"""Thousands of units to a top-5 accuracy of 70 %, at even speeds."""
MOSEI_UPDATES = (5, 10, 15)
MOSEI: Printed = {
    1: {PBCD.label: 5.22, VAFL.label: 7.63, SYNC_MIN.label: 13.69, SYNC_MAX.label: 26.41,
        FLEX.label: 6.85},
    10: {PBCD.label: 14.60, VAFL.label: 29.60, SYNC_MIN.label: 19.56, SYNC_MAX.label: 29.34,
         FLEX.label: 9.78},
    50: {PBCD.label: 56.33, VAFL.label: 96.09, SYNC_MIN.label: 45.64, SYNC_MAX.label: 42.38,
         FLEX.label: 22.82},
}  # fmt: skip
"""Thousands of units to a mean absolute error of 0.65."""


def evenly(place: Place, t_comm: float) -> Setting:
    """Groups of parties of four speeds."""
    updates = EVENLY if len(place.views) == len(EVENLY) else GROUPS
    return setting(place, t_comm, TIMEOUT, updates, SERVER_UPDATES)


def strips(t_comm: float) -> Setting:
    """MOSEI's speeds, and its optimizers: only the third party has momentum."""
    made = setting(STRIPS, t_comm, TIMEOUT, MOSEI_UPDATES, SERVER_UPDATES, STRIPS_TARGET)
    plain = {label: {**options, "momentum": 0.0} for label, options in made.options.items()}
    return replace(made, options=plain)


def typically(t_comm: float) -> Setting:
    """Speeds by the mean of a trace each; which they are, it takes the traces to know. Sync-Max
    goes by the fastest party with columns here."""

    def speeds() -> tuple[str, ...]:
        *updates, server = typical_updates(TYPICAL, TIMEOUT)
        return (at_speeds(TYPICAL, TIMEOUT, updates, int(server)),)

    return Setting(
        at(TYPICAL, t_comm),
        (*TYPICAL.sets, far(t_comm)),
        late=speeds,
        options=until(TIMEOUT, 1, 1),
        arm_sets=lasting_longer(TYPICAL),
    )


LABELS = [at(place, t_comm) for place in (MODELNET, TYPICAL, STRIPS) for t_comm in COMMUNICATION]
RULES = rules(TARGET)
STUDY = Study(
    about="Flex-VFL, Table III and Fig. 2: fixed speeds, even or typical, time by the distance",
    paper=f"{PAPER}, Table III, ModelNet40 and MOSEI, and Fig. 2",
    job="mnist-quadrants",
    settings=(
        *(evenly(MODELNET, t_comm) for t_comm in COMMUNICATION),
        *(typically(t_comm) for t_comm in (1, 50)),
        *(strips(t_comm) for t_comm in COMMUNICATION),
    ),
    arms=ARMS,
    rules=RULES,
    seeds=SEEDS,
    unit=UNITS,
    columns=(
        cost_column("round"),
        figure_column("local updates for each fresh one", "local_per_fresh", "{:.1f}".format),
    ),
    claims=(
        *(at_most(LABELS, 4.0, rule.name) for rule in RULES),
        *printed_claims(MODELNET, PRINTED),
        *(
            faster(at(TYPICAL, t_comm), other, None, rule.name, note=" (Fig. 2 has no figures)")
            for rule in RULES
            for t_comm in (1, 50)
            for other in OTHERS
        ),
        *printed_claims(STRIPS, MOSEI),
    ),
    notes=(stand_in(MODELNET), stand_in(STRIPS), LONGER, MISSES),
    quick=brief([evenly(DIGITS, 10)], RULES[0], ARMS, "0.3x"),
)
