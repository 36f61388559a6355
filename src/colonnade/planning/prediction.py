"""What a method will cost, what binds, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from colonnade.methods.method import Method
from colonnade.planning import laws
from colonnade.planning.choice import settled
from colonnade.planning.frames import frames
from colonnade.planning.pace import Pace, lockstep
from colonnade.planning.recurrence import recurrent
from colonnade.planning.stages import Stages, stages_of
from colonnade.planning.workload import NS_PER_S, Workload
from colonnade.policies.view import Role
from colonnade.units import show_seconds

Kind = Literal["compute", "up", "down", "latency"]
FULL = 0.85
"""The share of the time from which on a resource counts as full."""


class Usage(NamedTuple):
    """A resource: a party's computing, or one of the three things of its line."""

    kind: Kind
    party: str
    share: float
    """Of the time of a round in which it is in use; of a latency, how much of the time a place in
    the window is on its way."""


@dataclass(frozen=True)
class Prediction:
    """A method on a workload."""

    round_ns: float
    """From one round to the next, when all is under way."""
    first_ns: float
    """Until the first aggregation begins."""
    total_ns: float
    """Until the job's last update is done."""
    epochs: float
    """Of the whole job."""
    rounds: int
    up: Mapping[str, float]
    """Bytes in an epoch from each passive party."""
    down: Mapping[str, float]
    """Bytes in an epoch to each passive party."""
    usage: tuple[Usage, ...]
    binds: Usage
    """What the time of a round is due to."""
    why: str
    busiest: Usage
    """The party that computes most of the time, local updates that only fill time included."""
    window: int
    """Exchanges in flight at the most."""
    window_to_fill: int
    """The smallest window at which a stage binds, and no longer the way around."""
    exact: bool
    """Whether it is in closed form: so far as nothing is left to chance, equal to the simulator."""

    @property
    def epoch_s(self) -> float:
        """Seconds in an epoch, the job's beginning and end shared out among all."""
        return self.total_ns / NS_PER_S / self.epochs

    @property
    def rounds_per_s(self) -> float:
        """When all is under way; 0 where rounds take no time."""
        return NS_PER_S / self.round_ns if self.round_ns else 0.0


def time_of(method: Method, workload: Workload) -> Prediction:
    """What a method costs on a workload.

    >>> from colonnade.job import load
    >>> from colonnade.methods import build
    >>> work = Workload.of(load("digits"), 1000, {"clinic": 16, "lab": 16, "insurer": 16})
    >>> found = time_of(build({"name": "fedsgd"}), work)
    >>> round(found.epoch_s, 2), found.binds.kind, found.window_to_fill
    (3.85, 'latency', 7)
    """
    workload, windows = settled(method, workload)
    stages = stages_of(method, workload)
    exact = in_step(method)
    pace = lockstep(stages, workload) if exact else recurrent(stages, method, workload, windows)
    needed = _usage(stages, pace, workload.per_epoch)
    binds, why = _binding(stages, pace, needed, method.quorum.in_step)
    size, sizes = workload.per_epoch, frames(method, workload)
    up, down = {}, {}
    for name, (full, last) in sizes.items():
        turns = pace.turns[name]
        up[name] = turns * ((size - 1) * (full.up + full.status) + last.up + last.status)
        down[name] = turns * ((size - 1) * (full.down + full.status) + last.down + last.status)
    return Prediction(
        round_ns=pace.round_ns,
        first_ns=pace.first_ns,
        total_ns=pace.total_ns,
        epochs=workload.rounds / size,
        rounds=workload.rounds,
        up=up,
        down=down,
        usage=needed,
        binds=binds,
        why=why,
        busiest=_busiest(stages, pace, needed),
        window=int(max(pace.windows.values())),
        window_to_fill=laws.filling(stages),
        exact=exact,
    )


def in_step(method: Method) -> bool:
    """Whether a method goes in lock-step, with no update that yields or only fills time.

    >>> from colonnade.methods import build
    >>> [in_step(build({"name": name})) for name in ("fedbcd", "celu", "pasta", "vafl")]
    [True, False, False, False]
    """
    local = method.local
    filling = any(local.yields(role) or not local.holds(role) for role in Role)
    return method.window.most == 1 and method.quorum.in_step and not filling


def _usage(stages: Stages, pace: Pace, size: int) -> tuple[Usage, ...]:
    """Every resource's share, of what has to be done in a round."""
    round_ns = pace.round_ns
    if not round_ns:
        return ()
    turns = sum(pace.turns.values()) / stages.active.replies if stages.passives else 1.0
    found = [Usage("compute", stages.active.name, stages.active.busy_ns * turns / round_ns)]
    for each in stages.passives:
        share, name = pace.turns[each.name] / round_ns, each.name
        # The last batch of an epoch may be much smaller than the others.
        up_ns, down_ns = (
            ((size - 1) * full + last) / size
            for full, last in zip(each.full, each.last, strict=True)
        )
        found += [
            Usage("compute", name, each.busy_ns * share),
            Usage("up", name, up_ns * share),
            Usage("down", name, down_ns * share),
            Usage("latency", name, 2 * each.delay_ns * share / max(pace.windows[name], 1)),
        ]
    if len(set(pace.turns.values())) == 1:
        return tuple(found)
    # Of a party that has few turns among those followed, how many it has is not known well.
    return tuple(use._replace(share=min(use.share, 1.0)) for use in found)


def _busiest(stages: Stages, pace: Pace, needed: tuple[Usage, ...]) -> Usage:
    unit = {stages.active.name: stages.active.update_ns}
    unit |= {each.name: each.update_ns for each in stages.passives}
    found = [
        use._replace(
            share=use.share + pace.filled.get(use.party, 0) * unit[use.party] / pace.round_ns
        )
        for use in needed
        if use.kind == "compute"
    ]
    most = max(found, key=_share, default=Usage("compute", stages.active.name, 0.0))
    return most._replace(share=min(most.share, 1.0))


def _binding(
    stages: Stages, pace: Pace, needed: tuple[Usage, ...], in_step: bool
) -> tuple[Usage, str]:
    """What the time of a round is due to: a resource that is full or, where none is, the longest
    part of the way around. Where nobody waits for others, only the active party can hold up all."""
    if not needed:
        nothing = Usage("compute", stages.active.name, 0.0)
        return nothing, "nothing takes any time: the job says nothing of links and costs"
    stage = [use for use in needed if use.kind != "latency"]
    full = max(stage if in_step else stage[:1], key=_share)
    if full.share >= FULL:
        return full, f"{named(full)} is in use {full.share:.0%} of the time"
    place, around_ns = _way(stages, pace)
    each = stages.passives[place]
    parts = {
        Usage("latency", each.name, 0.0): 2 * each.delay_ns,
        Usage("up", each.name, 0.0): each.full.up_ns,
        Usage("down", each.name, 0.0): each.full.down_ns,
        Usage("compute", each.name, 0.0): float(each.busy_ns),
        Usage("compute", stages.active.name, 0.0): float(stages.active.reply_after_ns(place)),
    }
    longest = max(parts, key=lambda part: parts[part])
    share = parts[longest] / around_ns
    why = f"{named(longest)} is {share:.0%} of the {show_seconds(around_ns / NS_PER_S)} once around"
    return longest._replace(share=share), why


def _way(stages: Stages, pace: Pace) -> tuple[int, float]:
    """The way around that takes longest for each exchange in flight; of parties that have turns of
    their own, that of the one with most of them."""

    def weight(place: int) -> float:
        name = stages.passives[place].name
        return stages.loop_ns(place) / max(pace.windows[name], 1) * pace.turns[name]

    place = max(range(len(stages.passives)), key=weight)
    return place, stages.loop_ns(place)


def _share(use: Usage) -> float:
    return use.share


def named(use: Usage) -> str:
    """A resource in words.

    >>> named(Usage("latency", "slow", 0.5)), named(Usage("up", "slow", 0.5))
    ('latency of slow', 'line of slow, up')
    """
    if use.kind in ("up", "down"):
        return f"line of {use.party}, {use.kind}"
    return f"{use.kind} of {use.party}"
