"""FedBCD, Table I and Figs. 2, 3(a) and 3(b): how rounds depend on Q, and the proximal term.

The paper has a logistic regression on MIMIC-III (Q = 1, 5, 50, in parallel and one after the other)
and, for a large range of Q, networks with one hidden layer of 64 units on NUS-WIDE, trained by
transfer learning. Neither data set is to be had here: the credit data stand in for both, with the
person at one party and the payments at the other, and the networks are trained on all labels. What
Fig. 2 shows of MNIST is in `fedbcd-table1`.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from colonnade.reproduce.fedbcd_parties import HOLDERS, LOGISTIC, between, given
from colonnade.reproduce.fedbcd_parties import RULES as BASIC
from colonnade.study.claims import cheaper
from colonnade.study.design import Arm, Claim, Setting, Study
from colonnade.study.findings import Findings

LINEAR, NETWORK = "logistic regression", "networks"
MANY = (5, 10, 15, 25, 50, 100)
LARGE = (25, 50, 100)
MU = 0.1
NETWORKS = (
    "train.batch_size=256",
    "train.evaluate_every=2 rounds",
    "top={kind='agg'}",
    "parties.*.model={name='mlp', hidden=[64], embedding=1}",
    "parties.*.optimizer={name='sgd', lr=1.0}",
)
SETTINGS = tuple(
    Setting(label, (*sets, *between(HOLDERS[2])), method={"decay": "sqrt"})
    for label, sets in ((LINEAR, LOGISTIC), (NETWORK, NETWORKS))
)
BASE = "FedSGD"


def parallel(updates: int) -> str:
    """The name of an arm."""
    return f"FedBCD-p, Q={updates}"


def sequential(updates: int) -> str:
    """The name of an arm."""
    return f"FedBCD-s, Q={updates}"


def near(updates: int) -> str:
    """The name of an arm with the proximal term."""
    return f"FedPBCD-p, Q={updates}"


ARMS = (
    Arm(BASE, {"name": "fedbcd", "updates": 1}),
    *(
        Arm(
            parallel(updates),
            {"name": "fedbcd", "updates": updates},
            settings=(LINEAR, NETWORK) if updates in (5, 50) else (NETWORK,),
        )
        for updates in MANY
    ),
    *(
        Arm(near(updates), {"name": "fedbcd", "updates": updates, "mu": MU}, settings=(NETWORK,))
        for updates in LARGE
    ),
    *(
        Arm(
            sequential(updates),
            {"name": "fedbcd", "updates": updates, "order": "sequential"},
            settings=(LINEAR,),
        )
        for updates in (1, 5, 50)
    ),
)
TABLE = {
    BASE: 334, parallel(5): 71, parallel(50): 52,
    sequential(1): 407, sequential(5): 74, sequential(50): 52,
}  # fmt: skip
"""Rounds of MIMIC-LR to an AUC of 84 %."""


def fewer(rule: str, label: str) -> Claim:
    """How many times fewer rounds than with one update, on MIMIC-III and here."""
    than = sequential(1) if label.startswith("FedBCD-s") else BASE
    text = f"{LINEAR}, {label}: rounds of {than} to its own"
    return cheaper(text, (rule, LINEAR, label), paper=TABLE[than] / TABLE[label], than=than)


def optimum(rule: str) -> Claim:
    """There is a best Q, below the largest: how many times its rounds the largest needs."""

    def ours(found: Findings) -> float | None:
        costs = [found.cost_of_all(rule, NETWORK, parallel(updates)) for updates in MANY]
        known = [cost for cost in costs if cost is not None]
        last = costs[-1]
        if last is None or min(known) == inf:
            return None
        if last == inf:  # It would need more rounds than it had.
            last = float(max(row.rounds for row in found.of(rule, NETWORK, parallel(MANY[-1]))))
        return last / min(known)

    text = f"{NETWORK}: rounds at Q={MANY[-1]} to those at the best Q (the paper's: 15)"
    return Claim(text, None, rule, ours, "{:.1f}×".format, least=1.1)


def rescued(rule: str, updates: int) -> Claim:
    """What the proximal term adds to the AUC in the end."""

    def ours(found: Findings) -> float | None:
        gain = found.gain(rule, NETWORK, near(updates), "end", parallel(updates))
        return None if gain is None else 100 * gain[0]

    text = f"{NETWORK}, Q={updates}: points of AUC that the proximal term adds in the end"
    return Claim(text, None, rule, ours, "{:+.2f}".format, least=0.1)


RULES = tuple(replace(of, text=of.text.replace("√((r+1)K)", "√(r+1)")) for of in BASIC)
"""Those of the experiment with many parties, but for what the rate is divided by."""
STUDY = Study(
    about="FedBCD: rounds by the number of updates, one after the other, and with a proximal term",
    paper="Liu et al., FedBCD, 2022, Table I and Figs. 2, 3(a), 3(b)",
    job="credit",
    sets=("train.rounds=400",),
    settings=SETTINGS,
    arms=ARMS,
    rules=RULES,
    seeds=(0, 1, 2, 3, 4),
    measure="round",
    claims=tuple(
        claim
        for name in ("paper", "fair")
        for claim in (
            *(fewer(name, label) for label in TABLE if not label.endswith("Q=1") and label != BASE),
            optimum(name),
            *(rescued(name, updates) for updates in LARGE),
        )
    ),
    notes=("MIMIC-III and NUS-WIDE are not to be had here: the credit data stand in for both.",),
    quick={
        "sets": ("train.rounds=100",),
        "arms": tuple(each for each in ARMS if each.label not in (parallel(100), near(100))),
        "rules": (given(RULES[0]),),
        "seeds": (0,),
    },
)
