"""What a method leaves open, chosen by speeds and lines that are known: windows, and bits by link.

The time of a round goes by the law of windows (`laws.py`). More in flight makes rounds faster until
a stage is full; and it makes gradients staler, so that more rounds are needed:

    time to a target  ~  round(w) · (1 + ((w − 1) / s₀)²)

On tables and images seven updates of staleness cost nothing that shows and fifteen up to half as
many rounds more (docs/methods/auto.md), which is what s₀ stands for. Bits are then as many as cost
no time: a line that is not full with more of them has no reason to lose anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from colonnade.compress import ByLink, chooses, chosen
from colonnade.methods.method import Method
from colonnade.planning import laws
from colonnade.planning.frames import frames
from colonnade.planning.stages import Crossing, Stages, stages_of, wire_ns
from colonnade.planning.workload import Workload
from colonnade.policies.path import ROUNDING
from colonnade.policies.window import BandwidthDelay

STALE = 16.0
"""s₀: the staleness at which twice as many rounds are needed."""
SLACK = 0.02
"""How much longer a round may become for more bits."""
ROLES = ("embedding", "gradient")
Place = tuple[str, str]
"""A passive party, and whose bits: of its `embedding` or of the `gradient` to it."""


@dataclass(frozen=True)
class Choice:
    """What was chosen, by passive party; empty where nothing is open."""

    windows: Mapping[str, int]
    up: Mapping[str, int]
    """Bits of a component of an embedding."""
    down: Mapping[str, int]
    """Bits of a component of a gradient."""
    round_ns: float
    """What is expected of it: from one round to the next."""
    bytes_up: float
    """Of all passive parties, in a round."""
    bytes_down: float


def choose(method: Method, workload: Workload) -> Choice:
    """What a method leaves open, for a workload.

    >>> from colonnade.job import load
    >>> from colonnade.methods import build
    >>> sets = ["network.lab.bandwidth=1mbit", "network.insurer.latency=20ms"]
    >>> job = load("digits", sets, method="auto")
    >>> work = Workload.of(job, 1000, {"clinic": 16, "lab": 16, "insurer": 16})
    >>> made = choose(build(job.method), work)
    >>> made.windows, made.up, made.down
    ({'lab': 7, 'insurer': 2}, {'lab': 16, 'insurer': 32}, {'lab': 16, 'insurer': 32})
    """
    bits = {place: part.least for place, part in _open(method, workload).items()}
    lines = _Lines(method, workload)
    window = _window(lines.stages(bits), method, workload)
    most_ns = (1 + SLACK) * laws.round_ns(lines.stages(bits), window)
    growing = True
    while growing:
        # One rung each in turn, so that what room there is goes to all of them.
        growing = False
        for place, part in _open(method, workload).items():
            more = min((count for count in part.choices if count > bits[place]), default=None)
            if more is None:
                continue
            tried = bits | {place: more}
            if laws.round_ns(lines.stages(tried), window) <= most_ns:
                bits, growing = tried, True
    stages = lines.stages(bits)
    round_ns = laws.round_ns(stages, window)
    # A party that is near needs fewer in flight than the one that is farthest away.
    windows = {
        each.name: min(window, _filling(laws.around_ns(stages, place, round_ns), round_ns))
        for place, each in enumerate(workload.passives)
    }
    sizes = [lines.bytes_of(each.name, bits) for each in workload.passives]
    return Choice(
        windows=windows if isinstance(method.window, BandwidthDelay) else {},
        up={name: count for (name, role), count in bits.items() if role == "embedding"},
        down={name: count for (name, role), count in bits.items() if role == "gradient"},
        round_ns=round_ns,
        bytes_up=sum(up for up, _ in sizes),
        bytes_down=sum(down for _, down in sizes),
    )


def settled(method: Method, workload: Workload) -> tuple[Workload, Mapping[str, int]]:
    """A workload in which bits that a method leaves open are as they will be chosen; and the
    windows to begin with, where they are chosen too.

    >>> from colonnade.job import load
    >>> from colonnade.methods import build
    >>> job = load("digits", method="auto")
    >>> work = Workload.of(job, 1000, {"clinic": 16, "lab": 16, "insurer": 16})
    >>> settled_work, windows = settled(build(job.method), work)
    >>> dict(settled_work.own_compress)["lab"], windows["lab"]
    ((('embedding', 'plain'), ('gradient', 'plain')), 6)
    """
    if not method.calibrates:
        return workload, {}
    made = choose(method, workload)
    bits = {(name, "embedding"): count for name, count in made.up.items()}
    bits |= {(name, "gradient"): count for name, count in made.down.items()}
    return _written(method, workload, bits), made.windows


def _open(method: Method, workload: Workload) -> dict[Place, ByLink]:
    """Where bits can be chosen, and between which."""
    found = {}
    for each in workload.passives:
        compress = workload.method_of(method, each.name).compress
        for role in ROLES:
            if (part := chooses(getattr(compress, role))) is not None:
                found[each.name, role] = part
    return found


def _written(method: Method, workload: Workload, bits: Mapping[Place, int]) -> Workload:
    """The workload with these bits for good."""
    own = {name: dict(roles) for name, roles in workload.own_compress}
    for (name, role), count in bits.items():
        encoding = getattr(workload.method_of(method, name).compress, role)
        own.setdefault(name, {})[role] = chosen(encoding, count).text
    pairs = tuple((name, tuple(sorted(roles.items()))) for name, roles in own.items())
    return replace(workload, own_compress=pairs)


class _Lines:
    """The stages of a method for any choice of bits. Frames are measured once for each number of
    bits, with everybody at the same."""

    def __init__(self, method: Method, workload: Workload) -> None:
        self._base, self._workload = stages_of(method, workload), workload
        self._replies = "embedding" if method.exchange.sends_snapshots else "gradient"
        """What the size of a reply goes by."""
        open_ = _open(method, workload)
        self._sizes: dict[tuple[str, str, int], float] = {}
        for bits in {0, *(count for part in open_.values() for count in part.choices)}:
            all_ = {place: bits for place, part in open_.items() if bits in part.choices}
            for name, found in frames(method, _written(method, workload, all_)).items():
                self._sizes[name, "up", bits] = found.full.up
                self._sizes[name, "down", bits] = found.full.down

    def bytes_of(self, name: str, bits: Mapping[Place, int]) -> tuple[float, float]:
        """Of an embedding of a party, and of the reply to it."""
        up, down = bits.get((name, "embedding"), 0), bits.get((name, self._replies), 0)
        return self._sizes[name, "up", up], self._sizes[name, "down", down]

    def stages(self, bits: Mapping[Place, int]) -> Stages:
        made = []
        for member, stage in zip(self._workload.passives, self._base.passives, strict=True):
            up, down = self.bytes_of(member.name, bits)
            line = member.line
            full = Crossing(wire_ns(up, line.up_bits), wire_ns(down, line.down_bits))
            made.append(stage._replace(full=full))
        return self._base._replace(passives=tuple(made))


def _window(stages: Stages, method: Method, workload: Workload) -> int:
    """The window with which a target is reached soonest."""
    policy = method.window
    if not isinstance(policy, BandwidthDelay):
        return policy.most
    bound = max(1, min(policy.most, int(policy.share * workload.per_epoch)))

    def price(window: int) -> float:
        return laws.round_ns(stages, window) * (1 + ((window - 1) / STALE) ** 2)

    return min(range(1, bound + 1), key=price)


def _filling(loop_ns: float, round_ns: float) -> int:
    """How many must be in flight for a round to follow each other so fast."""
    return max(1, ceil(loop_ns / round_ns - ROUNDING)) if round_ns else 1
