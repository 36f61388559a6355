"""C-VFL, Algorithm 2 and Table D.1: gradients with one update, beside snapshots with several.

In Algorithm 2 the server sends each party the gradient of its embedding, so labels stay private,
and between a server and four parties a round has half as many numbers and no top model; but only
one update follows. As in the paper gradients are sent as they are; an arm beside it compresses them
too. With one update both algorithms are plain split training, unless what is sent is compressed:
then a party of Algorithm 1 uses its own embedding as it is. The paper's data set is MIMIC-III, for
which the credit data stand in.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.reproduce._cvfl import CREDIT, F1, PAPER, SHARED, STANDS_IN, given, tuned
from colonnade.study.claims import ahead, cheaper, saves
from colonnade.study.design import Arm, Claim, Setting, Study
from colonnade.study.page import cost_column, figure_column, saved_column, told_column
from colonnade.units import show_bytes

LATTICE = "lattice:3"
PRINTED = {1: (4517.59, 433.28), 10: (3777.21, 330.47), 25: (1536.69, 125.09)}
"""By Q, the megabytes to an F1 of 0.4 on MIMIC-III, without compression and with the lattice of 3
bits; Q = 1 is Algorithm 2."""
POINTS = 1.0
"""What the F1 may be lower by; ours."""
GRADIENTS = "Algorithm 2, Q=1"
BOTH = f"{GRADIENTS}, {LATTICE} both ways"
PRIVATE = ("train.labels=private",)


def arm(label: str, **method: object) -> Arm:
    """C-VFL with these options; only snapshots need shared labels."""
    sets = PRIVATE if method.get("exchange") == "gradients" else ()
    return Arm(label, {"name": "cvfl", **method}, sets)


def snapshots(q: int, codec: str) -> str:
    """The name of an arm."""
    return f"Algorithm 1, Q={q}, {codec}"


ARMS = (
    arm(f"{GRADIENTS}, plain", q=1, compressor="plain", exchange="gradients"),
    arm(f"{GRADIENTS}, {LATTICE}", q=1, compressor=LATTICE, exchange="gradients"),
    arm(BOTH, q=1, compressor=LATTICE, exchange="gradients", both=True),
    *(
        arm(snapshots(q, codec), q=q, compressor=codec)
        for q in PRINTED
        for codec in ("plain", LATTICE)
    ),
)
DATA = "credit"


def claims(rule: str) -> Iterator[Claim]:
    """What compression and local updates save, and what compression costs."""
    for label in (f"{GRADIENTS}, {LATTICE}", BOTH):
        (whole, small), than = PRINTED[1], f"{GRADIENTS}, plain"
        text = f"{label}: bytes saved of {than}"
        yield saves(text, (rule, DATA, label), paper=1 - small / whole, than=than)
        text = f"{label}: points of F1 in the end above plain (ours: −{POINTS:g})"
        yield ahead(text, (rule, DATA, label), "end", least=-POINTS)
    for q in (10, 25):
        (whole, small), plain, lattice = PRINTED[q], snapshots(q, "plain"), snapshots(q, LATTICE)
        text = f"{lattice}: bytes saved of {plain}"
        yield saves(text, (rule, DATA, lattice), paper=1 - small / whole, than=plain)
        for label, than, ratio in (
            (plain, f"{GRADIENTS}, plain", PRINTED[1][0] / whole),
            (lattice, f"{GRADIENTS}, {LATTICE}", PRINTED[1][1] / small),
            (lattice, BOTH, PRINTED[1][1] / small),
        ):
            text = f"{label}: as many times fewer bytes than {than}"
            yield cheaper(text, (rule, DATA, label), paper=ratio, than=than)


TABLE = {
    f"{GRADIENTS}, plain": PRINTED[1][0],
    f"{GRADIENTS}, {LATTICE}": PRINTED[1][1],
    **{
        snapshots(q, codec): PRINTED[q][place]
        for q in (10, 25)
        for place, codec in enumerate(("plain", LATTICE))
    },
}
STUDY = Study(
    about="C-VFL's Algorithm 2, plain and compressed, beside snapshots: bytes and accuracy",
    paper=f"{PAPER}, Algorithm 2 and Table D.1",
    job="credit",
    settings=(Setting(DATA, CREDIT, target=F1),),
    arms=ARMS,
    rules=tuned(None, of="Algorithm 2, uncompressed,"),
    seeds=(0, 1, 2, 3, 4),
    measure="bytes",
    claims=(*claims("paper"), *claims("fair")),
    columns=(
        saved_column("bytes"),
        cost_column("round"),
        figure_column("bytes a round", "bytes_a_round", show_bytes),
        told_column(
            "paper's cost, by its formula",
            {(DATA, label): f"{cost:,.0f} MB" for label, cost in TABLE.items()},
        ),
    ),
    notes=(STANDS_IN, "The paper has no Algorithm 1 with one update, and compresses no gradients."),
    quick={
        "settings": (
            Setting(
                "digits",
                (*SHARED, "train.epochs=8", "train.evaluate_every=5 rounds"),
                "digits",
                target=0.5,
            ),
        ),
        "rules": (given("2x"),),
        "seeds": (0,),
    },
)
