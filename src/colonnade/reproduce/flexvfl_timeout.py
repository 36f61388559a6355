"""Flex-VFL, Table IV: timeouts of 20 to 40 units, beside as many updates of all parties.

Twelve parties of which the fastest does an update in one unit, as in `flexvfl-fixed`; t_comm is 10.
The views of ModelNet10 stand in for those of ModelNet40.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from colonnade.reproduce._flexvfl import (
    DIGITS,
    FLEX,
    MISSES,
    MODELNET,
    PAPER,
    SEEDS,
    SYNC_MAX,
    UNITS,
    Place,
    brief,
    faster,
    rules,
    setting,
    stand_in,
)
from colonnade.reproduce.flexvfl_fixed import EVENLY, GROUPS, TARGET
from colonnade.reproduce.flexvfl_fixed import TIMEOUT as UNIT_TIMEOUT
from colonnade.study.claims import times_text
from colonnade.study.design import Arm, Claim, Setting, Study
from colonnade.study.findings import Findings
from colonnade.study.page import cost_column, figure_column

T_COMM = 10
PRINTED = {20: (36.04, 94.25), 25: (30.49, 72.07), 30: (24.02, 60.98), 35: (22.18, 58.21),
           40: (33.26, 85.93)}  # fmt: skip
"""By timeout, thousands of units of Flex-VFL and of Sync-Max."""
SHORTEST, BEST, LONGEST = 20, 35, 40
ARMS = (SYNC_MAX, FLEX)


def name(timeout: int) -> str:
    """What a setting is called."""
    return f"timeout {timeout}"


def lasting(place: Place, timeout: int, groups: Sequence[int] = EVENLY) -> Setting:
    """So long a timeout at the same speeds, into which the more updates fit."""
    updates = [timeout * count / UNIT_TIMEOUT for count in groups]
    return replace(setting(place, T_COMM, timeout, updates, timeout), label=name(timeout))


def sooner(rule: str, arm: Arm, timeout: int, than: int, place: int) -> Claim:
    """How many times as fast an arm is with one timeout as with another."""

    def ours(found: Findings) -> float | None:
        own = found.cost_of_all(rule, name(timeout), arm.label)
        other = found.cost_of_all(rule, name(than), arm.label)
        if own is None or other is None or other == float("inf"):
            return None
        return other / own

    text = f"{arm.label}: with {timeout} units as many times as fast as with {than}"
    paper = PRINTED[than][place] / PRINTED[timeout][place]
    return Claim(text, paper, rule, ours, times_text)


GIVEN, FAIR = rules(TARGET)
RULES = (
    replace(
        GIVEN,
        text=f"{GIVEN.text} The rates are those of a timeout of {SHORTEST} units: the paper chose "
        "one for each data set and algorithm.",
        tuned_in=name(SHORTEST),
    ),
    replace(FAIR, text=f"{FAIR.text} Each timeout has its own rates."),
)
STUDY = Study(
    about="Flex-VFL, Table IV: time to a target by the timeout, 20 to 40 units",
    paper=f"{PAPER}, Table IV",
    job="mnist-quadrants",
    settings=tuple(lasting(MODELNET, timeout) for timeout in PRINTED),
    arms=ARMS,
    rules=RULES,
    seeds=SEEDS[:3],
    unit=UNITS,
    columns=(
        cost_column("round"),
        figure_column("local updates for each fresh one", "local_per_fresh", "{:.1f}".format),
    ),
    claims=tuple(
        claim
        for rule in RULES
        for claim in (
            *(
                faster(name(timeout), SYNC_MAX, sync / flex, rule.name)
                for timeout, (flex, sync) in PRINTED.items()
            ),
            *(
                sooner(rule.name, arm, BEST, than, place)
                for place, arm in enumerate((FLEX, SYNC_MAX))
                for than in (SHORTEST, LONGEST)
            ),
        )
    ),
    notes=(stand_in(MODELNET), MISSES),
    quick=brief([lasting(DIGITS, timeout, GROUPS) for timeout in (20, 40)], GIVEN, ARMS, "0.1x"),
)
