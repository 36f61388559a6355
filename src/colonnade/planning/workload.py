"""What one round costs a job's parties and links, in nanoseconds, bits a second and widths.

Costs and links that change over time are taken as they are when the job begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import torch

from colonnade import methods
from colonnade.data.batches import BatchPlan
from colonnade.errors import JobError
from colonnade.job.records import Costs, Job, Link, first_step
from colonnade.learn.agreement import EPOCHS
from colonnade.methods.method import Method
from colonnade.models.top import build_top
from colonnade.units import duration_ns, rate_bits

NS_PER_S = 10**9


class Speeds(NamedTuple):
    """What each kind of work takes a party, a mini-batch at a time."""

    forward_ns: int = 0
    backward_ns: int = 0
    aggregate_ns: int = 0
    top_ns: int = 0
    codec_ns: int = 0


class Line(NamedTuple):
    """The link of a passive party; each direction has its own bandwidth, None is without limit."""

    latency_ns: int = 0
    """One-way."""
    up_bits: int | None = None
    down_bits: int | None = None
    jitter_ns: int = 0
    """The most by which a message is late; on average half of it."""

    @property
    def delay_ns(self) -> float:
        """One-way, with the mean jitter."""
        return self.latency_ns + self.jitter_ns / 2


class Member(NamedTuple):
    """A party: its embedding, its speeds and, of a passive one, its link."""

    name: str
    width: int
    """0: it holds the labels only."""
    speeds: Speeds = Speeds()
    line: Line = Line()


@dataclass(frozen=True)
class Workload:
    """A job as far as its clock and its bytes depend on it; the method is none of it.

    >>> from colonnade.job import load
    >>> widths = {"clinic": 16, "lab": 16, "insurer": 16}
    >>> work = Workload.of(load("digits"), rows=1000, widths=widths)
    >>> work.per_epoch, work.rounds, [member.name for member in work.passives]
    (16, 1280, ['lab', 'insurer'])
    """

    active: Member
    passives: tuple[Member, ...]
    rows: int
    batch_size: int
    rounds: int
    """Of the whole job."""
    drop_last: bool = False
    dtype: Literal["float32", "float64"] = "float32"
    top: tuple[tuple[int, ...], ...] = ()
    """The shapes of the top model's parameters, which snapshots carry."""
    own_compress: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """By party, how its tensors are written where other than the method says."""

    @classmethod
    def of(cls, job: Job, rows: int, widths: Mapping[str, int], outputs: int = 1) -> Workload:
        """The workload of a job over so many training rows; `outputs` is the width of the
        prediction, on which the size of the top model depends."""
        members = {
            name: Member(
                name,
                widths[name],
                _speeds(job.compute.of(name), name),
                Line() if name == job.active else _line(job.network.of(name)),
            )
            for name in job.parties
        }
        return cls.among(job, rows, members, _top(job, widths, outputs))

    @classmethod
    def among(
        cls,
        job: Job,
        rows: int,
        members: Mapping[str, Member],
        top: tuple[tuple[int, ...], ...] = (),
    ) -> Workload:
        """The workload of a job among parties of which speeds and lines are known."""
        train = job.train
        plan = BatchPlan(rows, train.batch_size, job.seed, train.shuffle, train.drop_last)
        return cls(
            active=members[job.active],
            passives=tuple(members[name] for name in job.passives),
            rows=rows,
            batch_size=train.batch_size,
            rounds=train.rounds or (train.epochs or EPOCHS) * plan.per_epoch,
            drop_last=train.drop_last,
            dtype=train.dtype,
            top=top,
            own_compress=tuple(
                (name, tuple(sorted(party.compress.items())))
                for name, party in job.parties.items()
                if party.compress
            ),
        )

    @cached_property
    def per_epoch(self) -> int:
        """Rounds in an epoch."""
        if self.drop_last:
            return self.rows // self.batch_size
        return -(-self.rows // self.batch_size)

    @property
    def last_rows(self) -> int:
        """The rows of the last batch of an epoch, which may be smaller."""
        if self.drop_last:
            return self.batch_size
        return self.rows - (self.per_epoch - 1) * self.batch_size

    @property
    def widths(self) -> dict[str, int]:
        """Of the parties that hold an embedding; the active party is first."""
        return {each.name: each.width for each in (self.active, *self.passives) if each.width}

    def method_of(self, method: Method, name: str) -> Method:
        """The method with what a party has of its own compression."""
        own = dict(dict(self.own_compress).get(name, ()))
        if name == self.active.name and not method.exchange.sends_snapshots:
            own = {}
        return methods.composed(method, {"compress": own}) if own else method


def _speeds(costs: Costs, name: str) -> Speeds:
    found = []
    for work in ("forward", "backward", "aggregate", "top", "codec"):
        cost = getattr(costs, work)
        if cost == "measured":
            raise JobError(
                f"compute.{work} of {name} is measured while it runs, and a plan runs nothing: "
                f"give a duration, as in --set compute.{work}=10ms"
            )
        found.append(first_step(cost))
    return Speeds(*found)


def _line(link: Link) -> Line:
    bandwidth = link.bandwidth
    if bandwidth is not None and not isinstance(bandwidth, str):
        bandwidth = bandwidth[0][1]
    bits = None if bandwidth is None else rate_bits(bandwidth)
    return Line(first_step(link.latency), bits, bits, duration_ns(link.jitter))


def _top(job: Job, widths: Mapping[str, int], outputs: int) -> tuple[tuple[int, ...], ...]:
    present = {name: width for name, width in widths.items() if width}
    with torch.random.fork_rng(devices=[]):
        try:
            top = build_top(job.top, present, outputs)
        except JobError:
            # A sum or a product of embeddings of unequal widths: no job, and no parameters.
            return ()
    return tuple(tuple(each.shape) for each in top.parameters())
