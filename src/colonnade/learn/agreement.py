"""What all parties of a job agree on, worked out: the method, the batches, the rounds, the widths.

Everything but the widths follows from the terms of the job and the number of rows. So each party
works it out by itself, and what one of them enforces does not rest on what another says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from colonnade import methods
from colonnade.compress import remembers
from colonnade.data.batches import BatchPlan
from colonnade.data.splits import Split
from colonnade.errors import JobError
from colonnade.job.bounds import WIDTH_MAX
from colonnade.job.records import Job, first_step
from colonnade.job.terms import digest
from colonnade.job.terms import terms as terms_of
from colonnade.learn.schedule import EVALUATION_ROWS, Schedule
from colonnade.methods.method import Method
from colonnade.packed import NoList
from colonnade.policies.local import Timing
from colonnade.policies.view import ACTION, Role, View
from colonnade.wire.messages import Hello

EPOCHS = 10
"""How long a job trains that says neither epochs nor rounds."""


@dataclass(frozen=True)
class Agreement:
    """What all parties know of a job when they begin.

    >>> from colonnade.job import load
    >>> rows = {"train": 100, "validation": 0, "test": 20}
    >>> agreed = Agreement.of(load("digits"), rows, {"clinic": 16, "lab": 16, "insurer": 16})
    >>> agreed.plan.per_epoch, agreed.method.composition()
    (2, {})
    """

    job: Job
    method: Method
    rows: Mapping[Split, int]
    """How many rows each split has."""
    widths: Mapping[str, int]
    """How wide every party's embedding is; 0 for a label-only active party."""
    start: int = 0
    """The checkpoint from which all go on; 0 is the beginning."""
    clocked: bool = True
    """Whether the parties are as fast as the job says; over the network they are measured."""
    parent: str = ""
    """The version of a model that all begin with; empty where they begin from nothing."""

    @classmethod
    def of(
        cls,
        job: Job,
        rows: Mapping[Split, int],
        widths: Mapping[str, int],
        start: int = 0,
        clocked: bool = True,
    ) -> Agreement:
        """What follows from a job over so many rows."""
        return cls(job, methods.build(job.method), rows, widths, start, clocked)

    @cached_property
    def plan(self) -> BatchPlan:
        """Which rows each batch holds."""
        train = self.job.train
        order = self.job.seed, train.shuffle, train.drop_last
        return BatchPlan(self.rows["train"], train.batch_size, *order)

    @cached_property
    def rounds(self) -> int:
        """How many rounds there are at most."""
        train = self.job.train
        return train.rounds or (train.epochs or EPOCHS) * self.plan.per_epoch

    @cached_property
    def schedule(self) -> Schedule:
        """Which evaluations there are."""
        per_epoch, most = self.plan.per_epoch, self.method.window.most
        return Schedule.of(self.job.train, self.rounds, per_epoch, self.rows, most)

    @cached_property
    def methods(self) -> dict[str, Method]:
        """The method with what each party has of its own: its step and its compression."""
        return {name: own_method(self.method, self.job, name) for name in self.job.parties}

    @property
    def present(self) -> dict[str, int]:
        """The widths of the parties that send or hold an embedding."""
        return {name: width for name, width in self.widths.items() if width}

    @property
    def width_max(self) -> int:
        """The widest embedding of which a tensor still fits into a message, and a table of all
        training rows into its limit where the method remembers them.

        >>> from colonnade.job import load
        >>> rows = {"train": 1438, "validation": 0, "test": 359}
        >>> Agreement.of(load("digits"), rows, {}).width_max
        186932
        """
        train, limits = self.job.train, self.job.limits
        item = torch.empty(0, dtype=getattr(torch, train.dtype)).element_size()
        tested = min(EVALUATION_ROWS, self.rows["test"])
        at_once = max(train.batch_size, tested, *self.job.top.layers, 1)
        found = limits.message_bytes // (at_once * item)
        if self.method.quorum.remembers or any(map(self._coded, self.job.parties)):
            found = min(found, limits.table_bytes // (self.rows["train"] * item))
        return max(1, min(found, WIDTH_MAX))

    def _coded(self, name: str) -> str | None:
        """The encoding by which both ends remember what they have of a party's rows, if one is."""
        compress = self.methods[name].compress
        crossing = [compress.embedding, compress.gradient]
        if name == self.job.active:
            crossing = [compress.embedding] if self.method.exchange.sends_snapshots else []
        return next((each.text for each in crossing if remembers(each)), None)

    def check_memory(self) -> None:
        """Refuse what both ends would remember of a party's rows where that is too large."""
        item = torch.empty(0, dtype=getattr(torch, self.job.train.dtype)).element_size()
        most = self.job.limits.table_bytes
        for name, width in self.widths.items():
            rows, needed = self.rows["train"], self.rows["train"] * width * item
            if needed > most and (text := self._coded(name)) is not None:
                raise JobError(
                    f"with {text} both ends remember {rows:,} rows of {name}, {width} wide, which "
                    f"takes {needed:,} bytes, and limits.table_bytes is {most:,}: raise it, choose "
                    "a narrower embedding, or leave out ef21+"
                )

    def hello(self, name: str, fingerprint: str) -> Hello:
        """How a party introduces itself that holds these rows."""
        return Hello(
            party=name,
            digest=self._digest,
            rows=self.rows["train"],
            test_rows=self.rows["test"],
            validation_rows=self.rows["validation"],
            width=self.widths[name],
            fingerprint=fingerprint,
        )

    @cached_property
    def _digest(self) -> str:
        return digest(self.terms())

    def terms(self) -> dict[str, str]:
        """What the parties compare before they begin."""
        return terms_of(self.job, self.method.composition(), self.parent)

    def view(self, name: str) -> View:
        """A party's state before its first round.

        Where each passive party is answered by itself, a fast one may do the rounds of others.
        """
        parties = len(self.job.parties)
        share = self.method.quorum.per_round(parties - 1)
        role = Role.ACTIVE if name == self.job.active else Role.PASSIVE
        rounds, per_round = (
            (self.rounds, share) if role is Role.ACTIVE else (self.rounds * share, 1)
        )
        agreed = self.method.local.at_start(name, self.timings())
        view = View(role, rounds, self.plan.per_epoch, parties, per_round, agreed=agreed)
        if not self.clocked:
            # Over the network nobody asks afterwards what the party did and when.
            view.actions = NoList(ACTION)
        return view

    def timings(self) -> dict[str, Timing] | None:
        """What the job says beforehand of the parties' speeds; None where they are measured."""
        found: dict[str, Timing] = {}
        if not self.clocked:
            return None
        for name in self.present:
            costs, link = self.job.compute.of(name), self.job.network.of(name)
            leads = name == self.job.active
            parts = [costs.forward, costs.backward] + [costs.top] * leads
            if "measured" in parts:
                return None
            update_ns = sum(first_step(part) for part in parts)
            latency_ns = 0 if leads else first_step(link.latency)
            found[name] = Timing(update_ns, latency_ns)
        return found


def own_method(method: Method, job: Job, name: str) -> Method:
    """The method with what a party has of its own."""
    party = job.parties[name]
    misplaced = "gradient" if name == job.active else "top"
    if misplaced in party.compress:
        cure = {
            "gradient": "gradients go down: set it for the passive party that gets them",
            "top": f"the top model is the active party's: set it for {job.active}",
        }
        raise JobError(f"parties.{name}.compress.{misplaced} has no effect: {cure[misplaced]}")
    crosses = name != job.active or method.exchange.sends_snapshots
    if "embedding" in party.compress and not crosses:
        raise JobError(
            f"parties.{name}.compress.embedding has no effect: the active party's own embeddings "
            "cross only in snapshots, so leave it out, or set method.exchange=snapshot"
        )
    axes: dict[str, Any] = {"compress": party.compress} if party.compress else {}
    own = methods.composed(method, axes | ({"step": party.step} if party.step else {}))
    if own.calibrates and not method.calibrates:
        raise JobError(
            f"parties.{name}.compress has bits to choose (by_link), and lines are measured only "
            "where the method has some too: set method.compress.embedding, as in by_link:3:16"
        )
    return own
