"""What Flex-VFL's experiments have in common: parties and their speeds, the clock, the methods, the
rules.

From the paper: the fastest party's update takes one unit, a forward pass and the server's fresh
update take no time, `t_comm` is the way there *and* back, and the server's updates count among
those that Sync-Max goes by. Every party has SGD with a momentum of 0.9 that starts anew in each
round; where a round has one update, as in P-BCD and VAFL, that is plain SGD.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from colonnade.data.speeds import costs_under, cpu_loads
from colonnade.methods import build
from colonnade.study.claims import cheaper, times_text
from colonnade.study.design import Arm, Claim, Rule, Setting
from colonnade.study.findings import Findings

PAPER = "Castiglia et al., Flex-VFL, IEEE TNNLS 2023"
UNIT_NS = 10_000_000
UNITS = ("units", UNIT_NS / 1e9)
COMMUNICATION = (1, 10, 50)
"""t_comm, in units."""
MOMENTUM = 0.9
SEEDS = (0, 1, 2, 3, 4)
TUNING_SEEDS = (10,)
TRACE_SEED = 2011
SERVER = "server"

PBCD = Arm("P-BCD", {"name": "pbcd"})
VAFL = Arm("VAFL", {"name": "vafl"})
SYNC_MIN = Arm("Sync-Min", {"name": "sync_min", "momentum": MOMENTUM})
SYNC_MAX = Arm("Sync-Max", {"name": "sync_max", "momentum": MOMENTUM})
FLEX = Arm("Flex-VFL", {"name": "flexvfl", "momentum": MOMENTUM})
ARMS = (PBCD, VAFL, SYNC_MIN, SYNC_MAX, FLEX)
OTHERS = ARMS[:-1]


@dataclass(frozen=True)
class Place:
    """A data set, and who holds what of it; a server has the labels only."""

    label: str
    stands_for: str
    """The paper's data set."""
    data: str
    views: Mapping[str, str]
    """By party."""
    model: str | Mapping[str, str]
    """Everybody's bottom model, or each party's."""
    batch_size: int
    rounds: int
    longer: int
    """The rounds of P-BCD and VAFL, which need more with their one update in each."""
    lr: float
    """The rate that the grids have multiples of."""
    steps: Mapping[str, str] = field(default_factory=dict)
    """By party, a step of its own."""

    @property
    def sets(self) -> tuple[str, ...]:
        """The settings of a job that make it one of this place, on a link without a limit."""
        sgd = f"optimizer={{name='sgd', lr={self.lr}}}"
        parties = [f"{SERVER}={{role='active', view='none', model={{name='linear'}}, {sgd}}}"]
        for name, view in self.views.items():
            model = self.model if isinstance(self.model, str) else self.model[name]
            step = f", step='{self.steps[name]}'" if name in self.steps else ""
            parties.append(f"{name}={{view='{view}', model={model}, {sgd}{step}}}")
        return (
            f"data={self.data}",
            f"parties={{{', '.join(parties)}}}",
            "top={kind='split', hidden=[]}",
            f"train.batch_size={self.batch_size}",
            f"train.rounds={self.rounds}",
            "train.evaluate_every=10 rounds",
            "train.labels=shared",
            "train.metric=accuracy",
        )


QUADRANTS = {
    "one": "top-left",
    "two": "top-right",
    "three": "bottom-left",
    "four": "bottom-right",
}
MNIST = Place(
    "MNIST quadrants",
    "ImageNet100",
    "mnist",
    QUADRANTS,
    "{name='mlp', hidden=[64], embedding=32}",
    256,
    600,
    1200,
    0.1,
)
MODELNET = Place(
    "ModelNet10 views",
    "ModelNet40",
    "modelnet10",
    {f"view{number + 1}": f"channels {number}:{number + 1}" for number in range(12)},
    "{name='mlp', hidden=[32], embedding=16}",
    64,
    400,
    800,
    0.02,
)
DIGITS = Place(
    "digits quadrants",
    "nothing: it needs no files",
    "digits",
    QUADRANTS,
    "{name='mlp', hidden=[16], embedding=8}",
    64,
    40,
    80,
    0.1,
)
STRIPS = Place(
    "MNIST strips",
    "MOSEI",
    "mnist",
    {"one": "strip 1/3", "two": "strip 2/3", "three": "strip 3/3"},
    "{name='mlp', hidden=[64], embedding=32}",
    256,
    600,
    1200,
    0.1,
    {"three": f"local_momentum:{MOMENTUM}"},
)


def stand_in(place: Place) -> str:
    """What has to be said of a place."""
    return (
        f"{place.label} stand in for {place.stands_for}, which is not to be had here, and small "
        "networks for the paper's."
    )


LONGER = "P-BCD and VAFL are trained for more rounds, because they do one update in each."
MISSES = (
    "A seed that never reaches the target is a miss: the paper's means leave such seeds out, the "
    "ratios among the claims here do not."
)


# The clock


def far(t_comm: float) -> str:
    """Links on which the way there and back takes so many units.

    >>> far(10)
    "network={latency='50000000ns'}"
    """
    return f"network={{latency='{int(t_comm * UNIT_NS / 2)}ns'}}"


def at_speeds(place: Place, timeout: int, updates: Sequence[float], server: int) -> str:
    """Every party's updates within the timeout, and the server's, of which the first comes with the
    aggregation and takes no time."""
    costs = {
        name: f"{{backward='{int(timeout * UNIT_NS / count)}ns'}}"
        for name, count in zip(place.views, updates, strict=True)
    }
    return _compute(costs, f"'{_server_ns(timeout, server)}ns'")


def _server_ns(timeout: int, updates: float) -> int:
    """What a local update of the server takes, if so many fit, the fresh one included."""
    whole = max(1, int(updates))
    return timeout * UNIT_NS // (whole - 1) if whole > 1 else 2 * timeout * UNIT_NS


def _compute(costs: Mapping[str, str], top: str) -> str:
    own = ", ".join(f"{name}={cost}" for name, cost in costs.items())
    return f"compute={{{SERVER}={{top={top}}}, {own}}}"


def on_traces(place: Place, timeout: int, t_comm: float) -> str:
    """Speeds that change in every round, as CPU traces of Google's cluster do, the server's too: an
    update takes (1 − c)⁻¹ units. A training that outlasts the traces keeps their last value."""
    round_ns = int((timeout + t_comm) * UNIT_NS)
    *loads, own = cpu_loads(len(place.views) + 1, TRACE_SEED)
    costs = {}
    for name, load in zip(place.views, loads, strict=True):
        made = costs_under(load, update=f"{UNIT_NS}ns", step=f"{round_ns}ns").backward
        costs[name] = f"{{backward={[list(each) for each in made]}}}"
    top = [
        [f"{round * round_ns}ns", f"{_server_ns(timeout, timeout * (1 - share))}ns"]
        for round, share in enumerate(own)
    ]
    return _compute(costs, str(top))


def typical_updates(place: Place, timeout: int) -> list[float]:
    """How many updates fit within the timeout where a CPU is used as in the mean of a trace: of
    each party, and of the server."""
    loads = cpu_loads(len(place.views) + 1, TRACE_SEED).mean(axis=1)
    return [float(timeout * (1 - share)) for share in loads]


def until(timeout: float, most: float, server: int) -> dict[str, dict[str, Any]]:
    """The methods' timeouts, in units; `most` updates of the fastest party fit. Sync-Max's is as
    long as that party needs for what the fastest of all does, who may be the server.

    >>> until(10, 8, 10)["Sync-Max"], until(10, 8, 10)["Flex-VFL"]
    ({'timeout': '125000000ns'}, {'timeout': '100000000ns'})
    """
    longer = timeout * max(1.0, server / int(most))
    own = {SYNC_MIN.label: timeout, SYNC_MAX.label: longer, FLEX.label: timeout}
    return {label: {"timeout": f"{int(units * UNIT_NS)}ns"} for label, units in own.items()}


def setting(
    place: Place,
    t_comm: float,
    timeout: int,
    updates: Sequence[float],
    server: int,
    target: float | None = None,
) -> Setting:
    """A place at fixed speeds and a distance."""
    return Setting(
        at(place, t_comm),
        (*place.sets, far(t_comm), at_speeds(place, timeout, updates, server)),
        target=target,
        options=until(timeout, max(updates), server),
        arm_sets=lasting_longer(place),
    )


def lasting_longer(place: Place) -> dict[str, tuple[str, ...]]:
    """The rounds of P-BCD and VAFL, as settings of theirs."""
    return dict.fromkeys((PBCD.label, VAFL.label), (f"train.rounds={place.longer}",))


def at(place: Place, t_comm: float) -> str:
    """What a setting is called."""
    return f"{place.label}, t_comm {t_comm:g}"


# The rules

SHORT = ("0.1x", "0.3x", "1x", "3x", "10x")
"""As wide and as coarse as the paper's for ImageNet100."""
GRID = ("0.25x", "0.5x", "1x", "2x", "4x", "8x")


def rules(
    target: float, short: Sequence[float | str] = SHORT, grid: Sequence[float | str] = GRID
) -> tuple[Rule, Rule]:
    """The paper's rule with a short grid, and the fair one with a grid that grows."""
    return (
        Rule(
            "paper",
            "Each method at that rate of a short grid with which its training loss is lowest in "
            "the end; evaluated on the test rows; the first touch of the target.",
            target,
            tuple(short),
            by="loss",
            tuning_seeds=TUNING_SEEDS,
            sets=("train.validation=0",),
        ),
        Rule(
            "fair",
            "Each method at its own best of one grid of rates, chosen by the time to the target "
            "with another seed on validation rows, where the target has to be held for three "
            "evaluations; the test rows are looked at once.",
            target,
            tuple(grid),
            growth=2,
            tuning_seeds=TUNING_SEEDS,
            hold=3,
            sets=("train.validation=0.1",),
        ),
    )


# The claims


def largest_weight(updates: int) -> float:
    """w̄ of so many updates with local momentum.

    >>> round(largest_weight(10), 3)
    6.513
    """
    return build(FLEX.method).step.largest_weight(updates)


def faster(
    label: str, than: Arm, paper: float | None, rule: str, arm: Arm = FLEX, note: str = ""
) -> Claim:
    """A claim of how many times as fast a method is as another in a setting; where the paper has no
    figure, it is to be faster."""

    text = f"{label}: {arm.label} as many times as fast as {than.label}{note}"
    least = None if paper is not None else 1.0
    return cheaper(text, (rule, label, arm.label), paper=paper, least=least, than=than.label)


def at_most(labels: Sequence[str], paper: float, rule: str) -> Claim:
    """The headline: the most by which Flex-VFL is faster than another method anywhere."""

    def ours(found: Findings) -> float | None:
        known = [
            ratio
            for label in labels
            for other in OTHERS
            if (ratio := found.times_of_all(rule, label, FLEX.label, other.label)) is not None
            and isfinite(ratio)
        ]
        return max(known, default=None)

    text = f"up to {paper:g}× as fast: Flex-VFL and the slowest of the others that got there"
    return Claim(text, paper, rule, ours, times_text)


Printed = Mapping[float, Mapping[str, float | None]]
"""By t_comm, the time of each method in thousands of units; None where the paper has none."""


def printed_claims(place: Place, printed: Printed) -> tuple[Claim, ...]:
    """What a column of the paper's Table III says of Flex-VFL, by both rules."""
    return tuple(
        faster(
            at(place, t_comm),
            other,
            _ratio(row[other.label], row[FLEX.label]),
            rule,
            note="" if row[other.label] is not None else " (in the paper that misses)",
        )
        for rule in ("paper", "fair")
        for t_comm, row in printed.items()
        for other in OTHERS
    )


def _ratio(other: float | None, own: float | None) -> float | None:
    return None if other is None or own is None else other / own


# The quick form


def brief(
    settings: Sequence[Setting], rule: Rule, arms: Sequence[Arm], rate: float | str
) -> dict[str, Any]:
    """The fields of a quick form: one seed, one rate, a target that is soon reached."""
    given = replace(
        rule, text="One rate for all, as given.", target=0.5, rates=(rate,), tuned_in=None
    )
    near = tuple(replace(each, target=None) for each in settings)
    return {"settings": near, "arms": tuple(arms), "rules": (given,), "seeds": SEEDS[:1]}
