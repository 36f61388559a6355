"""FedBCD, Table I, MNIST-CNN: rounds to an AUC of 99.7 % on MNIST 3 versus 8.

Left and right halves, the paper's CNN, batches of 256. The paper names neither the optimizer nor
the initial weights, and says that the rate falls as η₀/√(r+1); the authors' published code has Adam
at a constant 1e-4, and filters that begin with a deviation of √(2/(channels in + channels out))
whatever the area of the kernel (`init = "fedbcd"`).
"""

from __future__ import annotations

from typing import Any

from colonnade.study.claims import cheaper
from colonnade.study.design import Arm, Claim, Rule, Setting, Study
from colonnade.study.findings import Findings

BASE = "FedSGD"
PAPER = {  # rounds
    BASE: 46,
    "FedBCD-p, Q=3": 16,
    "FedBCD-p, Q=5": 8,
    "FedBCD-s, Q=1": 48,
    "FedBCD-s, Q=3": 15,
    "FedBCD-s, Q=5": 9,
}
CODE = "initial weights of the code"
FALLING = "the same, falling rate"
TORCH = "torch's initial weights"


def setting(label: str, init: str, lr: float, rounds: int, **method: Any) -> Setting:
    """The CNN with these initial weights, and Adam with this rate."""
    sets = (
        f"train.rounds={rounds}",
        f"parties.*.model={{name='cnn', embedding=1, init='{init}'}}",
        f"parties.*.optimizer={{name='adam', lr={lr}}}",
    )
    return Setting(label, sets, method=method)


SETTINGS = (
    setting(CODE, "fedbcd", 1e-4, 60),
    # Over 44 rounds its rates come to the same sum as the constant one.
    setting(FALLING, "fedbcd", 4e-4, 60, rate="inverse_sqrt"),
    setting(TORCH, "default", 1e-4, 200),
)


def arm(order: str, updates: int) -> Arm:
    """FedBCD-p or FedBCD-s; the latter is left out with torch's initial weights."""
    table = {"name": "fedbcd", "updates": updates, "order": order}
    if order == "parallel":
        return Arm(BASE if updates == 1 else f"FedBCD-p, Q={updates}", table)
    return Arm(f"FedBCD-s, Q={updates}", table, settings=(CODE, FALLING))


ARMS = tuple(arm(order, updates) for order in ("parallel", "sequential") for updates in (1, 3, 5))


def rounds(label: str) -> Claim:
    """A cell of the paper's table."""

    def ours(found: Findings) -> float | None:
        return found.cost_of_all("paper", CODE, label)

    text = f"{label}: rounds to the target"
    return Claim(text, PAPER[label], "paper", ours, "{:.0f}".format, smaller=True)


def fewer(label: str, rule: str) -> Claim:
    """How many times fewer rounds than with one update."""
    than = BASE if "-p" in label else "FedBCD-s, Q=1"
    text = f"{label}: rounds of {than} to its own"
    return cheaper(text, (rule, CODE, label), paper=PAPER[than] / PAPER[label], than=than)


MANY = [label for label in PAPER if label[-1] in "35"]


PAPER_RULE = Rule(
    "paper",
    "The rate of the authors' code for all, the first of all rounds whose AUC on the test rows is "
    "99.7 %. For a rate that falls the paper states no η₀: 4e-4.",
    target=0.997,
    rates=("1x",),
    sets=("train.validation=0",),
)
STUDY = Study(
    about="FedBCD with one, three and five updates: rounds to an AUC of 99.7 % on MNIST 3 versus 8",
    paper="Liu et al., FedBCD, 2022, Table I",
    job="mnist-3v8",
    sets=("train.evaluate_every=1 round",),
    settings=SETTINGS,
    arms=ARMS,
    rules=(
        PAPER_RULE,
        Rule(
            "fair",
            "Each method at its own best of one grid of rates, chosen with another seed on the "
            "validation rows; there the AUC has to be 99.7 % for three rounds running.",
            target=0.997,
            rates=("0.5x", "1x", "2x", "5x", "10x"),
            growth=1,
            tuning_seeds=(10,),
            hold=3,
            sets=("train.validation=0.1",),
        ),
    ),
    seeds=(0, 1, 2),
    measure="round",
    claims=(
        *(rounds(label) for label in PAPER),
        *(fewer(label, rule) for rule in ("paper", "fair") for label in MANY),
    ),
    quick={
        "sets": ("train.evaluate_every=2 rounds",),
        "settings": (setting(CODE, "fedbcd", 1e-4, 20),),
        "arms": tuple(each for each in ARMS if each.settings is None),
        "rules": (PAPER_RULE,),
        "seeds": (0,),
    },
)
