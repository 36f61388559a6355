"""C-VFL, Table 5: time to a target with 1, 10 and 25 updates on a snapshot, by communication time.

A mini-batch takes each party 10 ms, and the communication of a round t_c = 1, 10, 50 or 200 ms in
all, there and back. The paper's times are exactly rounds × (t_c + Q·10 ms), for one number of
rounds at each Q; here links take half of t_c one-way and have no bandwidth, and each update 10 ms,
which is the same clock. The lattice has 3 bits. The paper's data set is MIMIC-III, for which the
credit data stand in.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.reproduce._cvfl import CREDIT, F1, PAPER, SHARED, STANDS_IN, given, tuned
from colonnade.study.claims import cheaper
from colonnade.study.design import Arm, Claim, Setting, Study
from colonnade.study.page import cost_column, told_column

COMMUNICATION = (1, 10, 50, 200)
"""t_c in milliseconds."""
UPDATES = (1, 10, 25)
BITS = 3
PRINTED = {
    1: {1: 694.53, 10: 470.86, 25: 445.21},
    10: {1: 1262.78, 10: 512.82, 25: 461.17},
    50: {1: 3788.32, 10: 699.30, 25: 532.12},
    200: {1: 13259.14, 10: 1398.60, 25: 798.19},
}
"""Seconds to an F1 of 0.45 on MIMIC-III, by t_c and Q."""


def arm(q: int) -> Arm:
    """C-VFL with so many updates on a snapshot."""
    return Arm(f"Q={q}", {"name": "cvfl", "q": q, "compressor": f"lattice:{BITS}"})


def place(data: str, t_c: int) -> str:
    """What a setting is called."""
    return f"{data}, {t_c} ms"


def clock(t_c: int) -> tuple[str, ...]:
    """A round takes t_c and 10 ms for every update, and nothing else does."""
    return (
        f"network={{latency='{1000 * t_c // 2}us'}}",
        "compute={forward='5ms', backward='5ms'}",
    )


def settings(data: str, job: str, *sets: str, target: float) -> tuple[Setting, ...]:
    """A data set at all communication times: trained and tuned at the first, since nothing that is
    learnt depends on the clock, and clocked again at the others."""
    first = place(data, COMMUNICATION[0])
    return tuple(
        Setting(
            place(data, t_c),
            (*sets, *clock(t_c)),
            job,
            like=None if t_c == COMMUNICATION[0] else first,
            target=target,
        )
        for t_c in COMMUNICATION
    )


DATA = "credit"
ARMS = tuple(arm(q) for q in UPDATES)
BRIEF = settings(
    "digits",
    "digits",
    *SHARED,
    *("train.epochs=8", "train.evaluate_every=5 rounds"),
    target=0.5,
)


def faster(rule: str) -> Iterator[Claim]:
    """How many times as fast as with one update."""
    for t_c, printed in PRINTED.items():
        for q in UPDATES[1:]:
            cell = (rule, place(DATA, t_c), f"Q={q}")
            text = f"t_c = {t_c} ms: Q={q} as many times as fast as Q=1"
            yield cheaper(text, cell, paper=printed[1] / printed[q])


STUDY = Study(
    about="C-VFL with 1, 10 and 25 updates on a snapshot: time to a target by communication time",
    paper=f"{PAPER}, Table 5",
    job="credit",
    settings=settings(DATA, "credit", *CREDIT, target=F1),
    arms=ARMS,
    rules=tuned(None, of="Q=1"),
    seeds=(0, 1, 2, 3, 4),
    claims=(*faster("paper"), *faster("fair")),
    columns=(
        cost_column("round"),
        told_column(
            "paper's time",
            {
                (place(DATA, t_c), f"Q={q}"): f"{seconds:,.0f} s"
                for t_c, printed in PRINTED.items()
                for q, seconds in printed.items()
            },
        ),
    ),
    notes=(STANDS_IN, f"The target, an F1 of {F1:g}, is the paper's figure."),
    quick={"settings": BRIEF, "rules": (given("2x"),), "seeds": (0,)},
)
