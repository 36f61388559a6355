"""`fullpipe` beside FedSGD and PASTA on PASTA's clock, each at its best rate, and its ablation.

Forward 10 units, backward 20, aggregate 10; a unit is 10 ms. CIFAR-10 with VGGs, Fashion-MNIST with
the PASTA paper's CNNs, MNIST with its MLPs, in halves; and CIFAR-10 in quadrants between four
parties, one of which is three times slower. Everybody has averaged weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from colonnade.reproduce import slow_network
from colonnade.study.design import Arm, Claim, Rule, Setting, Share, Study
from colonnade.study.findings import Findings

UNIT_MS = 10
AVERAGE = {"average": "ema:0.999"}
OURS, PASTA = "fullpipe", "PASTA, B=3, s=4"
ABLATION: dict[str, Mapping[str, Any]] = {
    "without compensation": {"weight": "uniform"},
    "without averaged weights": {"average": "none"},
    "without the falling rate": {"rate": "constant"},
    "with all momentum": {"momentum": "kept"},
    "backward with the weights of then": {"version": "stash", "weight": "uniform"},
}
SUBSET = ("data=cifar10-subset", "train.epochs=30")
WHOLE = ("train.epochs=25", "train.batch_size=128")
FMNIST = (
    *("train.validation=0.1", "train.shuffle=epoch", "train.epochs=30"),
    "train.evaluate_every=35 rounds",  # three times in an epoch, of which a target takes few
)
MNIST = ("data=mnist", *FMNIST, "parties.*.model={name='mlp2', embedding=10}")
QUADRANTS = (
    "parties.lower.view=bottom-right",
    "parties.upper.view=top-left",
    "parties.third={view='top-right', model={name='vgg_small'}, optimizer={name='adam', lr=0.001}}",
    "parties.slow={view='bottom-left', model={name='vgg_small'}, "
    "optimizer={name='adam', lr=0.001}}",
    f"compute.slow={{forward='{25 * UNIT_MS}ms', backward='{50 * UNIT_MS}ms'}}",
)


def at(latency: int, *sets: str, job: str, like: str | None = None, name: str) -> Setting:
    """A data set at a latency; rates are tuned at 1000 units and at 100."""
    return Setting(f"{name}, {latency} units", (*sets, *slow_network(latency, UNIT_MS)), job, like)


def everywhere(
    name: str, job: str, *sets: str, seeds: tuple[int, ...] | None = None
) -> tuple[Setting, ...]:
    """A data set at the four latencies; `seeds` are those at 50 units, where little is to be
    learnt."""
    near = replace(at(50, *sets, job=job, name=name, like=f"{name}, 100 units"), seeds=seeds)
    return (
        at(1000, *sets, job=job, name=name),
        at(100, *sets, job=job, name=name),
        near,
        at(5, *sets, job=job, name=name, like=f"{name}, 100 units"),
    )


FAR = "CIFAR-10 subset, 1000 units"
SETTINGS = (
    *everywhere("CIFAR-10 subset", "cifar10", *SUBSET, seeds=(1,)),
    *everywhere("Fashion-MNIST", "fmnist-pasta", *FMNIST),
    *everywhere("MNIST", "fmnist-pasta", *MNIST),
    at(1000, *WHOLE, job="cifar10", name="CIFAR-10"),
    at(1000, *SUBSET, *QUADRANTS, job="cifar10", name="four parties, one slow", like=FAR),
)
BESIDE_PASTA = tuple(
    each.label
    for each in SETTINGS
    if not each.label.startswith("CIFAR-10 subset, 5")  # 5 and 50 units
)


FEDSGD = Arm("FedSGD", {"name": "fedsgd", **AVERAGE})
BESIDE = Arm(PASTA, {"name": "pasta", "b_max": 3, "s_max": 4, **AVERAGE}, settings=BESIDE_PASTA)
FULL = Arm(OURS, {"name": "fullpipe"})


def times(setting: str, arm: str = OURS, than: str | None = None) -> Any:
    """How many times as fast."""
    return lambda found: found.times("fair", setting, arm, than)


def points(setting: str) -> Any:
    """By how much the accuracy in the end differs, in points."""

    def ours(found: Findings) -> float | None:
        gain = found.gain("fair", setting, OURS, "end")
        return None if gain is None else 100 * gain[0]

    return ours


def claims() -> tuple[Claim, ...]:
    """What we aimed for."""
    made = []
    for setting in SETTINGS:
        name = setting.label
        if "1000" in name:
            text = f"{name}: 12× as fast as FedSGD"
            made.append(Claim(text, None, "fair", times(name), least=12))
        if "1000" in name or "100 " in name:
            text = f"{name}: 2.5× as fast as PASTA"
            made.append(Claim(text, None, "fair", times(name, than=PASTA), least=2.5))
        if " 5 " in name:
            text = f"{name}: not slower than FedSGD"
            made.append(Claim(text, None, "fair", times(name), "{:.2f}".format, least=1))
        text = f"{name}: accuracy in the end at most half a point below FedSGD's"
        made.append(Claim(text, None, "fair", points(name), "{:+.2f}".format, least=-0.5))
    return tuple(made)


BRIEF = ("train.epochs=12",)
NEAR = (
    at(1000, *BRIEF, job="digits", name="digits"),
    at(5, *BRIEF, job="digits", name="digits", like="digits, 1000 units"),
)
STUDY = Study(
    about="Full pipe beside FedSGD and PASTA at four latencies, and its ablation",
    paper="ours, 2026",
    job="cifar10",
    settings=SETTINGS,
    arms=(
        FEDSGD,
        BESIDE,
        FULL,
        *(
            Arm(f"{OURS}, {text}", {"name": "fullpipe", **own}, settings=(FAR,), like=OURS)
            for text, own in ABLATION.items()
        ),
    ),
    rules=(
        Rule(
            "fair",
            "Each method at its own best of one grid of rates, chosen with another seed on the "
            "validation rows; the target is 98 % of what FedSGD has in the end, on the validation "
            "rows; the test rows are looked at once.",
            target=Share(0.98),
            rates=("0.25x", "0.5x", "1x", "2x"),
            growth=1,
            tuning_seeds=(0,),
            hold=3,
        ),
    ),
    seeds=(1, 2, 3),
    unit=("units", UNIT_MS / 1000),
    claims=claims(),
    quick={"settings": NEAR, "seeds": (1,), "arms": (FEDSGD, replace(BESIDE, settings=None), FULL)},
)
