"""Conducts an experiment: tunes by its rules, trains what the tables need, and judges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import msgspec

from colonnade.errors import DataError, FailedError
from colonnade.job.files import load, with_sets
from colonnade.job.records import Job
from colonnade.methods import build
from colonnade.record.metrics import METRICS
from colonnade.run.compare import prepare_all
from colonnade.run.ladder import Ladder
from colonnade.run.points import Outcome, Points
from colonnade.study.design import Arm, Below, Rule, Setting, Share, Study
from colonnade.study.findings import Findings, Found, judged, mean_end, mean_loss, reached

Place = tuple[str, str]
"""A setting and an arm, by their labels."""
Rates = dict[Place, float]


@dataclass(frozen=True)
class Conduct:
    """A study, and where its runs are kept."""

    study: Study
    points: Points
    device: str | None = None

    def findings(self) -> Findings:
        """Train what is missing, and judge all."""
        own = replace(self, study=self._at_hand())
        found = [pair for rule in own.study.rules for pair in own._by(rule)]
        return Findings(own.study, [row for row, _ in found], [outcome for _, outcome in found])

    def _at_hand(self) -> Study:
        """The study, less the settings whose data are not on this computer, which its notes then
        name. What else is wrong with a data set is found here too, and not run by run."""
        missing: dict[str, DataError] = {}
        settings: list[Setting] = []
        checked: set[tuple[str | None, ...]] = set()
        for setting in self.study.settings:
            try:
                settings.append(_settled(setting))
                self._check(settings[-1], checked)
            except DataError as error:
                missing[setting.label] = error
            if setting.like in missing:
                missing.setdefault(setting.label, missing[setting.like])
        left = tuple(each for each in settings if each.label not in missing)
        needed = [rule.tuned_in for rule in self.study.rules if rule.tuned_in is not None]
        lacking = [missing[label] for label in needed if label in missing]
        if lacking or not left:
            raise (*lacking, *missing.values())[0]
        notes = [f"{label} is left out: {fault}" for label, fault in missing.items()]
        return replace(self.study, settings=left, notes=(*self.study.notes, *notes))

    def _check(self, setting: Setting, checked: set[tuple[str | None, ...]]) -> None:
        """Refuse a setting of which there are no data; those that share them are checked once."""
        arm = self.study.arms_of(setting)[0]
        job = self._job(self.study.rules[0], setting, arm, None, self.study.seeds[0], on="cpu")
        key = (setting.job, job.data)
        if key not in checked:
            prepare_all([job])
            checked.add(key)

    def _by(self, rule: Rule) -> list[tuple[Found, Outcome]]:
        """All runs of the table by one rule, judged, each with its course."""
        rates, ladders = self._tuned(rule)
        cells = [
            (setting, arm, rates[setting.label, arm.label], seed)
            for setting in self.study.settings
            for arm in self.study.arms_of(setting)
            for seed in setting.seeds or self.study.seeds
        ]
        outcomes = self._train(
            f"{rule.name} rule, the table",
            [(self._label(*cell), self._job(rule, *cell)) for cell in cells],
        )
        by_place: dict[Place, list[Outcome]] = {}
        for (setting, arm, _, _), outcome in zip(cells, outcomes, strict=True):
            by_place.setdefault((setting.label, arm.label), []).append(outcome)
        targets = {
            setting.label: self._target(
                rule, setting, mean_end(by_place[setting.label, self.study.baseline.label])
            )
            for setting in self.study.settings
        }
        return [
            (
                judged(
                    outcome,
                    targets[setting.label],
                    rule.hold,
                    rule=rule.name,
                    setting=setting.label,
                    arm=arm.label,
                    rate=ladders[setting.label].text(self._base(rule, setting, arm), rate),
                ),
                outcome,
            )
            for (setting, arm, rate, _), outcome in zip(cells, outcomes, strict=True)
        ]

    def _target(self, rule: Rule, setting: Setting, end: float | None) -> float:
        """The target of a setting, where the baseline ends there."""
        if setting.target is not None:
            return setting.target
        if isinstance(rule.target, float):
            return rule.target
        if end is None:
            raise FailedError(
                f"{self.study.baseline.label} failed in {setting.label or 'the study'}, and the "
                "target is taken from what it reaches"
            )
        if isinstance(rule.target, Share):
            return rule.target.share * end
        assert isinstance(rule.target, Below)
        return end - rule.target.less

    # Tuning

    def _tuned(self, rule: Rule) -> tuple[Rates, dict[str, Ladder]]:
        """The rate of every arm in every setting, and the grid of each setting."""
        own = {setting.label: _tuned_in(rule, setting) for setting in self.study.settings}
        roots = [setting for setting in self.study.settings if own[setting.label] == setting.label]
        ladders = {setting.label: Ladder.of(rule.rates or ("1x",)) for setting in roots}
        while True:
            best = self._best(rule, roots, ladders)
            grown = dict(ladders)
            for (where, label), rate in best.items():
                given = len(ladders[where].rates) == 1  # at either end, and not to be tuned
                if not given and rule.name not in self._arm(label).rates:
                    for side in ladders[where].ends(rate):
                        grown[where] = grown[where].grown(side, rule.growth) or grown[where]
            if grown == ladders:
                break
            ladders = grown
        rates: Rates = {}
        for setting in self.study.settings:
            where = own[setting.label]
            ladders[setting.label] = ladders[where]
            for arm in self.study.arms_of(setting):
                tuned = self.study.baseline if rule.shared else self._arm(arm.like or arm.label)
                rates[setting.label, arm.label] = best[where, tuned.label]
        return rates, ladders

    def _best(
        self, rule: Rule, settings: Sequence[Setting], ladders: Mapping[str, Ladder]
    ) -> Rates:
        """The best rate of every arm in every setting, by the seeds of the tuning; one that is the
        only one is taken as given."""
        tried: dict[Place, tuple[float, ...]] = {}
        for setting in settings:
            for arm in self._tried_in(rule, setting):
                given = arm.rates.get(rule.name)
                ladder = ladders[setting.label] if given is None else Ladder.of(given)
                tried[setting.label, arm.label] = ladder.rates
        chosen = {place: rates for place, rates in tried.items() if len(rates) > 1}
        if not isinstance(rule.target, float) and rule.by == "cost":
            # The target is taken from what the baseline reaches, which has to be known then.
            base = self.study.baseline.label
            chosen |= {(where, base): tried[where, base] for where, _ in chosen}
        cells = [
            (self.study.setting(where), self._arm(label), rate, seed)
            for (where, label), rates in chosen.items()
            for rate in rates
            for seed in rule.tuning_seeds
        ]
        outcomes = self._train(
            f"{rule.name} rule, tuning",
            [
                (self._label(*cell), with_sets(self._job(rule, *cell), *rule.tuning_sets))
                for cell in cells
            ],
        )
        found: dict[Place, dict[float, list[Outcome]]] = {}
        for (setting, arm, rate, _), outcome in zip(cells, outcomes, strict=True):
            place = found.setdefault((setting.label, arm.label), {})
            place.setdefault(rate, []).append(outcome)
        best = {place: rates[0] for place, rates in tried.items() if len(rates) == 1}
        for where, label in found:
            target = self._tuning_target(rule, where, found)
            ranks = {
                rate: self._rank(rule, own, target) for rate, own in found[where, label].items()
            }
            best[where, label] = min(ranks, key=ranks.__getitem__)
        return best

    def _tried_in(self, rule: Rule, setting: Setting) -> list[Arm]:
        """The arms that are tuned in a setting, for itself and those that are like it."""
        if rule.shared:
            return [self.study.baseline]
        alike = [each for each in self.study.settings if _tuned_in(rule, each) == setting.label]
        arms = {arm.label: arm for each in alike for arm in self.study.arms_of(each)}
        return [arm for arm in arms.values() if arm.like is None]

    def _tuning_target(
        self, rule: Rule, label: str, found: Mapping[Place, Mapping[float, Sequence[Outcome]]]
    ) -> float:
        """What rates are ranked by: the target, taken from the baseline at the best of its ends."""
        if rule.by != "cost":
            return math.nan
        own = found.get((label, self.study.baseline.label), {})
        ends = [end for outcomes in own.values() if (end := mean_end(outcomes)) is not None]
        return self._target(rule, self.study.setting(label), max(ends, default=None))

    def _arm(self, label: str) -> Arm:
        return next(arm for arm in self.study.arms if arm.label == label)

    def _rank(
        self, rule: Rule, outcomes: Sequence[Outcome], target: float
    ) -> tuple[float, float, float]:
        """The less, the better: misses, then mean costs, then the end."""
        if rule.by == "loss":
            loss = mean_loss(outcomes)
            return 0.0, 0.0, math.inf if loss is None else loss
        end = mean_end(outcomes)
        metric = next((each.metric for each in outcomes if each.metric), None)
        sign = 1.0 if metric is None or METRICS[metric].higher_is_better else -1.0
        last = math.inf if end is None else -sign * end
        if rule.by == "end":
            return 0.0, 0.0, last
        hits = [reached(each, target, rule.hold) for each in outcomes]
        known = [hit for hit in hits if hit is not None]
        if len(known) < len(hits):
            return float(len(hits) - len(known)), 0.0, last
        return 0.0, fmean(getattr(hit, self.study.measure) for hit in known), last

    # Jobs

    def _base(self, rule: Rule, setting: Setting, arm: Arm) -> Job:
        """The job of an arm, without rate and seed. Nothing ends a run early."""
        job = load(setting.job or self.study.job, [*self.study.sets, *setting.sets, *rule.sets])
        own = setting.arm_sets.get(arm.label, ())
        job = with_sets(job, "train.stop=end", *arm.sets, *own)
        options = setting.options.get(arm.label, {})
        method = {**rule.method, **setting.method, **arm.method, **options}
        job = msgspec.structs.replace(job, method=method)
        build(job.method)
        return msgspec.structs.replace(
            job, train=msgspec.structs.replace(job.train, target=None, patience=None)
        )

    def _job(
        self,
        rule: Rule,
        setting: Setting,
        arm: Arm,
        rate: float | None,
        seed: int,
        on: str | None = None,
    ) -> Job:
        job = self._base(rule, setting, arm)
        if rate is not None:
            job = self._ladder(rule, arm).apply(job, rate)
        device = on or self.device
        if device is not None:
            job = with_sets(job, f"parties.*.device={device}")
        return msgspec.structs.replace(job, seed=seed)

    def _ladder(self, rule: Rule, arm: Arm) -> Ladder:
        """Whether rates are multiples or not is all that it is asked."""
        return Ladder.of(arm.rates.get(rule.name) or rule.rates or ("1x",))

    def _label(self, setting: Setting, arm: Arm, rate: float, seed: int) -> str:
        where = f"{setting.label}, " if setting.label else ""
        return f"{where}{arm.label}, rate {rate:g}, seed {seed}"

    def _train(self, title: str, jobs: Sequence[tuple[str, Job]]) -> list[Outcome]:
        return self.points.train(title, jobs) if jobs else []


def _settled(setting: Setting) -> Setting:
    """A setting that has all its settings of the job."""
    if setting.late is None:
        return setting
    return replace(setting, sets=(*setting.sets, *setting.late()), late=None)


def _tuned_in(rule: Rule, setting: Setting) -> str:
    """The setting whose rates serve in a setting by a rule."""
    return rule.tuned_in or setting.like or setting.label
