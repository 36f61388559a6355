"""FedBCD's experiments are declared as the paper has them."""

from __future__ import annotations

import pytest

from colonnade import reproduce
from colonnade.job.files import load, with_sets
from colonnade.methods import build as build_method
from colonnade.models import build
from colonnade.reproduce import fedbcd_parties, fedbcd_q, fedbcd_table1
from colonnade.run.naming import check_names

STUDIES = {
    "fedbcd-table1": fedbcd_table1.STUDY,
    "fedbcd-q": fedbcd_q.STUDY,
    "fedbcd-parties": fedbcd_parties.STUDY,
}


def jobs(study):
    """Every setting and arm of a study with its job, before a rate and a seed are put in."""
    for setting in study.settings:
        for arm in study.arms_of(setting):
            job = load(setting.job or study.job, [*study.sets, *setting.sets])
            yield setting, arm, with_sets(job, *arm.sets), {**arm.method, **setting.method}


@pytest.mark.parametrize("name", STUDIES)
def test_every_job_of_a_study_is_one_that_there_can_be(name):
    study = STUDIES[name]
    assert reproduce.known()[name].study is study
    for each in (study, study.in_brief()):
        found = list(jobs(each))
        assert len({(setting.label, arm.label) for setting, arm, *_ in found}) == len(found)
        for _, _, job, method in found:
            check_names(job)
            build_method(method)


def test_table_1_has_the_papers_network_batches_target_and_rounds():
    study = fedbcd_table1.STUDY
    for setting, arm, job, method in jobs(study):
        assert (job.data, job.train.batch_size, job.train.metric) == ("mnist-3v8", 256, "auc")
        assert job.train.evaluate_every == "1 round" and job.top.kind == "agg"
        for party in job.parties.values():
            weights = [tuple(w.shape) for w in build(party.model, (1, 28, 14), "here").parameters()]
            filters = [shape for shape in weights if len(shape) == 4]
            assert filters == [(64, 1, 3, 3), (64, 64, 3, 3)] and (256,) in weights
            assert party.optimizer["name"] == "adam"
            code = setting.label != fedbcd_table1.TORCH
            assert party.model["init"] == ("fedbcd" if code else "default")
            falls = setting.label == fedbcd_table1.FALLING
            assert party.optimizer["lr"] == (4e-4 if falls else 1e-4)
        factors = [build_method(method).rate.factor(round, 2) for round in (0, 3, 15)]
        falls = setting.label == fedbcd_table1.FALLING
        assert factors == ([1, 1 / 2, 1 / 4] if falls else [1, 1, 1])
        assert arm.label in fedbcd_table1.PAPER
    assert {rule.target for rule in study.rules} == {0.997}
    assert [claim.paper for claim in study.claims[:6]] == [46, 16, 8, 48, 15, 9]
    ratios = [claim.paper for claim in study.claims[6:10]]
    assert ratios == pytest.approx([46 / 16, 46 / 8, 48 / 15, 48 / 9])


def test_one_update_in_parallel_is_fedsgd_and_the_others_are_what_they_say():
    for study in STUDIES.values():
        for _, arm, _, method in jobs(study):
            alone = build_method(
                {key: method[key] for key in method if key not in ("decay", "rate")}
            )
            if arm.label == "FedSGD":
                assert alone == build_method({"name": "fedsgd"})
                continue
            updates = int(arm.label.partition("Q=")[2])
            mu = 0.1 if arm.label.startswith("FedPBCD") else 0.0
            order = "sequential" if "-s" in arm.label else "parallel"
            table = {"name": "fedbcd", "updates": updates, "order": order, "mu": mu}
            assert alone == build_method(table)


@pytest.mark.parametrize("study", [fedbcd_q.STUDY, fedbcd_parties.STUDY], ids=["q", "parties"])
def test_the_rate_falls_as_the_paper_has_it(study):
    for _, _, job, method in jobs(study):
        parties = len(job.parties)
        shared = parties if study is fedbcd_parties.STUDY else 1
        factor = build_method(method).rate.factor(8, parties)
        assert factor == pytest.approx((9 * shared) ** -0.5)


def test_each_column_of_the_credit_data_is_at_one_party():
    for setting, _, job, _ in jobs(fedbcd_parties.STUDY):
        parties = int(setting.label.split()[0])
        held = [column for party in job.parties.values() for column in party.columns]
        assert len(job.parties) == parties
        assert len(held) == len(set(held)) == 23
        assert {party.model["name"] for party in job.parties.values()} == {"linear"}
        assert {party.model["embedding"] for party in job.parties.values()} == {1}
        assert job.train.batch_size == 64 and job.top.kind == "agg"


def test_the_networks_for_large_q_have_a_hidden_layer_of_64_units():
    for setting, arm, job, _ in jobs(fedbcd_q.STUDY):
        if setting.label == fedbcd_q.NETWORK:
            assert {tuple(party.model["hidden"]) for party in job.parties.values()} == {(64,)}
        else:
            assert "FedPBCD" not in arm.label
    networks = fedbcd_q.STUDY.setting(fedbcd_q.NETWORK)
    labels = [arm.label for arm in fedbcd_q.STUDY.arms_of(networks)]
    assert {f"FedPBCD-p, Q={q}" for q in (25, 50, 100)} <= set(labels)
    assert {f"FedBCD-p, Q={q}" for q in (5, 10, 15, 25, 50, 100)} <= set(labels)
