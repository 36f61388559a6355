"""C-VFL's experiments are declared as the paper has them, and their claims have the right sign."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from msgspec.structs import replace as replace_struct

from colonnade import reproduce
from colonnade.compress import describe
from colonnade.job.files import load, with_sets
from colonnade.methods import build as build_method
from colonnade.models import build
from colonnade.reproduce import cvfl_alg2, cvfl_bytes, cvfl_compressors, cvfl_local
from colonnade.reproduce._cvfl import NONE, Shape, bits_of, compressed
from colonnade.run.clock import simulate_clock
from colonnade.run.naming import check_names
from colonnade.run.points import Measured, Outcome
from colonnade.study.findings import Findings, judged
from colonnade.study.running import run_study

STUDIES = {
    "cvfl-bytes": cvfl_bytes.STUDY,
    "cvfl-compressors": cvfl_compressors.STUDY,
    "cvfl-local": cvfl_local.STUDY,
    "cvfl-alg2": cvfl_alg2.STUDY,
}


def jobs(study):
    """Every setting and arm of a study with its job, before a rate and a seed are put in."""
    for setting in study.settings:
        for arm in study.arms_of(setting):
            job = load(setting.job or study.job, [*study.sets, *setting.sets])
            yield setting, arm, with_sets(job, *arm.sets), build_method(arm.method)


@pytest.mark.parametrize("name", STUDIES)
def test_every_job_of_a_study_is_one_that_there_can_be(name):
    study = STUDIES[name]
    assert reproduce.known()[name].study is study
    for each in (study, study.in_brief()):
        found = list(jobs(each))
        assert len({(setting.label, arm.label) for setting, arm, *_ in found}) == len(found)
        for setting, _, job, method in found:
            check_names(job)
            assert job.train.labels == ("shared" if method.exchange.sends_snapshots else "private")
            assert job.train.evaluate_plain
            assert setting.target is not None or study.rules[0].target
        assert {arm.label for _, arm, *_ in found} == {arm.label for arm in each.arms}
    texts = [(claim.rule, claim.text) for claim in study.claims]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_is_of_cells_that_there_are(name):
    """With every arm alike, each claim has a value, and none a miss."""
    study = STUDIES[name]
    made = [
        row(study, rule.name, setting.label, arm.label, 1000)
        for rule in study.rules
        for setting in study.settings
        for arm in study.arms_of(setting)
    ]
    found = Findings(study, made)
    for claim in study.claims:
        ours = claim.ours(found)
        assert ours is not None and math.isfinite(ours), claim.text


def row(study, rule, setting, arm, cost, value=0.9, seed=0):
    """A run that takes so many bytes, and as many nanoseconds, to its target."""
    history = [
        Measured(1, cost / 1e9, cost, value),
        Measured(2, 2 * cost / 1e9, 2 * cost, value),
    ]
    outcome = Outcome("x", seed, "end", None, "accuracy", history, value)
    return judged(outcome, 0.8, 1, rule=rule, setting=setting, arm=arm, rate="1")


def told(study, rows):
    """Of each claim that can be told, what it says: by text."""
    found = Findings(study, rows)
    ours = {claim.text: claim for claim in study.claims if claim.rule == "paper"}
    return {text: (claim.ours(found), claim) for text, claim in ours.items()}


def test_bytes_that_are_saved_count_as_saved_and_a_miss_fails():
    study, place = cvfl_bytes.STUDY, cvfl_bytes.FASTEST
    base = row(study, "paper", place, NONE, 1000)
    text = f"{place}: bytes that lattice, 2 bits saves"
    for cost, verdict in ((80, "reproduced"), (150, "not reproduced")):
        ours, claim = told(study, [base, row(study, "paper", place, "lattice, 2 bits", cost)])[text]
        assert ours == pytest.approx(1 - cost / 1000) and claim.verdict(ours) == verdict
    missed = row(study, "paper", place, "lattice, 2 bits", 80, value=0.5)
    ours, claim = told(study, [base, missed])[text]
    assert ours == -math.inf and claim.verdict(ours) == "not reproduced"
    ends, claim = told(study, [base, missed])[
        f"{place}: points by which lattice, 2 bits ends higher (ours: −0.5)"
    ]
    assert ends == pytest.approx(-40) and claim.verdict(ends) == "not reproduced"


def test_the_lattice_is_best_where_it_is_higher_and_takes_fewer_bytes():
    study, place = cvfl_compressors.STUDY, cvfl_compressors.MODELNET
    rows = [
        row(study, "paper", place, NONE, 1000, 0.86),
        row(study, "paper", place, "scalar, 2 bits", 240, 0.80),
        row(study, "paper", place, "lattice, 2 bits", 60, 0.88),
        row(study, "paper", place, "top-k, 2 bits", 130, 0.88),
    ]
    found = told(study, rows)
    points, claim = found[f"{place}, 2 bits: points of the lattice above scalar, at most"]
    assert points == pytest.approx(8) and claim.verdict(points) == "reproduced"
    points, claim = found[f"{place}, 2 bits: points of the lattice above top-k, at most"]
    assert points == pytest.approx(0) and claim.verdict(points) == "not reproduced"
    times, claim = found[
        f"{place}, 2 bits: as many times fewer bytes with the lattice as with scalar"
    ]
    assert times == pytest.approx(4) and claim.verdict(times) == "exceeded"
    loss, claim = found[f"{place}: points of lattice, 2 bits above none, at most (ours: −1)"]
    assert loss == pytest.approx(2) and claim.paper == pytest.approx(84.80 - 85.68)


def test_the_tables_of_compressors_are_the_papers():
    tables = cvfl_compressors.TABLES
    cells = {place: {arm: rest for arm, *rest in of.cells()} for place, of in tables.items()}
    assert cells["credit"]["top-k, 3 bits"] == [43.5, 470.7]
    assert cells["CIFAR-10 subset"]["scalar, 2 bits"] == [65.16, None]
    assert cells["CIFAR-10 subset"]["lattice, 4 bits"] == [73.17, 980.0]
    assert cells["ModelNet10, 4 parties"]["none"] == [85.68, 9604.80]
    assert {len(each) for each in cells.values()} == {10}


def test_compressors_have_their_bits_and_top_k_compresses_the_top_model_too():
    for kind, bits in ((k, b) for k in ("scalar", "lattice", "top-k") for b in (2, 3, 4)):
        arm = compressed(kind, bits, 10)
        roles = build_method(arm.method).compress
        texts = {describe(roles.embedding), describe(roles.top)}
        if kind == "top-k":
            assert texts == {f"topk:{bits / 32:g}:importance", f"topk:{bits / 32:g}"}
        else:
            assert texts == {f"{kind}:{bits}"}
        assert bits_of(arm.label) == bits


def test_the_papers_formula_for_bytes():
    """The check value of the paper's own code: CIFAR-10, 0.10014 GB an epoch without biases."""
    rounds, gigabyte = 50_000 // 100, 2**30
    without_biases = Shape(4, 16, 100, 64 * 10)
    assert rounds * without_biases.formula(32) / gigabyte == pytest.approx(0.10014, rel=1e-3)
    # And of Table 4: all its costs are multiples of this, at b = 32 and 16 rounds an epoch.
    epoch = 16 * Shape(4, 4096, 64, 4 * 4096 * 10).formula(32) / 2**20
    assert epoch == pytest.approx(552) and 9604.80 / epoch == pytest.approx(17.4)
    shapes = cvfl_compressors.SHAPES
    for setting, _, job, _ in jobs(cvfl_compressors.STUDY):
        shape, passives = shapes[setting.label], [job.parties[name] for name in job.passives]
        assert (shape.parties, shape.batch) == (len(passives), job.train.batch_size)
        assert job.parties[job.active].view == "none" or not job.parties[job.active].columns
        if "ModelNet10" in setting.label:
            views = 3 if len(passives) == 4 else 1
            bounds = [party.view.removeprefix("channels ").split(":") for party in passives]
            held = [view for start, stop in bounds for view in range(int(start), int(stop))]
            assert sorted(held) == list(range(12)) and len(held) == views * len(passives)


def test_the_papers_bits_are_twice_what_a_server_and_its_parties_send(tmp_path):
    """But for headers: b·(P·B·M² + M·|θ₀|), where every party has its own model of the others."""
    brief = cvfl_compressors.STUDY.in_brief()
    setting = replace(brief.settings[0], sets=(*brief.settings[0].sets, "train.epochs=2"))
    brief = replace(brief, settings=(setting,), arms=brief.arms[:1])
    found = run_study(brief, tmp_path, workers=1)
    shape = cvfl_compressors.SHAPES["digits"]
    numbers = shape.width * shape.batch * shape.parties**2 + shape.parties * shape.top
    (own,) = found.rows
    # The last batch of an epoch is smaller.
    assert 0.9 * 4 * numbers < own.bytes_a_round < 1.02 * 4 * numbers
    page = (tmp_path / "page.md").read_text()
    assert "| paper's formula |" in page and "545 kB" in page


@pytest.mark.parametrize("t_c", cvfl_local.COMMUNICATION)
def test_a_round_takes_the_communication_and_ten_milliseconds_for_every_update(t_c):
    setting = cvfl_local.STUDY.setting(f"credit, {t_c} ms")
    for arm in cvfl_local.ARMS:
        job = load("credit", list(setting.sets))
        job = replace_struct(with_sets(job, "train.rounds=5"), method=dict(arm.method))
        run = simulate_clock(job, 24_000, dict.fromkeys(job.parties, 1))
        assert run.time_s == pytest.approx(5 * (t_c + 10 * arm.method["q"]) / 1000)


def test_the_papers_times_are_rounds_of_just_that_length():
    for q, rounds in ((1, 63139), (10, 4662), (25, 1773.8)):
        for t_c, printed in cvfl_local.PRINTED.items():
            assert printed[q] == pytest.approx(rounds * (t_c + 10 * q) / 1000, rel=1e-3)
    claims = [claim for claim in cvfl_local.STUDY.claims if claim.rule == "fair"]
    assert claims[-1].paper == pytest.approx(16.6, abs=0.05) and claims[0].paper < 1.5


def test_one_training_is_clocked_at_every_communication_time(tmp_path):
    brief = cvfl_local.STUDY.in_brief()
    settings = tuple(
        replace(setting, sets=(*setting.sets, "train.epochs=2")) for setting in brief.settings
    )
    brief = replace(brief, settings=settings, arms=brief.arms[:2])
    found = run_study(brief, tmp_path, workers=1)
    ends = {(own.arm, own.end) for own in found.rows}
    assert len(ends) == 2 and len(found.rows) == 8
    spent = [each.spent["time_s"] for each in found.outcomes if "Q=10" in each.label]
    per_round = [1000 * each / found.rows[0].rounds for each in spent]
    assert per_round == pytest.approx([101, 110, 150, 300])


def test_algorithm_2_at_one_update_is_fedsgd_and_only_snapshots_see_labels():
    plain, once, both = cvfl_alg2.ARMS[:3]
    assert build_method(plain.method) == build_method({"name": "fedsgd"})
    roles = build_method(once.method).compress
    assert [describe(each) for each in (roles.embedding, roles.gradient)] == ["lattice:3", "plain"]
    assert describe(build_method(both.method).compress.gradient) == "lattice:3"
    assert {arm.sets for arm in cvfl_alg2.ARMS[:3]} == {("train.labels=private",)}
    assert {arm.sets for arm in cvfl_alg2.ARMS[3:]} == {()}
    paper = {claim.text: claim.paper for claim in cvfl_alg2.STUDY.claims}
    text = (
        "Algorithm 1, Q=25, lattice:3: as many times fewer bytes than Algorithm 2, Q=1, lattice:3"
    )
    assert paper[text] == pytest.approx(433.28 / 125.09)


def test_the_models_are_the_papers_but_for_the_size_of_the_views():
    for setting, arm, job, _ in jobs(cvfl_compressors.STUDY):
        assert job.top.kind == "split"
        if setting.label.startswith("credit") or arm.label != NONE:
            continue
        assert job.top.hidden == []
        party = job.parties[job.passives[0]]
        optimizer = {"CIFAR-10 subset": 0.005, "CIFAR-10": 0.001}.get(setting.label, 0.001)
        assert party.optimizer == {"name": "sgd", "lr": optimizer}
        if "ModelNet" in setting.label:
            model = build(party.model, (3, 48, 48), "here")
            assert model.head.out_features == 4096 and job.train.epochs == 100
        else:
            assert party.model["name"] == "resnet18"
