"""Flex-VFL, Table II: each party its own optimizer, beside one for all.

In the paper three parties hold a video, its sound and its text (MOSEI); the first two train LSTMs,
the third BERT. Each kind has plain SGD or SGD with local momentum. All have the same speed: 20
updates within the timeout, and t_comm is 10. Here three parties hold a view each of ModelNet10, or
a strip each of MNIST; the first two have a network with one hidden layer, the third convolutions.
"""

from __future__ import annotations

from dataclasses import replace

from colonnade.reproduce._flexvfl import (
    DIGITS,
    MISSES,
    MODELNET,
    MOMENTUM,
    PAPER,
    SEEDS,
    STRIPS,
    UNIT_NS,
    UNITS,
    Place,
    at_speeds,
    brief,
    far,
    largest_weight,
    rules,
)
from colonnade.study.claims import times_text
from colonnade.study.design import Arm, Claim, Setting, Study
from colonnade.study.findings import Findings
from colonnade.study.page import cost_column

TIMEOUT, T_COMM = 20, 10
SMALL, THIRD = ("one", "two"), "three"
"""The parties in the place of video and audio, and that in the place of the text."""
SGD, LOCAL = "SGD", "local momentum"
PRINTED = {(SGD, SGD): 64.55, (LOCAL, SGD): 35.21, (SGD, LOCAL): 29.34, (LOCAL, LOCAL): 41.08}
"""By the optimizers of video and audio and of the text, thousands of units."""


def mixed(plain: str, convolution: str) -> dict[str, str]:
    """The models of the three parties."""
    return {**dict.fromkeys(SMALL, plain), THIRD: convolution}


VIEWS = replace(
    MODELNET,
    label="three views of ModelNet10",
    views={"one": "channels 0:1", "two": "channels 4:5", "three": "channels 8:9"},
    model=mixed(str(MODELNET.model), "{name='cnn', channels=4, hidden=32, embedding=16}"),
    rounds=300,
)
PIECES = replace(
    STRIPS,
    label="three strips of MNIST",
    model=mixed(str(STRIPS.model), "{name='cnn', channels=8, hidden=32, embedding=32}"),
    rounds=400,
    steps={},
)
FEW = replace(
    DIGITS,
    label="digits strips",
    views=STRIPS.views,
    model=mixed(str(DIGITS.model), "{name='mlp', hidden=[16, 16], embedding=8}"),
)


def label(small: str, third: str) -> str:
    """What an arm is called."""
    return f"{small} / {third}"


def arm(small: str, third: str) -> Arm:
    """Flex-VFL with these optimizers. A party with momentum has 1/w̄ of the others' rate, as the
    paper's bound on rates (14) has it; the server has plain SGD."""
    with_momentum = [
        *(SMALL if small == LOCAL else ()),
        *((THIRD,) if third == LOCAL else ()),
    ]
    sets = tuple(f"parties.{name}.step=local_momentum:{MOMENTUM}" for name in with_momentum)
    return Arm(label(small, third), {"name": "flexvfl", "timeout": f"{TIMEOUT * UNIT_NS}ns"}, sets)


ARMS = tuple(arm(*names) for names in PRINTED)
BASE = label(SGD, SGD)


def equally_fast(place: Place, target: float | None = None) -> Setting:
    """Three parties of the same speed."""
    updates = [TIMEOUT for _ in place.views]
    low = place.lr / largest_weight(TIMEOUT)
    return Setting(
        place.label,
        (*place.sets, far(T_COMM), at_speeds(place, TIMEOUT, updates, TIMEOUT)),
        target=target,
        arm_sets={
            each.label: tuple(
                f"{text.partition('.step=')[0]}.optimizer.lr={low:.4g}" for text in each.sets
            )
            for each in ARMS
        },
    )


def sooner(place: Place, own: tuple[str, str], than: tuple[str, str], rule: str) -> Claim:
    """How many times as fast a combination is as another."""

    def ours(found: Findings) -> float | None:
        return found.times_of_all(rule, place.label, label(*own), label(*than))

    text = f"{place.label}: {label(*own)} as many times as fast as {label(*than)}"
    return Claim(text, PRINTED[than] / PRINTED[own], rule, ours, times_text)


RULES = rules(0.75)
PIECES_TARGET = 0.95
STUDY = Study(
    about="Flex-VFL, Table II: each party its own optimizer, beside one for all",
    paper=f"{PAPER}, Table II",
    job="mnist-quadrants",
    settings=(equally_fast(VIEWS), equally_fast(PIECES, PIECES_TARGET)),
    arms=ARMS,
    rules=RULES,
    seeds=SEEDS,
    unit=UNITS,
    columns=(cost_column("round"),),
    claims=tuple(
        sooner(place, own, than, rule.name)
        for rule in RULES
        for place in (VIEWS, PIECES)
        for own, than in (
            *((each, (SGD, SGD)) for each in PRINTED if each != (SGD, SGD)),
            ((SGD, LOCAL), (LOCAL, LOCAL)),
        )
    ),
    notes=(
        "Views of ModelNet10 and strips of MNIST stand in for MOSEI, which is not to be had here, "
        "networks with a hidden layer for LSTMs, and convolutions for BERT.",
        "Names are those of the optimizers of the first two parties and of the third.",
        MISSES,
    ),
    quick=brief([equally_fast(FEW)], RULES[0], ARMS, "1x"),
)
