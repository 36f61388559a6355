"""Adaptive Flex-VFL, Fig. 4: rates that follow speeds that change, beside one for the fastest.

The speeds of all parties and of the server follow CPU traces of Google's cluster: an update takes
(1 − c)⁻¹ units where the CPU is used to the share c, which changes in every round. Adaptive
Flex-VFL has the rate A/(τ·w̄) with τ and w̄ of the party's round before, the static form A/(τ·w̄)
with the most updates that there can be. The timeout is 10 units on ModelNet40 and 20 on MOSEI, and
t_comm is 1. ModelNet10 and the strips of MNIST stand in for them.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from colonnade.reproduce._flexvfl import (
    DIGITS,
    FLEX,
    MISSES,
    MODELNET,
    MOMENTUM,
    PAPER,
    SEEDS,
    SERVER,
    STRIPS,
    UNIT_NS,
    UNITS,
    Place,
    brief,
    far,
    largest_weight,
    on_traces,
    rules,
    stand_in,
)
from colonnade.reproduce.flexvfl_fixed import STRIPS_TARGET, TARGET
from colonnade.study.design import Arm, Claim, Setting, Study
from colonnade.study.findings import Findings
from colonnade.study.page import cost_column, figure_column

T_COMM = 1
SAVED = 0.3
"""The abstract's: up to 30 % less time; Fig. 4 itself has no figures but the text's, about 130 and
70 units earlier."""
BASE = "Flex-VFL, static"
ADAPTIVE = "Adaptive Flex-VFL"
ARMS = (Arm(BASE, FLEX.method), Arm(ADAPTIVE, {**FLEX.method, "adaptive": True}))


def changing(place: Place, timeout: int, target: float | None = None) -> Setting:
    """A place whose parties' speeds follow traces. The place's own rate is the static one, and A
    what the static rate is made of: as many times as much as τ·w̄ can come to."""
    alike = not place.steps  # else only those that are named have momentum
    scales = {
        name: timeout * (largest_weight(timeout) if alike or name in place.steps else 1.0)
        for name in (SERVER, *place.views)
    }
    own = {"timeout": f"{timeout * UNIT_NS}ns", "momentum": MOMENTUM if alike else 0.0}
    return Setting(
        place.label,
        (*place.sets, far(T_COMM)),
        target=target,
        late=lambda: (on_traces(place, timeout, T_COMM),),
        options=dict.fromkeys((BASE, ADAPTIVE), own),
        arm_sets={
            ADAPTIVE: tuple(
                f"parties.{name}.optimizer.lr={place.lr * scale:.6g}"
                for name, scale in scales.items()
            )
        },
    )


def saved(place: Place, paper: float, rule: str) -> Claim:
    """How much less time the adaptive form takes, as a share of the static one's."""

    def ours(found: Findings) -> float | None:
        return found.saved_of_all(rule, place.label, ADAPTIVE)

    text = f"{place.label}: less time to the target than with static rates, up to"
    return Claim(text, paper, rule, ours, share)


def share(value: float) -> str:
    """A share of time that is saved, for a claim.

    >>> share(0.3), share(-0.05), share(-inf)
    ('30 %', '−5 %', 'missed')
    """
    return "missed" if value == -inf else f"{100 * value:.0f} %".replace("-", "−")


GIVEN, FAIR = rules(TARGET)
RULES = (
    replace(
        GIVEN,
        text="One A for both, at which the training loss of the static form is lowest in the end; "
        "evaluated on the test rows; the first touch of the target. The paper gives its A and not "
        "how it was chosen.",
        shared=True,
    ),
    FAIR,
)
STUDY = Study(
    about="Adaptive Flex-VFL, Fig. 4: rates that follow the parties' speeds, beside static ones",
    paper=f"{PAPER}, Fig. 4",
    job="mnist-quadrants",
    settings=(changing(MODELNET, 10), changing(STRIPS, 20, STRIPS_TARGET)),
    arms=ARMS,
    rules=RULES,
    seeds=SEEDS,
    unit=UNITS,
    columns=(
        cost_column("round"),
        figure_column("local updates for each fresh one", "local_per_fresh", "{:.1f}".format),
    ),
    claims=tuple(saved(place, SAVED, rule.name) for rule in RULES for place in (MODELNET, STRIPS)),
    notes=(
        stand_in(MODELNET),
        stand_in(STRIPS),
        MISSES,
        "The adaptive form's rate is told as A, the static one's as it is: at the same multiple "
        "they have the same A.",
    ),
    quick=brief([changing(DIGITS, 10)], GIVEN, ARMS, "0.5x"),
)
