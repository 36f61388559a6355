"""Every declared experiment can be conducted: its jobs load, and its words mean something."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
import pytest

from colonnade import reproduce
from colonnade.job.files import dumps, loads
from colonnade.reproduce import (
    _pasta,
    auto_vs_best,
    fullpipe_tables,
    pasta_ablation,
    pasta_timing,
)
from colonnade.run.clock import simulate_clock
from colonnade.run.points import Measured, Outcome
from colonnade.study.conduct import Conduct
from colonnade.study.findings import Findings, judged

STUDIES = {name: known.study for name, known in reproduce.known().items() if known.study}
FORMS = STUDIES | {f"{name}, quick": study.in_brief() for name, study in STUDIES.items()}


def jobs(study):
    """One job for every rule, setting and arm."""
    conduct = Conduct(study, None)
    for rule in study.rules:
        for setting in study.settings:
            for arm in study.arms_of(setting):
                rate = 1.0 if rule.rates or rule.name in arm.rates else None
                yield rule, setting, arm, conduct._job(rule, setting, arm, rate, study.seeds[0])


@pytest.mark.parametrize("form", FORMS)
def test_every_job_of_an_experiment_can_be_read_and_has_its_settings_method(form):
    for _, _, arm, job in jobs(FORMS[form]):
        assert job.method["name"] == arm.method["name"]
        assert job.train.target is None and job.train.stop == "end"
        assert len([each for each in job.parties.values() if each.role == "active"]) == 1
        assert loads(dumps(job)) == job


@pytest.mark.parametrize("form", FORMS)
def test_labels_are_told_apart_and_what_is_named_is_there(form):
    study = FORMS[form]
    for labels in (
        [arm.label for arm in study.arms],
        [setting.label for setting in study.settings],
        [rule.name for rule in study.rules],
        [(claim.text, claim.rule) for claim in study.claims],
    ):
        assert max(Counter(labels).values(), default=1) == 1, Counter(labels).most_common(2)
    places = {setting.label: setting for setting in study.settings}
    for setting in study.settings:
        assert setting.like is None or places[setting.like].like is None
        assert study.baseline in study.arms_of(setting), "all are compared with it"
    for arm in study.arms:
        assert arm.like is None or arm.like in {each.label for each in study.arms}
        assert set(arm.settings or ()) <= set(places)
    for rule in study.rules:
        assert not set(rule.tuning_seeds) & set(study.seeds), "tuned and measured with one seed"
        assert len(rule.rates) < 2 or rule.tuning_seeds


@pytest.mark.parametrize("name", STUDIES)
def test_claims_can_be_asked_of_nothing_and_name_a_rule(name):
    study = STUDIES[name]
    assert study.claims or name == "methods-at-a-glance"
    for claim in study.claims:
        assert claim.rule in {rule.name for rule in study.rules}
        assert claim.ours(Findings(study, [])) is None
        assert claim.verdict(None) == "not measured"
        assert claim.paper is not None or claim.least is not None


@pytest.mark.parametrize("setting", pasta_ablation.STUDY.settings[2:], ids=lambda each: each.label)
def test_pastas_four_parties_keep_the_clock_that_gives_the_papers_times(setting):
    """That of `pasta-timing`, but for the rate of the links, which the paper's clock leaves out."""
    conduct = Conduct(pasta_ablation.STUDY, None)
    job = conduct._job(_pasta.GIVEN, setting, pasta_ablation.STUDY.arms[1], None, 97)
    printed = next(each for each in pasta_timing.SETTINGS if each.parties == 4 and each.decay)
    ((_, due),) = pasta_timing.epoch_ends(replace(printed, ends={1: 0})).items()
    job = msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, epochs=1))
    widths = dict.fromkeys(job.parties, 1)
    run = simulate_clock(job, printed.batches * job.train.batch_size, widths)
    ends = [
        [time for time, action, _ in party.actions if action == "fresh"][printed.batches - 1]
        for party in run.parties.values()
    ]
    assert max(ends) / (_pasta.UNIT_MS * 1_000_000) == pytest.approx(due, rel=1e-3)


def rows(arm, *times, rule="fair", setting="network 0", test=0.9):
    outcomes = [
        Outcome("", seed, "end", None, "accuracy", [Measured(1, time, 1, 0.95)] * 2, test)
        if time is not None
        else Outcome("", seed, "end", None, "accuracy", [Measured(1, 1.0, 1, 0.1)], test)
        for seed, time in enumerate(times)
    ]
    return [
        judged(each, 0.93, 1, rule=rule, setting=setting, arm=arm, rate="1") for each in outcomes
    ]


def test_auto_is_held_against_the_best_preset_that_no_seed_misses():
    study = replace(auto_vs_best.STUDY, settings=auto_vs_best.STUDY.settings[:1])
    made = [
        *(rows("FedSGD", 40.0, 40.0) + rows("PASTA, B=3", 10.0, 30.0, test=0.95)),
        *(rows("VAFL", 1.0, None) + rows("auto", 22.0, 28.0, test=0.94)),
    ]
    found = Findings(study, made)
    assert auto_vs_best.best_preset(found, "fair", "network 0") == "PASTA, B=3"
    assert auto_vs_best.as_long(found, "fair", "network 0") == pytest.approx(1.25)
    assert auto_vs_best.as_long(found, "fair", "network 0", "VAFL") is None
    assert auto_vs_best.as_good(found, "fair", "network 0") == pytest.approx(0.94 / 0.95)
    assert [claim.ours(found) for claim in study.claims] == [1.0, 1.0]
    slower = Findings(study, made[:-2] + rows("auto", 22.0, 29.0, test=0.93))
    assert [claim.ours(slower) for claim in study.claims] == [0.0, 0.0]


def test_a_speed_up_on_tables_counts_only_where_no_seed_misses():
    study = fullpipe_tables.STUDY
    own = {"rule": "fair", "setting": "bank"}
    whole, part = (rows("FedSGD", 40.0, 40.0, **own) + rows("auto", *times, test=0.8995, **own)
                   for times in ((4.0, 4.0), (4.0, None)))  # fmt: skip
    speed, lost = (claim for claim in study.claims if claim.text.startswith("bank: auto"))
    assert speed.ours(Findings(study, whole)) == 10.0
    assert speed.ours(Findings(study, part)) is None
    assert lost.ours(Findings(study, part)) == pytest.approx(-0.0005)
