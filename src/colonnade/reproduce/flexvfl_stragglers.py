"""Flex-VFL: parties of different speed, and speeds that change.

*Stragglers*: four parties hold the quadrants of each MNIST image, a server has the labels. Within
the timeout of 8 units the parties can do 2, 4, 6 and 8 updates and the server 10 (the speeds that
the paper takes for ImageNet). The way there and back takes `t_comm` units. A forward pass costs
nothing, as in the paper, so that a round of Flex-VFL takes t_comm + 8 units. Every method has its
own rate, the best of a grid by the time to the target. The rounds of all methods but VAFL do not
depend on t_comm, so those are tuned once.

*Traces*: the speeds of the four parties follow CPU traces of Google's cluster, an update takes
(1 − c)⁻¹ units where the CPU is used to the share c, and c changes in every round. The timeout is
10 units and t_comm 1, as in the paper. Adaptive Flex-VFL has the rate A/(τ·w̄) with τ of the round
before; the static rate is A/(max τ·w̄) = A/10.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from colonnade.data.speeds import costs_under, cpu_loads
from colonnade.job.records import Compute, Costs, Job, Link, Network, Party, Top, Train
from colonnade.record.table import show_found
from colonnade.reproduce import Reproduction, Say, figures, mean_figure, train
from colonnade.run.pool import Trial

UNIT_NS = 10_000_000
UPDATES = {"top-left": 2, "top-right": 4, "bottom-left": 6, "bottom-right": 8}
"""How many updates each party can do within the timeout."""
TIMEOUT = 8
SERVER_UPDATES = 10
COMMUNICATION = (1, 10, 50)
TRACE_TIMEOUT = 10
TRACE_SEED = 2011
RATES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
CONSTANTS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""A of the adaptive rate."""
SEEDS = (0, 1, 2, 3, 4)
TUNING_SEEDS = 2
TARGET = 0.95
METHODS: dict[str, dict[str, Any]] = {
    "Flex-VFL": {"name": "flexvfl", "timeout": f"{TIMEOUT * UNIT_NS}ns"},
    "Sync-Min": {"name": "sync_min", "timeout": f"{TIMEOUT * UNIT_NS}ns"},
    "Sync-Max": {"name": "sync_max", "timeout": f"{TIMEOUT * UNIT_NS}ns"},
    "P-BCD": {"name": "pbcd"},
    "VAFL": {"name": "vafl"},
}
COLUMNS = ["speeds", "t_comm", "method", "rate", "time in units", "rounds", "reached", "updates"]


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """Time to an accuracy of 0.95 by method and t_comm, and of Adaptive Flex-VFL on traces.

    The quick form takes one seed, t_comm = 50 and two rates, and leaves out the traces.
    """
    chosen = seeds or list(SEEDS[:1] if quick else SEEDS)
    rates = RATES[2:4] if quick else RATES
    waits = COMMUNICATION[-1:] if quick else COMMUNICATION
    tried: dict[str, Any] = {}
    best = _tune_stragglers(waits, rates, chosen[:TUNING_SEEDS], tried, say)
    jobs = {
        f"{wait}/{label}": _stragglers(wait, METHODS[label], best[wait, label])
        for wait in waits
        for label in METHODS
    }
    say(f"{len(jobs) * len(chosen)} runs at the best rates")
    (found,) = train([jobs], chosen)
    rows: list[list[str]] = []
    for key, trials in found.methods().items():
        wait, _, label = key.partition("/")
        rate = f"{best[int(wait), label]:g}"
        rows.append(["2/4/6/8", wait, label, rate, *_cells(trials)])
    if out is not None:
        found.save(out / "stragglers")
    if not quick:
        rows += _traces(chosen, tried, out, say)
    return Reproduction(
        title=f"Flex-VFL, time to an accuracy of {TARGET:g} on MNIST quadrants",
        columns=COLUMNS,
        rows=rows,
        notes=[
            f"mean ± deviation over seeds {', '.join(map(str, chosen))}; a unit is 10 ms of "
            "virtual time",
            f"rate: each method's own best of {', '.join(f'{rate:g}' for rate in rates)} by time "
            "to target; for traces A, and the rate is A/(τ·w̄)",
            "updates: of a party in a round, from the slowest to the fastest and the server",
        ],
        data={"tried": tried, **found.to_dict()},
    )


def _job(costs: Mapping[str, Costs], wait: float, rate: float, method: Mapping[str, Any]) -> Job:
    """Four passive parties and a server that has the labels only."""
    optimizer = {"name": "sgd", "lr": rate}
    model = {"name": "mlp", "hidden": [64], "embedding": 32}
    quadrants = {view: Party(view=view, model=model, optimizer=optimizer) for view in UPDATES}
    train = Train(
        epochs=20,
        batch_size=256,
        labels="shared",
        metric="accuracy",
        target=TARGET,
        stop="target",
        evaluate_every="10 rounds",
        validation=0,
    )
    return Job(
        name="stragglers",
        data="mnist",
        parties={"server": Party(role="active", optimizer=optimizer)} | quadrants,
        method=dict(method),
        train=train,
        network=Network(link=Link(latency=f"{int(wait * UNIT_NS / 2)}ns")),
        compute=Compute(overrides=dict(costs)),
        top=Top(hidden=[]),
    )


def _server(timeout: int) -> Costs:
    """The server's first update comes with the aggregation, and is free; the others fit."""
    return Costs(top=f"{timeout * UNIT_NS // (SERVER_UPDATES - 1)}ns")


def _stragglers(wait: int, method: Mapping[str, Any], rate: float) -> Job:
    costs = {
        view: Costs(backward=f"{TIMEOUT * UNIT_NS // count}ns") for view, count in UPDATES.items()
    }
    return _job(costs | {"server": _server(TIMEOUT)}, wait, rate, method)


def _tune_stragglers(
    waits: Sequence[int],
    rates: Sequence[float],
    seeds: Sequence[int],
    tried: dict[str, Any],
    say: Say,
) -> dict[tuple[int, str], float]:
    """The rate with which each method is soonest at the target."""
    cases = [(waits[-1], label) for label in METHODS if label != "VAFL"]
    cases += [(wait, "VAFL") for wait in waits]
    jobs = {
        f"{wait}/{label}/{rate:g}": _stragglers(wait, METHODS[label], rate)
        for wait, label in cases
        for rate in rates
    }
    say(f"{len(jobs) * len(seeds)} runs to tune the rates")
    (found,) = train([jobs], seeds)
    means = {
        label: mean_figure(trials, "time_to_target_s") for label, trials in found.methods().items()
    }
    for label, mean in means.items():
        say(f"{label}: {'missed' if math.isinf(mean) else f'{1e9 * mean / UNIT_NS:.0f} units'}")
    tried["stragglers"] = {key: None if math.isinf(mean) else mean for key, mean in means.items()}
    best: dict[tuple[int, str], float] = {}
    for wait, label in cases:
        of_case = {rate: means[f"{wait}/{label}/{rate:g}"] for rate in rates}
        best[wait, label] = min(of_case, key=of_case.__getitem__)
    return {
        (wait, label): best.get((wait, label), best.get((waits[-1], label), rates[0]))
        for wait in waits
        for label in METHODS
    }


def _traces(
    seeds: Sequence[int], tried: dict[str, Any], out: Path | None, say: Say
) -> list[list[str]]:
    """Adaptive and static Flex-VFL at every A."""
    jobs = {
        f"{'adaptive' if adaptive else 'static'}/{a:g}": _traced(adaptive, a)
        for adaptive in (True, False)
        for a in CONSTANTS
    }
    say(f"{len(jobs) * len(seeds)} runs on traces")
    (found,) = train([jobs], seeds)
    tried["traces"] = found.to_dict()["methods"]
    if out is not None:
        found.save(out / "traces")
    rows: list[list[str]] = []
    for key, trials in found.methods().items():
        kind, _, a = key.partition("/")
        rows.append(["traces", "1", f"{kind} Flex-VFL", f"A = {a}", *_cells(trials)])
    return rows


def _traced(adaptive: bool, a: float) -> Job:
    """A step of the traces is a round; a run that outlasts them keeps their last value."""
    loads = cpu_loads(len(UPDATES), TRACE_SEED)
    step = f"{(TRACE_TIMEOUT + 1) * UNIT_NS}ns"
    costs = {
        view: costs_under(load, update=f"{UNIT_NS}ns", step=step)
        for view, load in zip(UPDATES, loads, strict=True)
    }
    method = {"name": "flexvfl", "timeout": f"{TRACE_TIMEOUT * UNIT_NS}ns", "adaptive": adaptive}
    rate = a if adaptive else a / TRACE_TIMEOUT
    return _job(costs | {"server": _server(TRACE_TIMEOUT)}, 1, rate, method)


def _cells(trials: Sequence[Trial]) -> list[str]:
    """Time in units, rounds, how many seeds reached the target, and updates in a round."""
    cells = []
    for name, scale in (("time_to_target_s", 1e9 / UNIT_NS), ("rounds_to_target", 1.0)):
        known = [figure for figure in figures(trials, name) if figure]
        cells.append(show_found([scale * figure for figure in known], "{:.0f}".format))
    reached = f"{len(known)}/{len(trials)}"
    if not known:
        return [*cells, reached, "–"]
    summary = next(trial.summary for trial in trials if trial.summary and not trial.bad)
    counts = [summary["updates"][name] for name in (*UPDATES, "server")]
    per_round = [(each["fresh"] + each["local"]) / each["fresh"] for each in counts]
    shown = " ".join(f"{count:.3g}" for count in per_round)
    return [*cells, reached, shown]
