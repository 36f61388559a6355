"""CELU-VFL, Table 2 and Fig. 5: what R, W and the weights of rows each do to rounds, and cosines.

The paper's grid on Wide & Deep and Criteo: R of 1, 3, 5 and 8 updates on a batch, worksets of 1, 3,
5 and 8 batches, and weights with ξ of 90°, 60° and 30°, or none. The credit data stand in for
Criteo. In the paper's last row, W = R = 5, the figures for 90° and 60° are not those that the rows
above it give for the same settings; each is taken as it is printed.

FedBCD stands beside it with R = 5 and 8, of which the text of section 5.3 says that it slows down
late, and fails to converge. Fig. 5(d) shows quantiles of cosines: with ξ = 90° the weights are the
cosines themselves, but for negative ones, which count 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.reproduce._celu import (
    ADAGRAD,
    BATCH,
    FEDSGD,
    PAPER,
    RULES,
    STEADY,
    brief,
    celu,
    fedbcd,
    figure_of,
    saved,
)
from colonnade.study.design import Arm, Claim, Rule, Setting, Study
from colonnade.study.findings import Findings
from colonnade.study.page import cost_column, figure_column

ONLY = "credit"
BCD, BCD8, FULL = fedbcd(5), fedbcd(8), celu(5, 5)
TABLE: tuple[tuple[Arm, Arm, float], ...] = (
    *((celu(5, 3, 90), FEDSGD, 0.5561), (celu(5, 5, 90), FEDSGD, 0.5952)),
    *((celu(5, 8, 90), FEDSGD, 0.5963), (celu(5, 3, 60), FEDSGD, 0.5456)),
    *((celu(5, 5, 60), FEDSGD, 0.5952), (celu(5, 8, 60), FEDSGD, 0.6037)),
    *((celu(3, 5, 90), celu(1, 5, 90), 0.1870), (celu(5, 5, 90), celu(1, 5, 90), 0.2215)),
    *((celu(8, 5, 90), celu(1, 5, 90), 0.1870), (celu(3, 5, 60), celu(1, 5, 60), 0.2046)),
    *((celu(5, 5, 60), celu(1, 5, 60), 0.2004), (celu(8, 5, 60), celu(1, 5, 60), 0.2067)),
    *((celu(3, 3, 90), celu(3, 3, None), 0.1511), (celu(3, 3, 60), celu(3, 3, None), 0.0936)),
    *((celu(3, 3, 30), celu(3, 3, None), 0.1252), (celu(5, 5, 90), celu(5, 5, None), 0.2247)),
    *((celu(5, 5, 60), celu(5, 5, None), 0.2368), (celu(5, 5, 30), celu(5, 5, None), 0.2247)),
)
"""Whose rounds are fewer than whose, and by which share."""
GRID = {arm.label: arm for own, than, _ in TABLE for arm in (than, own)}
ARMS = (FEDSGD, *(arm for arm in GRID.values() if arm != FEDSGD), BCD, BCD8)
COSINE = 0.5
"""What over 90 % of the cosines exceed, the paper says, *even in the fast converging period*."""


def fails(rule: Rule) -> Claim:
    """The share of FedBCD's seeds that reach the target with R = 8; in the paper none does."""

    def ours(found: Findings) -> float | None:
        cost = found.cost(rule.name, ONLY, BCD8.label)
        return cost.count / cost.of if cost.of else None

    text = f"{BCD8.label}: share of the seeds that reach the target"
    return Claim(text, 0.0, rule.name, ours, "{:.0%}".format, smaller=True)


def slows(rule: Rule) -> Claim:
    """FedBCD is slow late: by how much its AUC is below CELU's in the end."""

    def ours(found: Findings) -> float | None:
        gain = found.gain(rule.name, ONLY, FULL.label, "end", BCD.label)
        return None if gain is None else 100 * gain[0]

    text = f"points of AUC by which {BCD.label} is below {FULL.label} in the end (ours: 0.2)"
    return Claim(text, None, rule.name, ours, "{:+.2f}".format, least=0.2)


def agree(rule: Rule) -> Iterator[Claim]:
    """Fig. 5(d): what nine rows in ten exceed, in the last update on each exchange."""
    arm = celu(5, 5, 90)
    for name, when in (("p10", "mean over the rounds"), ("p10_min", "the least of all rounds")):
        text = f"{arm.label}: a cosine that 90 % of the rows exceed, {when}"
        ours = figure_of(rule, ONLY, arm, name)
        yield Claim(text, COSINE, rule.name, ours, "{:.2f}".format, least=COSINE)


STUDY = Study(
    about="CELU-VFL: rounds by R, W and ξ, each ingredient with and without",
    paper=f"{PAPER}, Table 2 and Fig. 5",
    job="credit",
    sets=(
        *(f"train.batch_size={BATCH}", "train.rounds=360", "train.evaluate_every=2 rounds"),
        *(ADAGRAD, "network.latency=2s"),
    ),
    settings=(Setting(ONLY),),
    arms=ARMS,
    rules=RULES,
    seeds=(0, 1, 2, 3, 4),
    measure="round",
    claims=tuple(
        claim
        for rule in RULES
        for claim in (
            *(saved(ONLY, own, than, share, rule) for own, than, share in TABLE),
            slows(rule),
            fails(rule),
            *agree(rule),
        )
    ),
    columns=(
        cost_column("steady_round"),
        figure_column("local/fresh", "local_per_fresh", "{:.2f}".format),
    ),
    notes=(*STEADY, "the credit data stand in for Criteo; R = 1 is FedSGD"),
    quick=brief(FEDSGD, celu(1, 5), celu(5, 5), celu(5, 5, None), BCD),
)
