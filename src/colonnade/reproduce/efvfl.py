"""EF-VFL: bytes and rounds to the same accuracy with few bits, with a memory of every row.

Embeddings and derivatives cross with 2 bits a component, with 1, or with the largest tenth of the
components, in three ways: by the compressor alone, with error feedback (what was lost of a row is
added to it the next time), and as EF-VFL has it (`ef21+`), where both ends remember every row and
only its compressed difference crosses. Beside them stands the paper's own form, in which
derivatives cross as they are.

The paper (Valdeira et al., IEEE TSP 2025) is known to us by its method alone, so no figure of it
stands here, and the claims are ours. Evaluations are uncompressed (`train.evaluate_plain`): only
training rows are remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from colonnade.study.claims import cheaper
from colonnade.study.design import Arm, Below, Claim, Rule, Setting, Study
from colonnade.study.findings import Findings
from colonnade.study.page import cost_column, figure_column
from colonnade.units import show_bytes

MARGIN = 0.01
"""Of accuracy: how far below FedSGD's end the target is."""
FEDSGD = Arm("FedSGD", {"name": "fedsgd"})
COMPRESSORS = ("scalar:2", "scalar:1", "topk:0.1")
FEWER = {"scalar:2": 8.0, "scalar:1": 12.0, "topk:0.1": 3.0}
"""How many times fewer bytes than FedSGD we claim. A component has 32 bits without a compressor,
and a place beside its value with top-k."""
SLOWER = 1.25
"""How many times the rounds of FedSGD we allow."""


def alone(compressor: str) -> Arm:
    """FedSGD with compressed messages."""
    options = {"q": 1, "exchange": "gradients", "both": True, "compressor": compressor}
    return Arm(f"{compressor}, no memory", {"name": "cvfl", **options})


def fed_back(compressor: str) -> Arm:
    """The same with error feedback."""
    own = alone(f"ef+{compressor}")
    return Arm(f"{compressor}, error feedback", own.method)


def remembered(compressor: str, both: bool = True) -> Arm:
    """EF-VFL; the paper sends derivatives as they are."""
    more = "" if both else ", embeddings only"
    table = {"name": "efvfl", "compressor": compressor, "both": both}
    return Arm(f"{compressor}, EF-VFL{more}", table)


ARMS = (
    FEDSGD,
    *(make(each) for each in COMPRESSORS for make in (alone, fed_back, remembered)),
    remembered("scalar:2", both=False),
)
DIGITS, MNIST = "digits", "MNIST, quadrants"
SETTINGS = (
    Setting(DIGITS, ("train.epochs=80", "train.evaluate_every=10 rounds"), "digits"),
    Setting(MNIST, ("train.epochs=10", "train.evaluate_every=25 rounds"), "mnist-quadrants"),
)
FAIR = Rule(
    "fair",
    "Each method at its own best of one grid of rates, which grows while a best one is at its end, "
    f"chosen with other seeds on validation rows; the target, what FedSGD has in the end less "
    f"{MARGIN:g}, has to be held for three evaluations of the test rows.",
    Below(MARGIN),
    ("0.5x", "1x", "2x", "4x"),
    tuning_seeds=(10, 11),
    growth=2,
    hold=3,
    sets=("train.validation=0",),
    tuning_sets=("train.validation=0.1",),
)


def claims_of(setting: str, compressor: str) -> Iterator[Claim]:
    """That EF-VFL saves bytes, takes few rounds more, and is better than what has no memory."""
    arm = remembered(compressor)

    def longer(found: Findings) -> float | None:
        own = found.cost_of_all("fair", setting, arm.label, "round")
        whole = found.cost_of_all("fair", setting, FEDSGD.label, "round")
        return None if own is None or whole in (None, 0, float("inf")) else own / whole

    def better(than: Arm, found: Findings) -> float | None:
        gain = found.gain("fair", setting, arm.label, "end", than.label)
        return None if gain is None else 100 * gain[0]

    least = FEWER[compressor]
    text = f"{setting}, {arm.label}: as many times fewer bytes than FedSGD (ours: {least:g})"
    yield cheaper(text, ("fair", setting, arm.label), least=least)
    text = f"{setting}, {arm.label}: rounds to those of FedSGD (ours: {SLOWER:g} at most)"
    yield Claim(text, None, "fair", longer, "{:.2f}×".format, least=SLOWER, smaller=True)
    for than in (alone(compressor), fed_back(compressor)):
        text = f"{setting}, {arm.label}: points of accuracy more in the end than {than.label}"
        yield Claim(text, None, "fair", partial(better, than), "{:+.2f}".format, least=0.0)


STUDY = Study(
    about="EF-VFL: bytes and rounds to an accuracy, with few bits and a memory of every row",
    paper="Valdeira et al., EF-VFL, 2025; the claims are ours",
    job="digits",
    sets=("train.evaluate_plain=true",),
    settings=SETTINGS,
    arms=ARMS,
    rules=(FAIR,),
    seeds=(0, 1, 2, 3, 4),
    measure="bytes",
    claims=tuple(
        claim for each in SETTINGS for name in COMPRESSORS for claim in claims_of(each.label, name)
    ),
    columns=(
        cost_column("round"),
        cost_column("steady_bytes"),
        figure_column("bytes a round", "bytes_a_round", show_bytes),
    ),
    notes=(
        "bytes are those of training frames in both directions; those of evaluations are not in "
        "them, and by `evaluate_plain` these cost 32 bits a component",
        "a memory takes as many numbers as a party's embeddings of all training rows have, at both "
        "ends",
    ),
    quick={
        "settings": (Setting(DIGITS, ("train.epochs=20", "train.evaluate_every=20 rounds")),),
        "arms": (FEDSGD, alone("scalar:1"), fed_back("scalar:1"), remembered("scalar:1")),
        "rules": (
            Rule("fair", "One rate for all, and a margin of 0.05.", Below(0.05), ("4x",), hold=3,
                 sets=("train.validation=0",)),
        ),
        "seeds": (0,),
    },
)  # fmt: skip
