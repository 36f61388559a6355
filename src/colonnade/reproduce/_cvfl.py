"""What C-VFL's experiments have in common: its compressors, its formula for bytes, its clock, and
what stands in for MIMIC-III.

MIMIC-III is not to be had here: the credit data stand in for it. Both have two classes of which
one is rare, and the metric is F1. As in the paper there are a server with the labels and four
parties with embeddings of 16 numbers, in batches of 1,000, and the top model has two layers; but
the paper's parties have LSTMs over 48 hours, and these have MLPs over some of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.reproduce.fedbcd_parties import BILLS, CODES, PAID, PERSON, STATUS
from colonnade.study.design import Arm, Rule

PAPER = "Castiglia et al., C-VFL, 2022"
PLAIN_BITS = 32
BITS = (2, 3, 4)
KINDS = ("scalar", "lattice", "top-k")
NONE = "none"
SHARED = ("train.labels=shared", "train.evaluate_plain=true")
"""The parties compute the loss, and metrics are those of embeddings as they are."""
ON_TEST = ("train.validation=0",)
ON_VALIDATION = ("train.validation=0.1",)
GRID = ("0.25x", "0.5x", "1x", "2x", "4x")
MODEL = "{name='mlp', hidden=[32], embedding=16}"
OPTIMIZER = "{name='sgd', lr=0.2}"
HOLDERS = {"status": STATUS, "bills": BILLS, "paid": PAID}
CREDIT = (
    *SHARED,
    *("train.batch_size=1000", "train.rounds=600", "train.evaluate_every=5 rounds"),
    *("train.metric=f1", "top.hidden=[32]"),
    *("parties.bank.columns=[]", "parties.bank.categorical=[]", "parties.bank.model.name=linear"),
    *(f"parties.partner.columns={list(PERSON)}", f"parties.partner.categorical={list(CODES)}"),
    *(f"parties.{party}.optimizer={OPTIMIZER}" for party in ("bank", "partner")),
    f"parties.partner.model={MODEL}",
    *(
        f"parties.{party}={{columns={list(columns)}, preprocessing='plain', model={MODEL}, "
        f"optimizer={OPTIMIZER}}}"
        for party, columns in HOLDERS.items()
    ),
)
"""The settings of the job `credit`, between a bank that has the labels only and four parties."""
F1 = 0.45
"""Of the credit data, where runs reach about 0.5; MIMIC-III's targets are 0.4 and 0.45, where
they reach about 0.45."""
STANDS_IN = "MIMIC-III is not to be had here: the credit data stand in for it."


@dataclass(frozen=True)
class Shape:
    """What the bytes of a round depend on: parties, numbers of an embedding, rows of a batch, and
    weights of the top model."""

    parties: int
    width: int
    batch: int
    top: int

    @classmethod
    def linear(cls, parties: int, width: int, batch: int, classes: int = 10) -> Shape:
        """With one linear layer on top.

        >>> Shape.linear(4, 64, 256).formula(32)
        2138272.0
        """
        return cls(parties, width, batch, (parties * width + 1) * classes)

    def formula(self, bits: int) -> float:
        """The paper's bytes a round: b·(2·P·B·M² + M·|θ₀|) bits, though what is sent between a
        server and its parties is P·B·M² + M·|θ₀| numbers."""
        components = 2 * self.width * self.batch * self.parties**2 + self.parties * self.top
        return bits * components / 8


def label(kind: str, bits: int) -> str:
    """What an arm is called.

    >>> label("lattice", 2)
    'lattice, 2 bits'
    """
    return f"{kind}, {bits} bits"


def bits_of(arm: str) -> int:
    """The bits of an arm by its name.

    >>> bits_of("lattice, 2 bits"), bits_of("none")
    (2, 32)
    """
    return PLAIN_BITS if arm == NONE else int(arm.split()[-2])


def plain(q: int) -> Arm:
    """Without compression."""
    return Arm(NONE, {"name": "cvfl", "q": q, "compressor": "plain"})


def compressed(kind: str, bits: int, q: int) -> Arm:
    """A compressor at as many bits a component. Top-k keeps bits/32 of the columns of a batch,
    those with the largest gradient before, and the largest weights of the top model."""
    name = label(kind, bits)
    if kind != "top-k":
        return Arm(name, {"name": "cvfl", "q": q, "compressor": f"{kind}:{bits}"})
    kept = f"topk:{bits / PLAIN_BITS:g}"
    compress = {"embedding": f"{kept}:importance", "top": kept}
    return Arm(name, {"name": "cvfl", "q": q, "compressor": kept, "compress": compress})


def tuned(
    target: float | None, rates: tuple[str, ...] = GRID, *, of: str, seeds: tuple[int, ...] = (10,)
) -> tuple[Rule, Rule]:
    """The rule of one rate for all, where the paper's own is for other data, and the fair one; the
    settings have targets of their own where it is None."""
    paper = Rule(
        "paper",
        f"One rate for all, that with which {of} takes least to the target; the first evaluation "
        "on the test rows that reaches it.",
        target=target or 0.0,
        rates=rates,
        shared=True,
        tuning_seeds=seeds,
        growth=1,
        sets=ON_TEST,
    )
    return paper, fair(target, rates)


def fair(target: float | None, rates: tuple[str, ...] = GRID) -> Rule:
    """Each at its own best rate; test rows are looked at once."""
    return Rule(
        "fair",
        "Each at its own best of one grid of rates, chosen with another seed on the validation "
        "rows, which have to stay at the target for three evaluations.",
        target=target or 0.0,
        rates=rates,
        tuning_seeds=(10,),
        growth=2,
        hold=3,
        sets=ON_VALIDATION,
    )


def given(rate: str = "1x") -> Rule:
    """One rate without tuning, for quick forms."""
    return Rule(
        "paper",
        "One rate for all, as given; the first evaluation on the test rows.",
        target=0.0,
        rates=(rate,),
        sets=ON_TEST,
    )
