"""The law of a window, in closed form: rounds follow one another no faster than the longest stage
lets them, and no faster than a window's worth of rounds goes once around.

    round = max( longest stage, max over passive parties of (once around) / window )

Stages are each party's computing in a round, and each direction of each line; once around is from
an embedding's forward pass to the end of its fresh update. With a window of 1 this is exact.
"""

from __future__ import annotations

from math import ceil

from colonnade.compress import Compress
from colonnade.methods.method import Method
from colonnade.planning.stages import Stages, stages_of
from colonnade.planning.workload import Workload
from colonnade.policies.window import BandwidthDelay, Lockstep, Pipelined, WindowPolicy


def round_ns(stages: Stages, window: int) -> float:
    """The time of a round with a window of so many exchanges."""
    return max(stages.bottleneck_ns, around_ns(stages) / window)


def around_ns(stages: Stages) -> float:
    """The longest way around."""
    return max(stages.loop_ns(place) for place in range(len(stages.passives)))


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
    bottleneck_ns = stages.bottleneck_ns
    return max(1, ceil(around_ns(stages) / bottleneck_ns)) if bottleneck_ns else 1


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
