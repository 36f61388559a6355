"""Every method's best setting, found over one grid by successive halving."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import msgspec

from colonnade.job.records import Job
from colonnade.record.metrics import Metric
from colonnade.run.entrants import Entrant, Setting
from colonnade.run.halving import survivors
from colonnade.run.ladder import GROWTH, Ladder, Side
from colonnade.run.points import Measured, Outcome, Points
from colonnade.run.steady import steady_from

Rank = tuple[float, float, float, float]
"""The less, the better."""


@dataclass(frozen=True)
class Judge:
    """By what settings are ranked: the time to a target that is held, on the validation rows."""

    metric: Metric
    target: float | None = None
    """None to rank by the metric of the last evaluation."""
    count: int | None = None
    """Evaluations for which the target must be held; None for the rest of the run."""

    def reached(self, outcome: Outcome) -> Measured | None:
        """The evaluation from which on a run holds the target; None for a miss."""
        if self.target is None:
            return None
        place = steady_from(outcome.values(), self.target, self.metric, self.count)
        return None if place is None else outcome.history[place]

    def best(self, outcome: Outcome) -> float | None:
        """The best value that a run has measured."""
        values = [value for value in outcome.values() if value is not None]
        return (max if self.metric.higher_is_better else min)(values, default=None)

    def rank(self, outcomes: Sequence[Outcome]) -> Rank:
        """Of one setting's runs: first the misses, then the mean time, and rounds where nothing
        takes time, and of those that are as fast the mean of the best values; where there are
        misses, only that."""
        bests = self._mean(map(self.best, outcomes))
        if self.target is None:
            finals = [next(reversed(each.values()), None) for each in outcomes]
            return float(finals.count(None)), 0.0, 0.0, self._mean(finals)
        hits = [self.reached(each) for each in outcomes]
        known = [hit for hit in hits if hit is not None]
        if len(known) < len(hits):
            return float(len(hits) - len(known)), 0.0, 0.0, bests
        return 0.0, fmean(hit.time_s for hit in known), fmean(hit.round for hit in known), bests

    def _mean(self, values: Any) -> float:
        """The mean, so that less is better; infinite where a run has no value."""
        found = [math.nan if value is None else value for value in values]
        mean = fmean(found)
        if math.isnan(mean):
            return math.inf
        return -mean if self.metric.higher_is_better else mean


@dataclass(frozen=True)
class Tuned:
    """What came of one method's settings."""

    best: Setting
    outcomes: list[Outcome]
    """The best setting's runs with the seeds of the tuning, at full length."""
    tried: list[tuple[Setting, int, Rank]]
    """Every setting, the rounds of its last rung, and its rank there; best first."""
    ends: list[Side]
    """At which end of the grid the best rate stands, where the grid could not grow."""


@dataclass(frozen=True)
class Tuning:
    """How settings are tried."""

    job: Job
    """Without method, seed and rates of its own."""
    seeds: list[int]
    rungs: list[int]
    """Rounds of each rung, the last one all."""
    factor: int
    points: Points
    growth: int = GROWTH

    def tune(
        self, entrants: Sequence[Entrant], ladder: Ladder, judge: Judge
    ) -> tuple[dict[str, Tuned], Ladder]:
        """Every entrant at its best, by label, and the grid as it is in the end.

        The grid is one for all: where anybody's best rate is at its edge, it grows for everybody.
        """
        while True:
            found = self._rank(entrants, ladder, judge)
            grown = ladder
            for side in {side for own in found.values() for side in ladder.ends(own.best.rate)}:
                grown = grown.grown(side, self.growth) or grown
            if grown == ladder:
                return {
                    label: replace(own, ends=ladder.ends(own.best.rate))
                    for label, own in found.items()
                }, ladder
            ladder = grown

    def _rank(self, entrants: Sequence[Entrant], ladder: Ladder, judge: Judge) -> dict[str, Tuned]:
        """Halve every entrant's settings over the rungs."""
        alive = {each.label: each.settings(ladder.rates) for each in entrants}
        tried: dict[str, list[tuple[Setting, int, Rank]]] = {label: [] for label in alive}
        for number, rounds in enumerate(self.rungs, start=1):
            title = f"tuning, rung {number} of {len(self.rungs)}, {rounds} rounds"
            outcomes = self._train(title, alive, ladder, rounds)
            last = number == len(self.rungs)
            for label, settings in alive.items():
                ranks = [judge.rank(own) for own in outcomes[label]]
                # Sorting is stable: of equals the one that was better in the rung before wins, and
                # in the first rung the lowest rate, where a grid on which all diverge should grow.
                order = sorted(range(len(settings)), key=ranks.__getitem__)
                kept = order if last else survivors(order, self.factor)
                ended = order if last else order[len(kept) :]
                own = [(settings[place], rounds, ranks[place]) for place in ended]
                tried[label] = own + tried[label]
                alive[label] = [settings[place] for place in kept]
                outcomes[label] = [outcomes[label][place] for place in kept]
        return {
            label: Tuned(alive[label][0], outcomes[label][0], tried[label], []) for label in alive
        }

    def _train(
        self, title: str, alive: Mapping[str, Sequence[Setting]], ladder: Ladder, rounds: int
    ) -> dict[str, list[list[Outcome]]]:
        """The runs of every setting with every seed, all entrants' side by side."""
        everyone = [setting for settings in alive.values() for setting in settings]
        jobs = [
            (f"{setting.text(self.job, ladder)}, seed {seed}", self._short(made, rounds))
            for setting in everyone
            for seed in self.seeds
            for made in [msgspec.structs.replace(setting.job(self.job, ladder), seed=seed)]
        ]
        flat = iter(self.points.train(title, jobs))
        return {
            label: [[next(flat) for _ in self.seeds] for _ in settings]
            for label, settings in alive.items()
        }

    def _short(self, job: Job, rounds: int) -> Job:
        if rounds == self.rungs[-1]:
            return job
        train = msgspec.structs.replace(job.train, epochs=None, rounds=rounds)
        return msgspec.structs.replace(job, train=train)
