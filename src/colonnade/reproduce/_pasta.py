"""What PASTA's experiments have in common: its data and models, its clock, its rules and methods.

From the paper and what its authors' code adds (batch sizes, rates, the order of rows): a unit is
10 ms; forward 10 units, backward 20, aggregate 10; Adam with the job's rate over √epochs; rows in
their order; B_max = 3 and s_max = 4. The passive party has the upper half of each image. In
SplitVFL the top model is trained, in AggVFL it adds up the parties' outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from colonnade.reproduce import slow_network
from colonnade.study.design import Arm, Claim, Rule, Setting, Share
from colonnade.study.findings import Findings

PAPER = "Wu et al., PASTA"
UNIT_MS = 10
UNITS = ("units", UNIT_MS / 1000)
LATENCIES = (1000, 100, 50, 5)
SEEDS = (97, 98, 99, 100, 101)
"""Those of the authors' code."""
FEDSGD = Arm("FedSGD", {"name": "fedsgd"})
FEDBCD = Arm("FedBCD, Q=5", {"name": "fedbcd", "updates": 5})
FLEX = Arm("FlexVFL-s", {"name": "flexvfl_s"})
CELU = Arm("CELU, W=5, R=5", {"name": "celu", "w": 5, "r": 5})
PASTA = Arm("PASTA, B=3, s=4", {"name": "pasta", "b_max": 3, "s_max": 4})
SPLIT, AGG = "Split", "Agg"

VGG_SPLIT = ("parties.*.model={name='vgg13'}", "top.hidden=[512, 512]")
VGG_AGG = ("parties.*.model={name='vgg13', classifier=true}",)
ADDED_UP = ("top.kind=agg", "top.hidden=[]")
MNIST = (
    *("data=mnist", "train.batch_size=1024"),
    "parties.*.model={name='mlp2', embedding=10}",
)
CIFAR = (
    *("train.batch_size=128", "train.epochs=30", "train.validation=0", "train.shuffle=never"),
    "parties.*.optimizer={name='adam', lr=0.0002}",
    "parties.*.schedule={name='inverse-sqrt'}",
)
JOBS: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("MNIST", SPLIT): ("fmnist-pasta", MNIST),
    ("MNIST", AGG): ("fmnist-pasta", (*MNIST, *ADDED_UP)),
    ("Fashion-MNIST", SPLIT): ("fmnist-pasta", ()),
    ("Fashion-MNIST", AGG): ("fmnist-pasta", ADDED_UP),
    ("CIFAR-10", SPLIT): ("cifar10", (*CIFAR, *VGG_SPLIT)),
    ("CIFAR-10", AGG): ("cifar10", (*CIFAR, *VGG_AGG, *ADDED_UP)),
}
"""By data set and top model: the built-in job, and what the paper has otherwise."""
TARGETS = {
    ("MNIST", SPLIT): 0.97,
    ("MNIST", AGG): 0.97,
    ("Fashion-MNIST", SPLIT): 0.90,
    ("Fashion-MNIST", AGG): 0.89,
    ("CIFAR-10", SPLIT): 0.77,
    ("CIFAR-10", AGG): 0.75,
}
"""The paper's, but for MNIST's, which it does not state: that one is ours."""

GIVEN = Rule(
    "paper",
    "The authors' rates for everybody, all rows for training, evaluated on the test rows after "
    "every epoch; the first touch of the target.",
    0.9,
    sets=("train.evaluate_every=1 epoch",),
)
FAIR = Rule(
    "fair",
    "Each method at its own best of one grid of rates, chosen with another seed on validation "
    "rows; averaged weights for everybody, rows in a new order in every epoch; the target is 98 % "
    "of what FedSGD has in the end, held for three evaluations; the test rows are looked at once.",
    Share(0.98),
    ("0.25x", "0.5x", "1x", "2x"),
    growth=1,
    tuning_seeds=(7,),
    hold=3,
    sets=("train.validation=0.1", "train.shuffle=epoch", "train.evaluate_every=1 epoch"),
    method={"average": "ema:0.999"},
)
RULES = (GIVEN, FAIR)


def place(data: str, top: str, latency: int) -> str:
    """What a setting is called.

    >>> place("MNIST", SPLIT, 1000)
    'MNIST, Split, 1000 units'
    """
    return f"{data}, {top}, {latency} units"


def settings(
    data: str, top: str = SPLIT, latencies: Sequence[int] = LATENCIES
) -> tuple[Setting, ...]:
    """A data set at several latencies; those beside the first are tuned as at the first that is no
    more than ten times as long."""
    job, sets = JOBS[data, top]
    made: list[Setting] = []
    for latency in latencies:
        near = [each for each in latencies if latency < each <= 20 * latency and each < 1000]
        made.append(
            Setting(
                place(data, top, latency),
                (*sets, *slow_network(latency, UNIT_MS)),
                job,
                like=place(data, top, near[0]) if near else None,
                target=TARGETS[data, top],
            )
        )
    return tuple(made)


def faster(
    setting: str,
    arm: Arm = PASTA,
    than: Arm = FEDSGD,
    paper: float | None = None,
    rules: Sequence[Rule] = RULES,
) -> list[Claim]:
    """A claim of a speed-up, by every rule."""
    return [
        Claim(
            f"{setting}: {arm.label} as many times as fast as {than.label}",
            paper,
            rule.name,
            _times(rule, setting, arm, than),
            least=None if paper is not None else 1.0,
        )
        for rule in rules
    ]


def _times(rule: Rule, setting: str, arm: Arm, than: Arm) -> Callable[[Findings], float | None]:
    return lambda found: found.times(rule.name, setting, arm.label, than.label)


def brief(*arms: Arm, latencies: Sequence[int] = (1000,)) -> dict[str, object]:
    """The quick form: the digits of scikit-learn, one seed, one rate, few epochs."""
    near = tuple(
        Setting(
            f"digits, {latency} units",
            (
                *("train.epochs=6", "train.evaluate_every=10 rounds", "train.validation=0"),
                "parties.*.optimizer={name='sgd', lr=0.2}",
                *slow_network(latency, UNIT_MS),
            ),
            "digits",
            target=0.5,
        )
        for latency in latencies
    )
    chosen = tuple(replace(arm, settings=None, rates={}) for arm in arms)
    rule = replace(GIVEN, sets=())
    return {"settings": near, "arms": chosen, "seeds": SEEDS[:1], "rules": (rule,)}
