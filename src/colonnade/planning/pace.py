"""How fast rounds follow one another, and in closed form where the parties go in lock-step.

In lock-step a round begins anew with every aggregation: the time from one to the next is the
longest of the ways around the passive parties, or the active party's own work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from colonnade.planning.stages import Crossing, PassiveStage, Stages
from colonnade.planning.workload import Workload

_POINTS = 512
"""At which the distribution of the latest message is worked out, where there is jitter."""


@dataclass(frozen=True)
class Pace:
    """The clock of a job."""

    round_ns: float
    """From one round to the next, when all is under way."""
    first_ns: float
    """Until the first aggregation begins."""
    total_ns: float
    """Until the last update of the job is done."""
    windows: Mapping[str, float] = field(default_factory=dict)
    """Exchanges in flight, by passive party."""
    filled: Mapping[str, float] = field(default_factory=dict)
    """Local updates in a round that yield or only fill time, by party."""
    turns: Mapping[str, float] = field(default_factory=dict)
    """Turns of each passive party in a round of the job."""


def lockstep(stages: Stages, workload: Workload) -> Pace:
    """The pace of a method with one exchange in flight and no update that only fills time.

    >>> from colonnade.job import load
    >>> from colonnade.methods import build
    >>> from colonnade.planning.stages import stages_of
    >>> work = Workload.of(load("digits"), 1024, {"clinic": 16, "lab": 16, "insurer": 16})
    >>> lockstep(stages_of(build({"name": "fedsgd"}), work), work).first_ns / 1e6
    110.33152
    """
    active, rounds, size = stages.active, workload.rounds, workload.per_epoch
    jitters = [(each.jitter_ns,) for each in stages.passives]

    def round_ns(before: bool, then: bool, tried_ns: int = 0) -> float:
        """From a batch to the next, each whole or the last of an epoch."""
        ways = [
            active.reply_after_ns(place)
            + crossing_of(each, before).down_ns
            + 2 * each.delay_ns
            + each.busy_ns
            + crossing_of(each, then).up_ns
            for place, each in enumerate(stages.passives)
        ]
        return latest(active.busy_ns + tried_ns, ways, [2 * late for late in jitters])

    if size == 1:
        whole, into, after, epoch_ns = 0, 0, 0, round_ns(True, True)
        between_ns = (rounds - 1) * epoch_ns
    else:
        into, after = rounds // size, (rounds - 1) // size
        whole = rounds - 1 - into - after
        within_ns, into_ns, after_ns = (
            round_ns(False, False),
            round_ns(False, True),
            round_ns(True, False),
        )
        epoch_ns = (size - 2) * within_ns + into_ns + after_ns
        between_ns = whole * within_ns + into * into_ns + after * after_ns
    if active.tried_ns and rounds > 1:
        kinds = size == 1, size <= 2
        between_ns += round_ns(*kinds, active.tried_ns) - round_ns(*kinds)
    first = [
        stages.rehearsal_ns.get(each.name, 0)
        + each.send_ns
        + crossing_of(each, size == 1).up_ns
        + each.delay_ns
        for each in stages.passives
    ]
    own_ns = stages.rehearsal_ns.get(active.name, 0) + active.begin_ns
    first_ns = latest(own_ns, first, jitters)
    # The last update of any party is that of whoever is last with the last round.
    tail = [
        active.reply_after_ns(place)
        + crossing_of(each, rounds % size == 0).down_ns
        + each.delay_ns
        + each.busy_ns
        - each.send_ns
        for place, each in enumerate(stages.passives)
    ]
    total_ns = first_ns + between_ns + latest(active.free_after_ns, tail, jitters)
    ones = {each.name: 1.0 for each in stages.passives}
    return Pace(epoch_ns / size, first_ns, total_ns, windows=ones, turns=ones)


def crossing_of(stage: PassiveStage, last: bool) -> Crossing:
    """A passive party's time on the wire for a whole batch, or for the last one of an epoch."""
    return stage.last if last else stage.full


def latest(floor_ns: float, ways: Sequence[float], jitters: Sequence[tuple[int, ...]]) -> float:
    """The mean of the latest of several ways, each given by its mean and by how late its one or two
    messages may be.

    >>> latest(5, [10, 20], [(0,), (0,)])
    20
    >>> round(latest(0, [10, 10], [(6,), (6,)]), 2)
    11.0
    """
    if not any(sum(late) for late in jitters):
        return max(floor_ns, *ways)
    starts = [way - sum(late) / 2 for way, late in zip(ways, jitters, strict=True)]
    ends = [way + sum(late) / 2 for way, late in zip(ways, jitters, strict=True)]
    begin, end = max(floor_ns, *starts), max(floor_ns, *ends)
    # The mean of the latest is its largest value less the area below its distribution.
    times = np.linspace(begin, end, _POINTS)
    below = np.ones(_POINTS)
    for start, late in zip(starts, jitters, strict=True):
        if any(late):
            below *= _below((times - start) / late[0], len(late))
    area = float(np.sum((below[1:] + below[:-1]) / 2 * np.diff(times)))
    return end - area


def _below(share: npt.NDArray[np.float64], draws: int) -> npt.NDArray[np.float64]:
    """The distribution of one number drawn evenly from 0 to 1, or of the sum of two."""
    rising: npt.NDArray[np.float64] = np.clip(share, 0, 1)
    if draws == 1:
        return rising
    falling = np.clip(2 - share, 0, 1)
    return np.where(share < 1, rising**2 / 2, 1 - falling**2 / 2)
