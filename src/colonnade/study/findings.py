"""What an experiment has found: a row for each run, and what they come to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import msgspec

from colonnade.record.metrics import METRICS
from colonnade.run.points import Measured, Outcome
from colonnade.run.steady import steady_from
from colonnade.study.design import LAST, Claim, Cost, Study

T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""Student's t for a 95 % interval, by the number of values."""


class Found(msgspec.Struct, frozen=True):
    """One run, judged."""

    rule: str
    setting: str
    arm: str
    rate: str
    seed: int
    status: str
    error: str | None
    target: float
    time_s: float | None
    """Until the target was reached; None for a miss, as for the next two."""
    round: int | None
    bytes: int | None
    end: float | None
    """The mean of the last evaluations."""
    best: float | None
    final: float | None
    test: float | None
    rounds: int
    """Of the whole run."""
    bytes_a_round: float | None
    bytes_once: float | None
    """What a run has sent beside its rounds: labels and greetings."""
    local_per_fresh: float | None
    idle_share: float | None
    steady_time_s: float | None = None
    """Until the mean of the last evaluations was at the target; None for a miss, as for the next
    two."""
    steady_round: int | None = None
    steady_bytes: int | None = None

    def cost(self, measure: Cost) -> float | None:
        """What the target has cost; None for a miss."""
        value: float | None = getattr(self, measure)
        return value


def values_of(outcome: Outcome) -> list[float]:
    """The metric of every evaluation that has one."""
    return [value for value in outcome.values() if value is not None]


def end_of(outcome: Outcome) -> float | None:
    """The mean of a run's last evaluations; None where there are none, or it failed."""
    values = values_of(outcome)[-LAST:]
    return fmean(values) if values else None


def reached(outcome: Outcome, target: float, hold: int | None) -> Measured | None:
    """The evaluation from which on a run holds a target; None for a miss."""
    if outcome.metric is None:
        return None
    place = steady_from(outcome.values(), target, METRICS[outcome.metric], hold)
    return None if place is None else outcome.history[place]


def steady(outcome: Outcome, target: float) -> Measured | None:
    """The first evaluation at which the mean of the last ones is at a target; None for a miss."""
    values, metric = outcome.values(), METRICS.get(outcome.metric or "")
    for end in range(LAST, len(values) + 1):
        last = [value for value in values[end - LAST : end] if value is not None]
        if metric is not None and len(last) == LAST and metric.reaches(fmean(last), target):
            return outcome.history[end - 1]
    return None


def judged(
    outcome: Outcome, target: float, hold: int | None, *, rule: str, setting: str, arm: str,
    rate: str,
) -> Found:  # fmt: skip
    """What a run has come to."""
    hit, values = reached(outcome, target, hold), values_of(outcome)
    settled = steady(outcome, target)
    better = max if outcome.metric is None or METRICS[outcome.metric].higher_is_better else min
    spent = {} if outcome.bad else outcome.spent
    return Found(
        rule,
        setting,
        arm,
        rate,
        outcome.seed,
        outcome.status,
        outcome.error,
        target,
        None if hit is None else hit.time_s,
        None if hit is None else hit.round,
        None if hit is None else hit.bytes,
        end_of(outcome),
        better(values) if values else None,
        values[-1] if values else None,
        None if outcome.bad else outcome.test,
        int(spent.get("rounds", 0)),
        _bytes_a_round(outcome),
        _bytes_once(outcome),
        _local_per_fresh(spent),
        _idle_share(spent),
        None if settled is None else settled.time_s,
        None if settled is None else settled.round,
        None if settled is None else settled.bytes,
    )


def _bytes_a_round(outcome: Outcome) -> float | None:
    """Between the first evaluation and the last: what is sent once does not count."""
    rows = [] if outcome.bad else outcome.history
    if len(rows) < 2 or rows[-1].round == rows[0].round:
        return None
    return (rows[-1].bytes - rows[0].bytes) / (rows[-1].round - rows[0].round)


def _bytes_once(outcome: Outcome) -> float | None:
    a_round = _bytes_a_round(outcome)
    if a_round is None:
        return None
    return outcome.history[0].bytes - outcome.history[0].round * a_round


def _local_per_fresh(spent: dict[str, Any]) -> float | None:
    updates = list(spent.get("updates", {}).values())
    fresh = sum(each["fresh"] for each in updates)
    return sum(each["local"] for each in updates) / fresh if fresh else None


def _idle_share(spent: dict[str, Any]) -> float | None:
    """Of all parties' time."""
    idle, busy = (sum(spent.get(name, {}).values()) for name in ("idle_s", "busy_s"))
    return idle / (idle + busy) if idle + busy else None


@dataclass(frozen=True)
class Spread:
    """A figure over the seeds of an arm."""

    mean: float | None
    deviation: float | None
    count: int
    """Runs that have it."""
    of: int

    @classmethod
    def over(cls, values: Sequence[float | None]) -> Spread:
        """Mean and sample standard deviation of those that are known.

        >>> Spread.over([1.0, 3.0, None])
        Spread(mean=2.0, deviation=1.4142135623730951, count=2, of=3)
        """
        known = [value for value in values if value is not None]
        mean = fmean(known) if known else None
        deviation = stdev(known) if len(known) > 1 else (0.0 if known else None)
        return cls(mean, deviation, len(known), len(values))


@dataclass(frozen=True)
class Findings:
    """All runs of an experiment, judged."""

    study: Study
    rows: Sequence[Found]
    outcomes: Sequence[Outcome] = ()
    """The course of each row's run, in the same order."""

    def courses(self, rule: str, setting: str, arm: str) -> list[Outcome]:
        """What was measured along the runs of an arm that neither failed nor diverged."""
        wanted = (rule, setting, arm)
        return [
            outcome
            for row, outcome in zip(self.rows, self.outcomes, strict=False)
            if (row.rule, row.setting, row.arm) == wanted and values_of(outcome)
        ]

    def of(self, rule: str, setting: str, arm: str) -> list[Found]:
        """The runs of an arm in a setting, by a rule."""
        wanted = (rule, setting, arm)
        return [row for row in self.rows if (row.rule, row.setting, row.arm) == wanted]

    def cost(
        self, rule: str, setting: str, arm: str, measure: Cost | None = None
    ) -> Spread:  # fmt: skip
        """What the target has cost an arm."""
        name = measure or self.study.measure
        return Spread.over([row.cost(name) for row in self.of(rule, setting, arm)])

    def cost_of_all(
        self, rule: str, setting: str, arm: str, measure: Cost | None = None
    ) -> float | None:
        """The mean cost where every seed reached the target, infinite where one missed it; None
        for an arm that was not run. For claims: a mean over those that reached it flatters."""
        spread = self.cost(rule, setting, arm, measure)
        return math.inf if spread.count < spread.of else spread.mean

    def figure(self, rule: str, setting: str, arm: str, name: str) -> Spread:
        """A figure of an arm's runs, such as `end` or `test`."""
        return Spread.over([getattr(row, name) for row in self.of(rule, setting, arm)])

    def times(
        self,
        rule: str,
        setting: str,
        arm: str,
        than: str | None = None,
        measure: Cost | None = None,
    ) -> float | None:
        """How many times less the target has cost an arm than another, else the baseline: the ratio
        of the sums over the seeds with which both reached it; None if there is none."""
        name = measure or self.study.measure
        ours = {row.seed: row.cost(name) for row in self.of(rule, setting, arm)}
        other = self.of(rule, setting, than or self.study.baseline.label)
        both = [
            (theirs, mine)
            for row in other
            if (mine := ours.get(row.seed)) is not None and (theirs := row.cost(name)) is not None
        ]
        spent = sum(mine for _, mine in both)
        return sum(theirs for theirs, _ in both) / spent if spent else None

    def times_of_all(
        self,
        rule: str,
        setting: str,
        arm: str,
        than: str | None = None,
        measure: Cost | None = None,
    ) -> float | None:
        """The same where every seed of both reached the target; 0 where one of the arm missed it,
        infinite where one of the other did; None where both missed it, or one was not run."""
        own = self.cost_of_all(rule, setting, arm, measure)
        other = self.cost_of_all(rule, setting, than or self.study.baseline.label, measure)
        if own is None or other is None or own == other == math.inf:
            return None
        return other / own

    def saved(self, *place: str, than: str | None = None, measure: Cost | None = None) -> Any:
        """The share of another's costs that an arm saves."""
        rule, setting, arm = place
        ratio = self.times(rule, setting, arm, than, measure)
        return None if ratio is None else 1 - 1 / ratio

    def saved_of_all(
        self,
        rule: str,
        setting: str,
        arm: str,
        than: str | None = None,
        measure: Cost | None = None,
    ) -> float | None:
        """The same where every seed of both reached the target; minus infinity where one of the arm
        missed it, infinite where one of the other did."""
        ratio = self.times_of_all(rule, setting, arm, than, measure)
        if ratio is None or ratio == math.inf:
            return ratio
        return 1 - 1 / ratio if ratio else -math.inf

    def gain(
        self, rule: str, setting: str, arm: str, name: str, than: str | None = None
    ) -> tuple[float, float | None] | None:
        """The mean difference of a figure from another arm's, paired by seed, and half of its 95 %
        interval; None for the latter with one seed."""
        other = {
            row.seed: getattr(row, name)
            for row in self.of(rule, setting, than or self.study.baseline.label)
        }
        pairs = [(getattr(row, name), other.get(row.seed)) for row in self.of(rule, setting, arm)]
        found = [mine - theirs for mine, theirs in pairs if mine is not None and theirs is not None]
        if not found:
            return None
        half = None
        if len(found) in T95:
            half = T95[len(found)] * stdev(found) / math.sqrt(len(found))
        return fmean(found), half

    def claims(self) -> list[tuple[Claim, float | None]]:
        """The study's claims, and what was found of each."""
        found = [(claim, claim.ours(self)) for claim in self.study.claims]
        return [(c, ours) for c, ours in found if ours is not None or not self.study.partial]

    def failures(self) -> list[str]:
        """A sentence for each arm and reason, with the seeds."""
        seeds: dict[tuple[str, ...], list[str]] = {}
        for row in self.rows:
            if row.status in ("failed", "diverged"):
                why = row.status if row.error is None else f"{row.status}: {row.error}"
                key = (row.rule, row.setting, row.arm, why)
                seeds.setdefault(key, []).append(str(row.seed))
        return [
            f"{rule} rule, {f'{setting}, ' if setting else ''}{arm}, seed {', '.join(own)}: {why}"
            for (rule, setting, arm, why), own in seeds.items()
        ]


def mean_end(outcomes: Iterable[Outcome]) -> float | None:
    """The mean of several runs' ends; None if one has none."""
    return _mean_of_all([end_of(outcome) for outcome in outcomes])


def mean_loss(outcomes: Iterable[Outcome]) -> float | None:
    """The mean of several runs' training losses in the end; None if one has none."""
    return _mean_of_all([_loss_of(outcome) for outcome in outcomes])


def _loss_of(outcome: Outcome) -> float | None:
    """The mean of the losses at a run's last evaluations."""
    losses = [] if outcome.bad else [each.loss for each in outcome.history]
    known = [loss for loss in losses if loss is not None][-LAST:]
    return fmean(known) if known else None


def _mean_of_all(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None
