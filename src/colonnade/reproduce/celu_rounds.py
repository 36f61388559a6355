"""CELU-VFL: how many rounds fewer than FedSGD and FedBCD take to the same AUC.

The paper reports that W = 5, R = 5 saves about 60 % of FedSGD's rounds and 20 % of those of W = 1,
which it takes for FedBCD, of Wide & Deep on Criteo. Here tables stand in for that, with the paper's
optimizer and batches. Messages take two seconds, so all of CELU's local updates fit.

Rounds are counted twice, as a run whose AUC goes up and down a lot touches a target early: to the
first evaluation at the target, and until the mean of the last five is at it.
"""

from __future__ import annotations

from colonnade.reproduce._celu import (
    ADAGRAD,
    BATCH,
    FEDSGD,
    PAPER,
    RULES,
    STEADY,
    TENSORFLOW,
    brief,
    celu,
    fedbcd,
    saved,
)
from colonnade.study.design import Cost, Setting, Study
from colonnade.study.page import cost_column, figure_column

LARGE = (f"train.batch_size={BATCH}", "train.rounds=360", "train.evaluate_every=2 rounds")
SMALL = ("train.batch_size=256", "train.rounds=940", "train.evaluate_every=5 rounds")
SETTINGS = (
    Setting("credit, AdaGrad, 4096 rows", (*LARGE, ADAGRAD)),
    Setting("credit, TensorFlow's AdaGrad, 4096 rows", (*LARGE, TENSORFLOW)),
    Setting("credit, AdaGrad, 256 rows", (*SMALL, ADAGRAD)),
    Setting("gmsc, AdaGrad, 4096 rows", (*LARGE, ADAGRAD), "gmsc"),
)
FEDBCD, CELU = fedbcd(), celu()
ARMS = (FEDSGD, FEDBCD, CELU, celu(degrees=None))
SAVES = ((FEDSGD, 0.5952), (FEDBCD, 0.2004))
"""Table 2, W = 5, R = 5, 60°, to R = 1 and to W = 1."""
COUNTS: tuple[Cost, ...] = ("round", "steady_round")

STUDY = Study(
    about="CELU-VFL: rounds to an AUC, against FedSGD and FedBCD",
    paper=f"{PAPER}, Table 2",
    job="credit",
    sets=("network.latency=2s",),
    settings=SETTINGS,
    arms=ARMS,
    rules=RULES,
    seeds=(0, 1, 2, 3, 4),
    measure="round",
    claims=tuple(
        saved(setting.label, CELU, than, paper, rule, measure)
        for rule in RULES
        for setting in SETTINGS
        for measure in COUNTS
        for than, paper in SAVES
    ),
    columns=(
        cost_column("steady_round"),
        figure_column("local/fresh", "local_per_fresh", "{:.2f}".format),
    ),
    notes=(
        *STEADY,
        "credit and gmsc stand in for Criteo; the paper has batches of 4096 rows, and its authors "
        "TensorFlow's AdaGrad, whose sums begin at 0.1 and not at 0",
    ),
    quick=brief(*ARMS),
)
