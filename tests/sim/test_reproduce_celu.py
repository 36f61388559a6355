"""CELU-VFL's and EF-VFL's experiments are declared as the papers have them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from colonnade import reproduce
from colonnade.methods import build
from colonnade.models import build as build_model
from colonnade.reproduce import _celu, celu_ablation, celu_end2end, celu_rounds, efvfl
from colonnade.reproduce._celu import FAIR, FEDSGD, GIVEN, celu, fedbcd, in_background
from colonnade.run.naming import check_names
from colonnade.run.points import Measured, Outcome
from colonnade.study.conduct import Conduct
from colonnade.study.findings import Findings, judged
from colonnade.study.page import markdown
from colonnade.study.running import run_study
from colonnade.units import rate_bits

STUDIES = {
    "celu-rounds": celu_rounds.STUDY,
    "celu-ablation": celu_ablation.STUDY,
    "celu-end2end": celu_end2end.STUDY,
    "efvfl": efvfl.STUDY,
}
CREDIT, *_ = (setting.label for setting in celu_rounds.SETTINGS)


def jobs(study, rule=None):
    """Every setting and arm of a study with its job, with the first rate of the grid."""
    conduct, rule = Conduct(study, None), rule or study.rules[0]
    for setting in study.settings:
        for arm in study.arms_of(setting):
            yield setting, arm, conduct._job(rule, setting, arm, 1.0, study.seeds[0])


@pytest.mark.parametrize("name", STUDIES)
def test_every_job_of_a_study_is_one_that_there_can_be(name):
    study = STUDIES[name]
    assert reproduce.known()[name].study is study
    for each in (study, study.in_brief()):
        for _, arm, job in jobs(each):
            check_names(job)
            assert build(job.method) == build(arm.method)


@pytest.mark.parametrize("name", STUDIES)
def test_rates_are_chosen_with_other_seeds_and_on_other_rows_than_the_table_is_judged_by(name):
    study = STUDIES[name]
    for rule in study.rules:
        assert not set(rule.tuning_seeds) & set(study.seeds)
        assert rule.sets == ("train.validation=0",)
        assert rule.tuning_sets == ("train.validation=0.1",)
        assert rule.shared == (rule.name == "paper") and rule.growth
        assert (rule.hold, rule.by) == ((1, "end") if rule.name == "paper" else (3, "cost"))


def test_batches_and_optimizer_are_the_papers():
    for study in (celu_rounds.STUDY, celu_ablation.STUDY, celu_end2end.STUDY):
        for setting, _, job in jobs(study):
            small = "256 rows" in setting.label or "sample" in setting.label
            assert job.train.batch_size == (256 if small else 4096)
            assert job.train.metric == "auc"
            for party in job.parties.values():
                assert party.optimizer["name"] == "adagrad"
                begins = party.optimizer.get("initial_accumulator_value", 0)
                assert begins == (0.1 if "TensorFlow" in setting.label else 0)


def test_an_arm_is_what_its_label_says():
    assert build(celu(5, 8, 90).method).weight.threshold == 0.0
    assert build(celu(5, 8, 30).method).weight.threshold == pytest.approx(
        math.cos(math.pi / 6), 1e-3
    )
    local = build(celu(3, 8).method).local
    assert (local.size, local.updates, local.overlap) == (3, 8, True)
    assert build(celu(5, 5, None).method).weight == build({"name": "fedsgd"}).weight
    assert build(celu(5, 1).method) == build(FEDSGD.method)
    held = {**in_background(8).method, "overlap": False}
    assert build(held) == build(fedbcd(8).method), "it is FedBCD, but for when it is done"


def test_the_grid_is_that_of_table_2():
    """All of the three blocks' cells but the first column of each, which the others are held to."""
    printed = {(own.label, than.label): share for own, than, share in celu_ablation.TABLE}
    assert len(printed) == len(celu_ablation.TABLE) == 18
    rounds = {"FedSGD": 31540, "CELU, W=5, R=3, 90°": 14000, "CELU, W=5, R=8, 60°": 12500}
    rounds |= {"CELU, W=1, R=5, 60°": 15967, "CELU, W=3, R=5, 60°": 12700}
    rounds |= {"CELU, W=3, R=3, unweighed": 16767, "CELU, W=3, R=3, 90°": 14233}
    found = [
        (share, 1 - rounds[own] / rounds[than])
        for (own, than), share in printed.items()
        if own in rounds and than in rounds
    ]
    assert len(found) == 4
    assert all(share == pytest.approx(other, abs=1e-4) for share, other in found)
    assert {"FedBCD, R=5", "FedBCD, R=8"} <= {arm.label for arm in celu_ablation.ARMS}


def test_a_message_takes_as_long_as_in_the_paper():
    """4 MB at 300 Mbit: 112 ms, in the settings whose batches are a sixteenth too."""
    for setting, _, job in jobs(celu_end2end.STUDY):
        (passive,) = job.passives
        model = job.parties[passive].model
        assert model.get("embedding", 256) == 256
        if "sample" in setting.label:
            made = build_model(model, (14,), "here")
            assert made(torch.zeros(2, 14)).shape == (2, 256)
        bits = job.train.batch_size * 256 * 32
        assert bits / rate_bits(job.network.link.bandwidth) == pytest.approx(0.112, rel=0.01)
        assert (job.network.link.latency, job.compute.costs.forward) == ("20ms", "5ms")


def course(arm, *values, rule="paper", setting=CREDIT, target=0.8, hold=1, seed=0, **spent):
    """A run with an evaluation every ten rounds, a second and 100 bytes each."""
    history = [Measured(10 * n, float(n), 100 * n, value) for n, value in enumerate(values, 1)]
    outcome = Outcome(arm, seed, "end", None, "auc", history, None, {}, spent)
    where = {"rule": rule, "setting": setting, "arm": arm}
    return judged(outcome, target, hold, rate="1", **where), outcome


def findings(study, *pairs):
    return Findings(study, [row for row, _ in pairs], [outcome for _, outcome in pairs])


SLOW, QUICK = (0.1,) * 9 + (0.9,) * 9, (0.1,) * 3 + (0.9,) * 15
TOUCH = (0.1, 0.9) + (0.1,) * 16


def claimed(study, found, *words):
    """What becomes of the claims with these words."""
    chosen = [claim for claim in study.claims if all(word in claim.text for word in words)]
    assert chosen, words
    return [(claim.rule, claim.ours(found)) for claim in chosen]


def test_the_share_of_rounds_that_is_saved_is_told_by_both_counts():
    study = celu_rounds.STUDY
    full, bcd = celu_rounds.CELU.label, celu_rounds.FEDBCD.label
    made = findings(study, course("FedSGD", *SLOW), course(full, *QUICK), course(bcd, *TOUCH))
    (_, first), (_, steady), *_ = claimed(study, made, CREDIT, "FedSGD's rounds", full)
    assert first == pytest.approx(1 - 40 / 100) and steady == pytest.approx(1 - 80 / 140)
    (_, first), (_, steady), *_ = claimed(study, made, CREDIT, f"{bcd}'s rounds", full)
    assert first == pytest.approx(1 - 40 / 20), "more rounds than FedBCD's touch: less than none"
    assert steady == math.inf, "FedBCD is never steady there: there is nothing to compare with"
    missed = findings(study, course("FedSGD", *SLOW), course(full, *TOUCH))
    (_, first), (_, steady), *_ = claimed(study, missed, CREDIT, "FedSGD's rounds", full)
    assert first == pytest.approx(0.8) and steady == -math.inf
    page = markdown(missed)
    assert "| missed | not reproduced |" in page and "80.0%" in page and "rounds, steady" in page


def test_what_each_ingredient_saves_is_held_against_the_paper():
    study, only = celu_ablation.STUDY, celu_ablation.ONLY
    wide, narrow, plain = (celu(w, 5, d).label for w, d in ((5, 90), (1, 90), (5, None)))
    eight, five, full = (arm.label for arm in (celu_ablation.BCD8, celu_ablation.BCD, celu(5, 5)))
    weights = {"row_weights": {"bank": {"p10": 0.9, "p10_min": 0.4},
                               "partner": {"p10": 0.7, "p10_min": 0.6}}}  # fmt: skip
    made = findings(
        study,
        course("FedSGD", *SLOW, setting=only),
        course(narrow, *SLOW, setting=only),
        course(wide, *QUICK, setting=only, **weights),
        course(plain, *QUICK, setting=only),
        course(full, *QUICK, setting=only),
        course(five, *QUICK[:-5], *(0.88,) * 5, setting=only),
        course(eight, *QUICK, setting=only),
        course(eight, *(0.1,) * 18, setting=only, seed=1),
    )
    verdicts = {}
    for claim in study.claims:
        if claim.rule == "paper":
            verdicts[claim.text] = (claim.ours(made), claim.verdict(claim.ours(made)))
    share, verdict = verdicts[f"{only}: share of {narrow}'s rounds that {wide} saves"]
    assert share == pytest.approx(0.6) and verdict == "exceeded"
    assert verdicts[f"{only}: share of {plain}'s rounds that {wide} saves"] == (
        0.0,
        "not reproduced",
    )
    (slow,) = [each for text, each in verdicts.items() if text.startswith("points of AUC")]
    assert slow[0] == pytest.approx(2.0) and slow[1] == "exceeded"
    assert verdicts[f"{eight}: share of the seeds that reach the target"] == (0.5, "not reproduced")
    low, least = (each for text, each in verdicts.items() if "cosine" in text)
    assert low == (0.7, "exceeded") and least == (0.4, "not reproduced")


def test_a_speed_up_is_against_fedsgd_and_the_faster_form_of_fedbcd():
    study, where = celu_end2end.STUDY, "credit"
    own = {"setting": where}
    full, held, behind = (arm.label for arm in (celu_end2end.FULL, fedbcd(5), in_background(5)))
    made = findings(
        study,
        course("FedSGD", *SLOW, **own),
        course(full, *QUICK, **own),
        course(held, *SLOW[1:], 0.9, **own),
        course(behind, *SLOW[3:], 0.9, **own),
    )
    ours = {claim.text: claim for claim in study.claims if claim.rule == "paper"}
    texts = [text for text in ours if text.startswith(f"{where}: ")]
    assert [ours[text].ours(made) for text in texts] == [2.5, 2.5, pytest.approx(7 / 4)]
    assert [ours[text].paper for text in texts] == [2.47, None, 2.35]
    avazu = [claim.paper for claim in ours.values() if claim.text.startswith("Avazu")]
    assert avazu == [1.31, None, 1.31] * 2
    lost = findings(study, course("FedSGD", *SLOW, **own), course(full, *SLOW[:9], **own),
                    course(held, *SLOW, **own))  # fmt: skip
    assert [ours[text].ours(lost) for text in texts] == [0.0, 0.0, 0.0]


def test_ef_vfl_is_held_against_its_compressor_alone_and_with_error_feedback():
    study, where = efvfl.STUDY, efvfl.DIGITS
    assert all(claim.paper is None and claim.rule == "fair" for claim in study.claims)
    assert all(job.train.evaluate_plain for _, _, job in jobs(study))
    roles = {arm.label: build(arm.method).compress for arm in study.arms}
    for arm in study.arms[1:]:
        embedding, gradient = (
            roles[arm.label].embedding.text, roles[arm.label].gradient.text
        )  # fmt: skip
        name = arm.label.partition(",")[0]
        prefix = "ef21+" if "EF-VFL" in arm.label else "ef+" if "feedback" in arm.label else ""
        assert embedding == prefix + name
        assert gradient == ("plain" if "embeddings only" in arm.label else embedding)
    own = {"rule": "fair", "setting": where, "hold": 3}
    coarse = "scalar:1"
    made = findings(
        study,
        course("FedSGD", *SLOW, **own),
        course(efvfl.remembered(coarse).label, *QUICK, **own),
        course(efvfl.alone(coarse).label, *(0.5,) * 18, **own),
        course(efvfl.fed_back(coarse).label, *(0.91,) * 18, **own),
    )
    found = [ours for _, ours in claimed(study, made, where, f"{coarse}, EF-VFL")]
    assert found == [2.5, 0.4, pytest.approx(40.0), pytest.approx(-1.0)]


def test_the_quick_forms_tabulate_every_arm(tmp_path):
    """With fewer rounds still: that jobs train and pages are written is what is seen here."""
    for name in ("celu-rounds", "celu-end2end"):
        brief = STUDIES[name].in_brief()
        sets = (*brief.settings[0].sets, "train.rounds=16")
        brief = replace(brief, quick={}, settings=(replace(brief.settings[0], sets=sets),))
        found = run_study(brief, tmp_path / name, workers=1)
        page = (tmp_path / name / "page.md").read_text()
        assert [row.status for row in found.rows] == ["end"] * len(brief.arms)
        assert all(f"| {arm.label} |" in page for arm in brief.arms)
        assert all(note in page for note in _celu.STEADY)
        weighed = found.courses("paper", "breast cancer", celu().label)[0].spent["row_weights"]
        assert all(0 <= each["p10"] <= each["p90"] <= 1 for each in weighed.values())


def test_the_fair_rule_tunes_everybody_and_the_papers_fedsgd_alone():
    conduct = Conduct(celu_rounds.STUDY, None)
    setting = celu_rounds.SETTINGS[0]
    assert [arm.label for arm in conduct._tried_in(GIVEN, setting)] == ["FedSGD"]
    assert conduct._tried_in(FAIR, setting) == list(celu_rounds.ARMS)
