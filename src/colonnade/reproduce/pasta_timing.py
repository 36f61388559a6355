"""PASTA, Tables II to IV: the times, to the unit, from the party program with null learners.

A forward pass costs 10 units, a backward pass 20, an aggregation 10; L is one-way. Each printed
time is the end of an epoch: when the last party has gone backward on the epoch's last batch. The
learning decides only at which epoch a target is reached, so the clock can be checked without it.

Two further times are not the paper's: an independent implementation of its rules, which gives all
of the printed times, gives them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from colonnade.job.records import Compute, Costs, Job, Link, Network, Party, Train
from colonnade.reproduce import Reproduction, Say
from colonnade.run.clock import simulate_clock
from colonnade.study.design import Claim


@dataclass(frozen=True)
class Setting:
    """One row of the paper's tables: a network, a method, and the epochs whose ends it prints."""

    batches: int
    latency: int
    b_max: int
    s_max: int
    decay: bool
    ends: dict[int, int]
    """The paper's time by epoch."""
    parties: int = 2
    derived: Mapping[int, int] = field(default_factory=dict)
    """Times that follow from the paper's rules, and that it does not print."""

    def name(self) -> str:
        """The row's heading."""
        falling = "" if self.decay else ", s constant"
        network = f"L={self.latency}" if self.parties == 2 else f"{self.parties} parties"
        return f"N={self.batches}, {network}, B={self.b_max}, s={self.s_max}{falling}"


SETTINGS = (
    Setting(118, 1000, 3, 4, True, {10: 819040, 18: 1468620}, derived={1: 86260, 30: 2431500}),
    Setting(118, 1000, 1, 4, True, {12: 2952240, 19: 4651440}),
    Setting(118, 1000, 2, 4, True, {9: 1103120, 17: 2078390}),
    Setting(118, 1000, 4, 4, True, {12: 738900, 17: 1042640}),
    Setting(118, 1000, 5, 4, True, {10: 495070, 19: 933400}),
    Setting(118, 1000, 3, 2, True, {9: 731040, 26: 2095700}),
    Setting(118, 1000, 3, 3, True, {11: 898040, 19: 1538830}),
    Setting(118, 1000, 3, 6, True, {22: 1797460, 17: 1391300}),
    Setting(118, 1000, 3, 8, True, {23: 1883390, 17: 1394870}),
    Setting(118, 1000, 3, 10, True, {27: 2213430, 18: 1480650}),
    Setting(118, 1000, 3, 12, True, {30: 2461350, 19: 1565410}),
    Setting(391, 1000, 3, 4, True, {11: 2976350, 13: 3514840}),
    Setting(391, 1000, 3, 4, False, {13: 3561760, 15: 4109700}),
    Setting(391, 5, 3, 4, True, {18: 682745}, parties=4),
    Setting(391, 5, 3, 4, False, {15: 938775, 24: 1501815}, parties=4),
)
PRINTED = Claim(
    "printed times that ours equal, to the unit", 29, "paper", show="{:.0f}".format, least=29
)
SLOW = {"p1": (8, 15, 5), "p2": (25, 50, 5), "p3": (10, 20, 100)}
"""The passives of the four-party case: forward, backward, latency."""


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """All times of PASTA's Tables II to IV beside ours. Nothing is random, so seeds do not matter;
    the quick form leaves out the rows with 391 batches an epoch."""
    rows: list[list[str]] = []
    counts = {"equal": 0, "of": 0, "derived_equal": 0, "derived": 0}
    for setting in SETTINGS:
        if quick and setting.batches > 118:
            continue
        say(setting.name())
        for epoch, ours in epoch_ends(setting).items():
            printed = epoch in setting.ends
            due = setting.ends[epoch] if printed else setting.derived[epoch]
            counts["of" if printed else "derived"] += 1
            counts["equal" if printed else "derived_equal"] += ours == due
            mark = "=" if ours == due else f"{ours - due:+d}"
            figure = f"{due:,}" if printed else f"{due:,} *"
            rows.append([setting.name(), str(epoch), figure, f"{ours:,}", mark])
    return Reproduction(
        title="PASTA Tables II–IV: time at the end of an epoch, in units",
        columns=["setting", "epoch", "paper", "ours", "difference"],
        rows=rows,
        notes=[
            f"{counts['equal']} of {counts['of']} equal, to the unit",
            f"* not printed in the paper but derived from its rules: {counts['derived_equal']} of "
            f"{counts['derived']} equal",
        ],
        data=dict(counts),
        claims=[] if quick else [(PRINTED, counts["equal"])],
    )


def epoch_ends(setting: Setting) -> dict[int, int]:
    """When the last party has gone backward on the last batch of each epoch in question."""
    wanted = sorted({**setting.ends, **setting.derived})
    job = job_of(setting, epochs=wanted[-1])
    run = simulate_clock(job, setting.batches, dict.fromkeys(job.parties, 1))
    fresh = [
        [time for time, action, _ in party.actions if action == "fresh"]
        for party in run.parties.values()
    ]
    return {epoch: max(times[epoch * setting.batches - 1] for times in fresh) for epoch in wanted}


def job_of(setting: Setting, epochs: int) -> Job:
    """The job of a setting; a unit is a nanosecond."""
    names = ["active", *(f"p{number}" for number in range(1, setting.parties))]
    costs, link = Costs(forward="10ns", backward="20ns", aggregate="10ns"), {}
    slow = {}
    if setting.parties == 4:
        slow = {n: Costs(forward=f"{f}ns", backward=f"{b}ns") for n, (f, b, _) in SLOW.items()}
        link = {name: Link(latency=f"{latency}ns") for name, (_, _, latency) in SLOW.items()}
    return Job(
        parties={name: Party(role="active" if name == "active" else "passive") for name in names},
        method={
            "name": "pasta",
            "b_max": setting.b_max,
            "s_max": setting.s_max,
            "decay": setting.decay,
        },
        train=Train(epochs=epochs, batch_size=1, shuffle="never"),
        network=Network(link=Link(latency=f"{setting.latency}ns"), overrides=link),
        compute=Compute(costs=costs, overrides=slow),
    )
