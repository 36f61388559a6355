"""What an experiment is: settings, arms, rules and claims, declared and nothing else.

An *arm* is a method with its options, a *setting* is where all arms are compared: a data set, a
network, a number of parties. A *rule* says how rates are chosen and what counts as reaching the
target: a paper's own rule, and the fair one, stand side by side. A *claim* is a sentence of the
paper with its figure, and which of our figures belongs beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from colonnade.study.findings import Findings

Measure = Literal["time_s", "round", "bytes"]
Cost = Measure | Literal["steady_time_s", "steady_round", "steady_bytes"]
"""What a target has cost: counted as the rule says, or until it was *steady*, until the mean of the
last evaluations was at it. A metric that goes up and down a lot touches a target early."""
LAST = 5
"""Evaluations over which the end of a run is averaged: one alone differs by a point from the
next."""


@dataclass(frozen=True)
class Setting:
    """Where all arms are compared."""

    label: str
    sets: tuple[str, ...] = ()
    """Settings of the job, as for `--set`."""
    job: str | None = None
    """A built-in job in the place of the study's own."""
    like: str | None = None
    """The setting whose rates serve here too, because only the clock differs."""
    seeds: tuple[int, ...] | None = None
    target: float | None = None
    """In the place of the rule's."""
    late: Callable[[], tuple[str, ...]] | None = None
    """More settings of the job, which it takes data to know: called when the study is conducted."""
    method: Mapping[str, Any] = field(default_factory=dict)
    """Options of every arm's method here, unless the arm has its own: a falling rate, say."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By arm, options of its method here, whatever else it has."""
    arm_sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By arm, settings of the job here, on top of all others."""


@dataclass(frozen=True)
class Arm:
    """A method in an experiment."""

    label: str
    method: Mapping[str, Any]
    sets: tuple[str, ...] = ()
    settings: tuple[str, ...] | None = None
    """The settings in which it takes part; None for all."""
    rates: Mapping[str, tuple[float | str, ...]] = field(default_factory=dict)
    """By rule, rates in the place of the rule's own."""
    like: str | None = None
    """The arm whose rate serves here too, as for an ingredient that is left out."""


@dataclass(frozen=True)
class Share:
    """A target: this share of what the baseline has in the end."""

    share: float


@dataclass(frozen=True)
class Below:
    """A target: so much less than what the baseline has in the end."""

    less: float


Target = float | Share | Below


@dataclass(frozen=True)
class Rule:
    """How rates are chosen, and when a target counts as reached."""

    name: str
    """`paper` or `fair`."""
    text: str
    """The rule in a sentence, for whoever reads the table."""
    target: Target
    rates: tuple[float | str, ...] = ()
    """Learning rates for all parties, or multiples of each one's own, as in `"2x"`; a single one is
    taken as given."""
    shared: bool = False
    """The rate that suits the baseline best serves everybody."""
    by: Literal["cost", "end", "loss"] = "cost"
    """Rates are ranked by the cost of the target, or by the metric or the loss of the training in
    the end."""
    tuned_in: str | None = None
    """The setting whose rates serve in all; None where each has its own."""
    tuning_seeds: tuple[int, ...] = ()
    tuning_sets: tuple[str, ...] = ()
    """Settings of the job while rates are chosen, on top of `sets`: other rows to choose by than
    those of the table."""
    growth: int = 0
    """How often the grid may grow at each end, while somebody's best rate is there."""
    hold: int | None = 1
    """For how many evaluations the target must be held: 1 for a first touch, None for the rest of
    the run."""
    sets: tuple[str, ...] = ()
    method: Mapping[str, Any] = field(default_factory=dict)
    """Options of every arm's method by this rule, unless the arm has its own: averaged weights for
    everybody, say."""


@dataclass(frozen=True)
class Column:
    """A column of an experiment's tables beside those that all have."""

    heading: str
    of: Callable[[Findings, str, str, str], str]
    """From the findings, and the rule, setting and arm of the row."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, with its figure, and ours beside it."""

    text: str
    paper: float | None
    """None for a claim of ours, or one without a figure."""
    rule: str
    ours: Callable[[Findings], float | None] = lambda findings: None
    """None where it cannot be told: a run is missing, or missed."""
    show: Callable[[float], str] = "{:.1f}".format
    least: float | None = None
    """What counts as reproduced; by default the paper's figure, less a tenth."""
    smaller: bool = False
    """Whether less is better."""

    def verdict(self, ours: float | None) -> str:
        """Reproduced, exceeded or not; neither where only the other method missed the target.

        >>> claim = Claim("faster", 4.6, "paper", lambda findings: None)
        >>> [claim.verdict(each) for each in (5.2, 4.3, 2.0, None, inf)]
        ['exceeded', 'reproduced', 'not reproduced', 'not measured', 'not comparable']
        """
        if ours is None:
            return "not measured"
        if ours == inf and not self.smaller:
            return "not comparable"
        sign = -1.0 if self.smaller else 1.0
        whole = self.paper if self.paper is not None else self.least
        assert whole is not None, "a claim has a figure, or a bound of ours"
        tenth = abs(whole) / 10
        least = sign * self.least if self.least is not None else sign * whole - tenth
        if sign * ours < least:
            return "not reproduced"
        return "exceeded" if sign * ours > sign * whole + tenth else "reproduced"


@dataclass(frozen=True)
class Study:
    """An experiment."""

    about: str
    """What it shows, in a line."""
    paper: str
    """Whose experiment it is: authors, year, table or figure."""
    job: str
    """A built-in job."""
    arms: tuple[Arm, ...]
    """The first is the baseline, which all others are compared with."""
    rules: tuple[Rule, ...]
    seeds: tuple[int, ...]
    settings: tuple[Setting, ...] = (Setting(""),)
    sets: tuple[str, ...] = ()
    measure: Measure = "time_s"
    unit: tuple[str, float] | None = None
    """What costs are told in: its name, and how many seconds, rounds or bytes it has."""
    claims: tuple[Claim, ...] = ()
    columns: tuple[Column, ...] = ()
    notes: tuple[str, ...] = ()
    """What has to be said of the table, in sentences."""
    quick: Mapping[str, Any] = field(default_factory=dict)
    """The fields that are others in the quick form."""
    partial: bool = False
    """Whether settings or rules are left out, and with them the claims of which nothing is known
    then."""

    @property
    def baseline(self) -> Arm:
        """What all others are compared with."""
        return self.arms[0]

    def in_brief(self) -> Study:
        """The quick form."""
        return replace(self, **{"claims": (), **self.quick})

    def setting(self, label: str) -> Setting:
        """A setting by its label."""
        return next(each for each in self.settings if each.label == label)

    def arms_of(self, setting: Setting) -> list[Arm]:
        """Who takes part in a setting."""
        return [a for a in self.arms if a.settings is None or setting.label in a.settings]
