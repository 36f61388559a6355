"""What to change, in one sentence, with what it would come to."""

from __future__ import annotations

from dataclasses import replace

from colonnade.compress import plain, scalar
from colonnade.methods.method import Method
from colonnade.planning import laws
from colonnade.planning.prediction import FULL, Prediction, named, time_of
from colonnade.planning.stages import stages_of
from colonnade.planning.workload import NS_PER_S, Workload
from colonnade.units import show_seconds

WORTH = 0.95
"""What a change must at least bring the time down to, to be spoken of."""


def advice(method: Method, workload: Workload, found: Prediction) -> str:
    """What to change about what binds.

    >>> from colonnade.job import load
    >>> from colonnade.methods import build
    >>> work = Workload.of(load("digits"), 1000, {"clinic": 16, "lab": 16, "insurer": 16})
    >>> method = build({"name": "fedsgd"})
    >>> advice(method, work, time_of(method, work))
    'latency binds: a window of 7 would fill the pipe (640 ms)'
    """
    kind, party, share = found.binds
    if not found.round_ns:
        return "nothing takes any time, so that nothing binds"
    if kind == "compute":
        return _compute(method, workload, found)
    if kind == "latency":
        return _latency(method, workload, found)
    full = "is full" if share >= FULL else "takes longest"
    return f"the line of {party} {full} ({kind}): {_fewer_bytes(method, workload, found)}"


def _latency(method: Method, workload: Workload, found: Prediction) -> str:
    stages = stages_of(method, workload)
    needed = found.window_to_fill
    could_s = laws.round_ns(stages, needed) * workload.per_epoch / NS_PER_S
    if method.quorum.remembers:
        return (
            "latency binds, and nobody waits for others: only a shorter line or fewer rounds help"
        )
    if needed > found.window and could_s < WORTH * found.epoch_s:
        return f"latency binds: a window of {needed} would fill the pipe ({show_seconds(could_s)})"
    return "latency binds, and a larger window gains little: do more in a round (larger batches)"


def _compute(method: Method, workload: Workload, found: Prediction) -> str:
    party, share = found.binds.party, found.binds.share
    stages = stages_of(method, workload)
    held = {each.name: each.held for each in stages.passives} | {
        stages.active.name: stages.active.held
    }
    local = f"; fewer than its {held[party]} local updates would help" if held[party] else ""
    if share >= FULL:
        return f"compute of {party} binds: nothing to gain from the network{local}"
    could_s = laws.round_ns(stages, found.window_to_fill) * workload.per_epoch / NS_PER_S
    if (
        found.window_to_fill > found.window
        and could_s < WORTH * found.epoch_s
        and not method.quorum.remembers
    ):
        return (
            f"{named(found.binds)} is most of a round: a window of {found.window_to_fill} would "
            f"let others work meanwhile ({show_seconds(could_s)}){local}"
        )
    return f"{named(found.binds)} is most of a round: a faster {party} would help{local}"


def _fewer_bytes(method: Method, workload: Workload, found: Prediction) -> str:
    """Encodings that would take the load off a line, or more of the line."""
    kind, snapshots = found.binds.kind, method.exchange.sends_snapshots
    more = "give it more bandwidth"
    roles = ("embedding",) if kind == "up" else ("embedding", "top") if snapshots else ("gradient",)
    words = {"embedding": "embeddings", "gradient": "gradients", "top": "top model"}
    written = [getattr(method.compress, role) for role in roles]
    hidden = method.protect.sum is not None or method.protect.cipher is not None
    if hidden or any(each != plain() for each in written):
        return more
    changed = replace(method.compress, **dict.fromkeys(roles, scalar(4)))
    could_s = time_of(replace(method, compress=changed), workload).epoch_s
    if could_s > WORTH * found.epoch_s:
        return more
    what = " and ".join(words[role] for role in roles)
    whose = f"its {what}" if kind == "up" else what if snapshots else f"the {what} to it"
    return f"compress {whose} (scalar:4 would make it {show_seconds(could_s)}), or {more}"
