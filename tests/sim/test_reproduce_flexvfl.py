"""Flex-VFL's experiments are declared as the paper has them, and their clock is the paper's."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace as replace_struct

from colonnade import simulate_clock
from colonnade.job.files import loads
from colonnade.reproduce import (
    _flexvfl,
    flexvfl_adaptive,
    flexvfl_fixed,
    flexvfl_optimizers,
    flexvfl_stragglers,
    flexvfl_timeout,
)
from colonnade.run.points import Measured, Outcome
from colonnade.study.conduct import Conduct, _settled
from colonnade.study.findings import Findings, judged

ROUNDS = 3
GROUPS = (5, 10, 15, 20)
EVENLY = [count for count in GROUPS for _ in range(3)]


def clocked(study, setting, arm, rounds=ROUNDS):
    """The updates of every party in the last round, the server's first, and the units of a
    round."""
    settled = _settled(study.setting(setting) if isinstance(setting, str) else setting)
    chosen = next(each for each in study.arms if each.label == arm)
    job = Conduct(study, None)._job(study.rules[0], settled, chosen, 1.0, 0)
    train = replace_struct(job.train, rounds=rounds)
    widths = {name: 0 if name == job.active else 4 for name in job.parties}
    run = simulate_clock(replace_struct(job, train=train), 1000, widths, outputs=10)
    updates = [run.parties[name].efforts[-1][0] for name in job.parties]
    actions = run.parties[job.active].actions
    begun = [time for time, action, _ in actions if action == "aggregate"]
    return updates, (begun[-1] - begun[0]) / (len(begun) - 1) / _flexvfl.UNIT_NS


@pytest.mark.parametrize("t_comm", [1, 10, 50])
@pytest.mark.parametrize(
    ("arm", "updates", "more"),
    [
        ("P-BCD", [1, 1, 1, 1, 1], 5),
        ("Sync-Min", [2, 2, 2, 2, 2], 10),
        ("Sync-Max", [10, 10, 10, 10, 10], 50),
        ("Flex-VFL", [10, 2, 4, 6, 8], 10),
    ],
)
def test_four_stragglers_do_the_papers_updates_in_the_papers_time(t_comm, arm, updates, more):
    made = clocked(flexvfl_stragglers.STUDY, f"MNIST quadrants, t_comm {t_comm}", arm)
    assert made == (updates, pytest.approx(t_comm + more, rel=1e-3))


@pytest.mark.parametrize(
    ("arm", "updates", "more"),
    [
        ("P-BCD", [1] * 13, 4),
        ("Sync-Min", [5] * 13, 20),
        ("Sync-Max", [20] * 13, 80),
        ("Flex-VFL", [20, *EVENLY], 20),
    ],
)
def test_twelve_parties_do_the_papers_updates_in_the_papers_time(arm, updates, more):
    made = clocked(flexvfl_fixed.STUDY, "ModelNet10 views, t_comm 10", arm)
    assert made == (updates, pytest.approx(10 + more, rel=1e-3))


@pytest.mark.parametrize(
    ("printed", "more"),
    [
        (flexvfl_stragglers.PRINTED, {"P-BCD": 5, "Sync-Min": 10, "Sync-Max": 50, "Flex-VFL": 10}),
        (flexvfl_fixed.PRINTED, {"P-BCD": 4, "Sync-Min": 20, "Sync-Max": 80, "Flex-VFL": 20}),
        (flexvfl_fixed.MOSEI, {"P-BCD": 4, "Sync-Min": 20, "Sync-Max": 80, "Flex-VFL": 20}),
    ],
    ids=["ImageNet100", "ModelNet40", "MOSEI"],
)
def test_by_this_clock_the_papers_times_are_one_number_of_rounds_at_all_distances(printed, more):
    for arm, units in more.items():
        rounds = [1000 * row[arm] / (t_comm + units) for t_comm, row in printed.items()]
        assert rounds == pytest.approx([rounds[0]] * 3, rel=2e-3)


def test_three_parties_do_moseis_updates():
    made = clocked(flexvfl_fixed.STUDY, "MNIST strips, t_comm 50", "Flex-VFL")
    assert made == ([20, 5, 10, 15], pytest.approx(70, rel=1e-3))
    made = clocked(flexvfl_fixed.STUDY, "MNIST strips, t_comm 50", "Sync-Max")
    assert made == ([20] * 4, pytest.approx(130, rel=1e-3))


@pytest.mark.parametrize("timeout", flexvfl_timeout.PRINTED)
def test_a_longer_timeout_fits_as_many_more_updates(timeout):
    flex, round = clocked(flexvfl_timeout.STUDY, f"timeout {timeout}", "Flex-VFL")
    assert flex == [timeout, *(int(timeout * count / 20) for count in EVENLY)]
    assert round == pytest.approx(timeout + 10, rel=1e-3)
    sync, round = clocked(flexvfl_timeout.STUDY, f"timeout {timeout}", "Sync-Max")
    assert sync == [timeout] * 13 and round == pytest.approx(10 + 4 * timeout, rel=1e-3)


def test_all_of_table_ii_do_twenty_updates_and_momentum_is_each_partys_own():
    study = flexvfl_optimizers.STUDY
    for setting in study.settings:
        for arm in study.arms:
            made = clocked(study, setting.label, arm.label)
            assert made == ([20] * 4, pytest.approx(30, rel=1e-3))
            job = Conduct(study, None)._job(study.rules[0], setting, arm, None, 0)
            small, _, third = arm.label.partition(" / ")
            for name, kind in (("one", small), ("two", small), ("three", third)):
                party, own = job.parties[name], kind == "local momentum"
                assert (party.step == "local_momentum:0.9") is own
                less = _flexvfl.largest_weight(20) if own else 1.0
                server = job.parties["server"].optimizer["lr"]
                assert party.optimizer["lr"] == pytest.approx(server / less, rel=1e-3)
            assert job.parties["server"].step is None
            assert job.parties["one"].model["name"] != job.parties["three"].model["name"]


@pytest.fixture
def half_used(monkeypatch):
    """Traces of machines that are free in even rounds, and half used in odd ones."""
    loads = np.tile([0.0, 0.5], 50)
    monkeypatch.setattr(_flexvfl, "cpu_loads", lambda count, seed: np.tile(loads, (count, 1)))


def test_speeds_follow_the_traces_round_by_round(half_used):
    study = flexvfl_adaptive.STUDY
    free, round = clocked(study, "ModelNet10 views", "Flex-VFL, static", 3)
    assert free == [10] * 13 and round == pytest.approx(11, rel=0.02)
    used, _ = clocked(study, "ModelNet10 views", "Flex-VFL, static", 4)
    assert all(4 <= count <= 6 for count in used)


def test_the_static_rate_is_that_of_the_most_updates_there_can_be(half_used):
    """A/(τ·w̄) with τ = timeout: what the adaptive form has where a machine is free."""
    study = flexvfl_adaptive.STUDY
    for setting, timeout in zip(study.settings, (10, 20), strict=True):
        conduct = Conduct(study, None)
        static, adaptive = (
            conduct._job(study.rules[0], setting, arm, 1.0, 0) for arm in study.arms
        )
        for name, party in static.parties.items():
            whole = adaptive.parties[name].optimizer["lr"]
            plain = setting.label == "MNIST strips" and name != "three"
            weight = 1.0 if plain else (1 - 0.9**timeout) / 0.1
            assert whole / (timeout * weight) == pytest.approx(party.optimizer["lr"], rel=1e-4)


def test_typical_speeds_are_those_of_a_traces_mean(half_used):
    updates, _ = clocked(
        flexvfl_fixed.STUDY,
        "ModelNet10 views, speeds of Google's cluster, t_comm 1",
        "Flex-VFL",
    )
    assert updates == [15] * 13


@pytest.mark.parametrize(
    "study",
    [flexvfl_stragglers.STUDY, flexvfl_fixed.STUDY, flexvfl_timeout.STUDY],
    ids=["stragglers", "fixed", "timeout"],
)
def test_momentum_begins_anew_in_each_round_and_rates_are_chosen_as_in_the_paper(study):
    for arm in study.arms:
        if arm.label not in ("P-BCD", "VAFL"):
            assert arm.method["momentum"] == 0.9
    given, fair = study.rules
    assert (given.by, given.hold, given.growth, len(given.rates)) == ("loss", 1, 0, 5)
    assert (fair.by, fair.hold, fair.growth) == ("cost", 3, 2)
    assert "train.validation=0" in given.sets and "train.validation=0.1" in fair.sets


def rows(setting, arm, *times, rule="paper"):
    """Runs that reach the target after these times, or never."""
    outcomes = [
        Outcome("", seed, "end", None, "accuracy", [Measured(1, time or 1.0, 1, 0.99)] * 3, 0.9)
        if time is not None
        else Outcome("", seed, "end", None, "accuracy", [Measured(1, 1.0, 1, 0.1)], 0.1)
        for seed, time in enumerate(times)
    ]
    return [judged(each, 0.95, 1, rule=rule, setting=setting, arm=arm, rate="1")
            for each in outcomes]  # fmt: skip


def claim_of(study, start, rule="paper"):
    return next(each for each in study.claims if each.text.startswith(start) and each.rule == rule)


def test_faster_is_more_and_a_missed_seed_is_no_speed_up():
    study, place = flexvfl_stragglers.STUDY, "MNIST quadrants, t_comm 50"
    claim = claim_of(study, f"{place}: Flex-VFL as many times as fast as P-BCD")
    assert claim.paper == pytest.approx(669.74 / 617.76)
    base = rows(place, "P-BCD", 20.0, 20.0)
    found = Findings(study, [*base, *rows(place, "Flex-VFL", 5.0, 15.0)])
    assert claim.ours(found) == 2.0 and claim.verdict(2.0) == "exceeded"
    missed = Findings(study, [*base, *rows(place, "Flex-VFL", 5.0, None)])
    assert claim.ours(missed) == 0.0 and claim.verdict(0.0) == "not reproduced"
    absent = claim_of(study, f"{place}: Flex-VFL as many times as fast as VAFL")
    assert absent.paper is None and absent.verdict(1.5) == "exceeded"


def test_the_headline_is_the_largest_ratio_of_those_that_can_be_told():
    study = flexvfl_fixed.STUDY
    near, far = "ModelNet10 views, t_comm 1", "MNIST strips, t_comm 50"
    claim = claim_of(study, "up to 4× as fast")
    assert claim.paper == 4.0
    found = Findings(
        study,
        [
            *rows(near, "VAFL", 30.0), *rows(near, "P-BCD", None), *rows(near, "Flex-VFL", 10.0),
            *rows(far, "Sync-Min", 50.0), *rows(far, "Flex-VFL", 10.0),
        ],
    )  # fmt: skip
    assert claim.ours(found) == 5.0


def test_a_timeouts_gain_is_told_against_the_shortest_and_the_longest():
    study = flexvfl_timeout.STUDY
    claim = claim_of(study, "Flex-VFL: with 35 units as many times as fast as with 20")
    assert claim.paper == pytest.approx(36.04 / 22.18)
    rows_of = [*rows("timeout 20", "Flex-VFL", 30.0), *rows("timeout 35", "Flex-VFL", 20.0)]
    assert claim.ours(Findings(study, rows_of)) == 1.5
    assert study.rules[0].tuned_in == "timeout 20" and study.rules[1].tuned_in is None


def test_what_the_adaptive_form_saves_is_a_share_of_the_static_ones_time():
    study, place = flexvfl_adaptive.STUDY, "MNIST strips"
    claim = claim_of(study, place)
    assert claim.paper == 0.3
    static = rows(place, "Flex-VFL, static", 10.0)
    for time, share in ((7.0, 0.3), (12.0, -0.2)):
        found = Findings(study, [*static, *rows(place, "Adaptive Flex-VFL", time)])
        assert claim.ours(found) == pytest.approx(share)
    missed = Findings(study, [*static, *rows(place, "Adaptive Flex-VFL", None)])
    assert claim.show(claim.ours(missed)) == "missed"
    assert claim.verdict(claim.ours(missed)) == "not reproduced"


def test_a_job_with_traces_can_be_written_and_read(half_used):
    from colonnade.job.files import dumps

    study = flexvfl_adaptive.STUDY
    setting = _settled(study.settings[0])
    job = Conduct(study, None)._job(study.rules[0], setting, study.arms[0], 1.0, 0)
    assert loads(dumps(job)) == job and len(job.compute.of("view1").backward) == 100
