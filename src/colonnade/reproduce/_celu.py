"""What the experiments of the CELU-VFL paper have in common: arms, rules, settings and claims.

The paper trains with AdaGrad and batches of 4096 rows, exchanges embeddings of 256 numbers, and
tunes the rate for FedSGD alone (*vanilla* there). It does not say which rates it tried, which AUC
is the target, nor which rows that is measured on. Here the target is FedSGD's AUC in the end less
0.002, on the test rows; every rate is chosen with other seeds, on validation rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import cos, radians

from colonnade.study.claims import saves
from colonnade.study.design import Arm, Below, Claim, Cost, Rule, Setting
from colonnade.study.findings import Findings

PAPER = "Fu et al., CELU-VFL, 2022"
BATCH = 4096
DEGREES = 60
MARGIN = 0.002
"""Of AUC: how far below FedSGD's end the target is."""
ADAGRAD = "parties.*.optimizer={name='adagrad', lr=0.01}"
"""torch's own, whose sums begin at 0."""
TENSORFLOW = "parties.*.optimizer={name='adagrad', lr=0.1, initial_accumulator_value=0.1}"
"""The one that the authors used, whose sums begin at 0.1."""
FEDSGD = Arm("FedSGD", {"name": "fedsgd"})
STEADY = (
    "steady: until the mean of the last five evaluations is at the target; the other count is to "
    "the first evaluation at it, by the fair rule to the first of three in a row",
    "runs are evaluated on the test rows; nothing was chosen by these but the rounds of `best` and "
    "`test`, so compare `end`, the mean of a run's last five evaluations",
)
"""Notes for the tables of all of them."""


def threshold(degrees: int) -> float:
    """The paper's ξ, an angle, as a cosine.

    >>> threshold(90), threshold(60), threshold(30)
    (0.0, 0.5, 0.866)
    """
    return round(cos(radians(degrees)), 3)


def celu(w: int = 5, r: int = 5, degrees: int | None = DEGREES) -> Arm:
    """CELU-VFL; without an angle its rows are not weighed.

    >>> celu().label, celu(3, 3, None).label
    ('CELU, W=5, R=5, 60°', 'CELU, W=3, R=3, unweighed')
    """
    options = {"weigh": False} if degrees is None else {"threshold": threshold(degrees)}
    name = f"CELU, W={w}, R={r}, " + ("unweighed" if degrees is None else f"{degrees}°")
    return Arm(name, {"name": "celu", "w": w, "r": r, **options})


def fedbcd(r: int = 5) -> Arm:
    """FedBCD, which does all updates on a batch before the next is sent."""
    return Arm(f"FedBCD, R={r}", {"name": "fedbcd", "updates": r})


def in_background(r: int = 5) -> Arm:
    """FedBCD as the paper has it in Algorithm 1, *in the background*: while the next batch is on
    its way."""
    table = {"name": "celu", "w": 1, "r": r, "weigh": False}
    return Arm(f"FedBCD, R={r}, in the background", table)


RATES = ("0.3x", "1x", "3x", "10x")
GIVEN = Rule(
    "paper",
    "One rate for all, with which FedSGD ends highest, chosen with other seeds on validation rows. "
    f"The first evaluation at what FedSGD has in the end, less {MARGIN:g}.",
    Below(MARGIN),
    RATES,
    shared=True,
    by="end",
    tuning_seeds=(10, 11),
    growth=2,
    sets=("train.validation=0",),
    tuning_sets=("train.validation=0.1",),
)
FAIR = replace(
    GIVEN,
    name="fair",
    text="Each method at its own best of one grid of rates, which grows while a best one is at its "
    "end, chosen with other seeds on validation rows; the target, what FedSGD has in the end less "
    f"{MARGIN:g}, has to be held for three evaluations.",
    shared=False,
    by="cost",
    hold=3,
)
RULES = (GIVEN, FAIR)


def saved(
    setting: str,
    arm: Arm,
    than: Arm,
    paper: float | None,
    rule: Rule,
    measure: Cost = "round",
) -> Claim:
    """The share of another's rounds that an arm saves, over all seeds."""

    how = ", steady" if measure.startswith("steady") else ""
    text = f"{setting}: share of {than.label}'s rounds that {arm.label} saves{how}"
    cell = (rule.name, setting, arm.label)
    return saves(text, cell, paper=paper, than=than.label, measure=measure)


def brief(*arms: Arm, sets: tuple[str, ...] = ()) -> dict[str, object]:
    """The quick form: scikit-learn's table of breast cancer, one rate and one seed."""
    rule = replace(
        GIVEN,
        text="One rate for all, as given.",
        target=Below(0.01),
        rates=("1x",),
        tuning_seeds=(),
        tuning_sets=(),
        by="cost",
    )
    own = ("train.rounds=150", "train.batch_size=64", "train.evaluate_every=2 rounds", ADAGRAD)
    return {
        "settings": (Setting("breast cancer", (*own, *sets), "breast-cancer"),),
        "arms": tuple(replace(arm, settings=None, like=None) for arm in arms),
        "rules": (rule,),
        "seeds": (0,),
    }


def figure_of(rule: Rule, setting: str, arm: Arm, name: str) -> Callable[[Findings], float | None]:
    """How an arm's rows were weighed (`row_weights` of a run's summary): the least of all parties,
    mean over the seeds."""

    def ours(found: Findings) -> float | None:
        courses = found.courses(rule.name, setting, arm.label)
        least = [
            min(own[name] for own in weights.values())
            for course in courses
            if (weights := course.spent.get("row_weights"))
        ]
        return sum(least) / len(least) if least else None

    return ours
