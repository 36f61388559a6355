"""A method is a record of policies; the neutral record is plain split training."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from colonnade.compress import Compress, chooses, plain
from colonnade.compress import describe as text
from colonnade.errors import JobError
from colonnade.policies.average import AveragePolicy, none
from colonnade.policies.exchange import ExchangePolicy, gradients
from colonnade.policies.local import LocalPolicy, once
from colonnade.policies.momentum import MomentumPolicy, kept
from colonnade.policies.order import OrderPolicy, parallel
from colonnade.policies.quorum import QuorumPolicy, everyone
from colonnade.policies.rate import RatePolicy, constant
from colonnade.policies.step import StepPolicy, plain_step
from colonnade.policies.version import VersionPolicy, stash
from colonnade.policies.view import Role
from colonnade.policies.weight import WeightPolicy, uniform
from colonnade.policies.window import WindowPolicy, lockstep
from colonnade.protect.base import Protect


@dataclass(frozen=True)
class Method:
    """One choice on every axis. Two methods are equal when their choices are.

    >>> Method() == Method(local=once())
    True
    """

    exchange: ExchangePolicy = field(default_factory=gradients)
    window: WindowPolicy = field(default_factory=lockstep)
    quorum: QuorumPolicy = field(default_factory=everyone)
    local: LocalPolicy = field(default_factory=once)
    version: VersionPolicy = field(default_factory=stash)
    weight: WeightPolicy = field(default_factory=uniform)
    compress: Compress = field(default_factory=Compress)
    rate: RatePolicy = field(default_factory=constant)
    momentum: MomentumPolicy = field(default_factory=kept)
    step: StepPolicy = field(default_factory=plain_step)
    order: OrderPolicy = field(default_factory=parallel)
    average: AveragePolicy = field(default_factory=none)
    protect: Protect = field(default_factory=Protect)

    def __post_init__(self) -> None:
        for axis in fields(self):
            value = getattr(self, axis.name)
            if not is_dataclass(value) or isinstance(value, type):
                raise JobError(
                    f"the axis {axis.name} of a method is {value!r}: give a policy, such as "
                    f"{getattr(Method(), axis.name)!r}; a text is for a job, as in "
                    f'{{"name": "fedsgd", "{axis.name}": …}}'
                )

    @property
    def rehearses(self) -> bool:
        """Whether the parties measure their speed before the first round."""
        return self.local.reports or self.rate.rehearses

    @property
    def calibrates(self) -> bool:
        """Whether the lines are measured before the first round, because something is chosen by
        them.

        >>> from colonnade.compress import by_link
        >>> Method().calibrates, Method(compress=Compress(embedding=by_link(3, 8))).calibrates
        (False, True)
        """
        return any(map(chooses, (self.compress.embedding, self.compress.gradient)))

    @property
    def updates_between(self) -> bool:
        """Whether a passive party may update between an embedding and its reply."""
        return self.window.most > 1 or not self.local.holds(Role.PASSIVE)

    @property
    def by_clock(self) -> bool:
        """Whether what is learnt depends on how long things take."""
        return self.local.by_clock or self.calibrates or not self._waits

    @property
    def by_counts(self) -> bool:
        """Whether what is learnt depends only on how many updates each party does in each round.

        >>> from colonnade.policies.local import until, while_waiting
        >>> Method(local=until("1s")).by_counts, Method(local=while_waiting(4)).by_counts
        (True, False)
        """
        local, roles = self.local, (Role.ACTIVE, Role.PASSIVE)
        holds = all(local.holds(role) and not local.yields(role) for role in roles)
        return holds and self._waits and not self.calibrates

    @property
    def _waits(self) -> bool:
        """Whether every round waits for all parties, and every party for every round."""
        return self.window == lockstep() and self.quorum == everyone()

    def composition(self) -> dict[str, str]:
        """The choices that differ from plain split training, by axis.

        >>> from colonnade.policies.local import repeat
        >>> Method(local=repeat(5)).composition()
        {'local': 'repeat(updates=5)'}
        """
        neutral = Method()
        return {
            axis.name: describe(getattr(self, axis.name))
            for axis in fields(self)
            if getattr(self, axis.name) != getattr(neutral, axis.name)
        }


AXES = tuple(axis.name for axis in fields(Method))
"""The names of all axes; each has a file of its name in `policies/`, `compress` and `protect` a
room."""


def describe(policy: Any) -> str:
    """A policy as a call: its name in small letters and its settable fields."""
    if isinstance(policy, Compress):
        roles = {field.name: getattr(policy, field.name) for field in fields(policy)}
        texts = [f"{role}={text(codec)}" for role, codec in roles.items() if codec != plain()]
        return f"compress({', '.join(texts)})"
    if isinstance(policy, Protect):
        return f"protect({', '.join(f'{name}={text}' for name, text in policy.texts.items())})"
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(policy).__name__).strip("_")
    options = [f"{field.name}={getattr(policy, field.name)!r}" for field in fields(policy)]
    return f"{name}({', '.join(options)})"
