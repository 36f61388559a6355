"""The law of a window, in closed form: rounds follow one another no faster than the longest stage
lets them, and no faster than a window's worth of rounds goes once around.

    round = max( longest stage, max over passive parties of (once around) / window )

Stages are each party's computing in a round, and each direction of each line; once around is from
an embedding's forward pass to the end of its fresh update. With a window of 1 this is exact.

A forward pass that is made again where a party has time for it (`version=recompute:idle`) is no
part of a stage; it is on the way around where it fits into a round.
"""

from __future__ import annotations

from math import ceil

from colonnade.compress import Compress
from colonnade.methods.method import Method
from colonnade.planning.stages import Stages, stages_of
from colonnade.planning.workload import Workload
from colonnade.policies.version import ROOM
from colonnade.policies.window import BandwidthDelay, Lockstep, Pipelined, WindowPolicy


def round_ns(stages: Stages, window: int) -> float:
    """The time of a round with a window of so many exchanges."""
    places = range(len(stages.passives))
    if window == 1:
        # Nothing is stale, so that no forward pass is made again.
        ways = [stages.passives[place].fresh_ns + stages.away_ns(place) for place in places]
        return max(stages.active.busy_ns, *ways)
    least_ns = max(around_ns(stages, place, 0) for place in places) / window
    fast_ns = max(stages.bottleneck_ns, least_ns)
    return max(fast_ns, *(around_ns(stages, place, fast_ns) / window for place in places))


def around_ns(stages: Stages, place: int, round_ns: float) -> float:
    """Once around for the party at a place, when rounds follow each other so fast."""
    passive = stages.passives[place]
    fits = passive.busy_ns + ROOM * passive.spare_ns <= round_ns
    return stages.away_ns(place) + passive.busy_ns + (passive.spare_ns if fits else 0)


def window_to_fill(workload: Workload, compress: Compress | None = None) -> int:
    """The smallest window at which a stage binds, and no longer the way around.

    >>> from colonnade.job import load
    >>> widths = {"clinic": 16, "lab": 16, "insurer": 16}
    >>> window_to_fill(Workload.of(load("digits"), rows=1000, widths=widths))
    7
    """
    return filling(stages_of(Method(compress=compress or Compress()), workload))


def filling(stages: Stages) -> int:
    """The smallest window at which a stage of a method binds."""
    full_ns = stages.bottleneck_ns
    if not full_ns:
        return 1
    longest = max(around_ns(stages, place, full_ns) for place in range(len(stages.passives)))
    return max(1, ceil(longest / full_ns))


def effective_window(policy: WindowPolicy, workload: Workload) -> int:
    """How many exchanges a window has in flight once it is under way: one that is steered grows
    until the pipe is full, any other holds what it may.

    >>> from colonnade.job import load
    >>> from colonnade.policies.window import pipelined
    >>> work = Workload.of(load("digits"), 1000, {"clinic": 16, "lab": 16, "insurer": 16})
    >>> effective_window(pipelined(3), work), effective_window(pipelined(30), work)
    (3, 7)
    """
    if isinstance(policy, Lockstep):
        return 1
    if isinstance(policy, Pipelined | BandwidthDelay):
        return min(policy.most, window_to_fill(workload))
    return max(1, policy.most)
