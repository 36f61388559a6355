"""Studies: declared, tuned by their rules, trained once, judged, and told."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace as replace_struct

from colonnade import DataError, reproduce
from colonnade.cli import main
from colonnade.errors import FailedError, RequestError
from colonnade.run import pool
from colonnade.run.points import Measured, Outcome
from colonnade.study.claims import ahead
from colonnade.study.design import Arm, Below, Claim, Column, Rule, Setting, Share, Study
from colonnade.study.findings import Findings, judged, mean_loss
from colonnade.study.page import (
    claim_cells,
    cost_column,
    figure_column,
    markdown,
    saved_column,
    told_column,
)
from colonnade.study.pictures import POINTS_MAX, Curve, picture
from colonnade.study.running import run_study

FAR, NEAR = "far", "near"
GIVEN = Rule("paper", "One rate for all, and the first touch.", 0.3, ("4x",))
FAIR = Rule(
    "fair",
    "Each at its own best, and held.",
    Share(0.9),
    ("2x", "4x"),
    tuning_seeds=(7,),
    hold=2,
    sets=("train.validation=0.2",),
)
SMALL = Study(
    about="a small one",
    paper="nobody",
    job="digits",
    sets=("train.epochs=4", "train.evaluate_every=7 rounds"),
    settings=(
        Setting(FAR, ("network.latency=1s",)),
        Setting(NEAR, ("network.latency=10ms",), like=FAR, seeds=(0,)),
    ),
    arms=(
        Arm("FedSGD", {"name": "fedsgd"}),
        Arm("FedBCD", {"name": "fedbcd", "updates": 2}),
        Arm("PASTA", {"name": "pasta"}, settings=(FAR,)),
    ),
    rules=(GIVEN, FAIR),
    seeds=(0, 1),
    claims=(Claim("faster", 2.0, "paper", lambda found: found.times("paper", FAR, "FedBCD")),),
)


ARMS_BOTH = SMALL.arms[:2]
TRAINED = pool._trained


class Heard:
    """What a study trains, stage by stage, and how each run ends."""

    def __init__(self):
        self.plans, self.runs = [], []

    def options(self):
        return {
            "on_plan": lambda title, missing, of: self.plans.append((title, missing, of)),
            "on_done": lambda trial: self.runs.append((trial.label, trial.status)),
        }


@pytest.fixture(scope="module")
def conducted(tmp_path_factory):
    heard, out = Heard(), tmp_path_factory.mktemp("study")
    return run_study(SMALL, out, workers=1, **heard.options()), heard, out


def test_every_arm_is_trained_with_every_seed_by_every_rule(conducted):
    findings, heard, _ = conducted
    places = {(row.rule, row.setting, row.arm, row.seed) for row in findings.rows}
    by_rule = {(FAR, arm, seed) for arm in ("FedSGD", "FedBCD", "PASTA") for seed in (0, 1)}
    by_rule |= {(NEAR, arm, 0) for arm in ("FedSGD", "FedBCD")}
    assert places == {(rule, *place) for rule in ("paper", "fair") for place in by_rule}
    assert [plan[0] for plan in heard.plans if plan[1]] == [
        *("paper rule, the table", "fair rule, tuning", "fair rule, the table"),
    ]
    assert all(status == "end" for _, status in heard.runs)


def test_a_target_taken_from_the_baseline_is_a_share_of_its_end(conducted):
    findings, _, _ = conducted
    for setting in (FAR, NEAR):
        ends = findings.figure("fair", setting, "FedSGD", "end")
        (target,) = {row.target for row in findings.of("fair", setting, "PASTA")} or {None}
        first = findings.of("fair", setting, "FedSGD")[0]
        assert first.target == pytest.approx(0.9 * ends.mean)
        assert target is None or target == first.target


def test_what_a_method_learns_off_the_clock_is_trained_once_and_clocked_again(conducted):
    findings, _, _ = conducted
    (far, _), (near,) = (findings.of("paper", setting, "FedBCD") for setting in (FAR, NEAR))
    assert (far.end, far.test, far.round) == (near.end, near.test, near.round)
    assert far.time_s > 5 * near.time_s


def test_a_second_call_trains_nothing_and_writes_the_same_files(conducted, tmp_path):
    findings, _, out = conducted
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    assert set(before) == {"results.parquet", "claims.json", "page.md", "paper.svg", "fair.svg"}
    heard = Heard()
    again = run_study(SMALL, out, workers=1, **heard.options())
    assert again.rows == findings.rows
    assert heard.runs == [] and {missing for _, missing, _ in heard.plans} == {0}
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


def test_another_folder_gets_the_same_files_byte_for_byte(tmp_path):
    brief = replace(SMALL, rules=(GIVEN,), seeds=(0,))
    for name, workers in (("one", 1), ("two", 2)):
        run_study(brief, tmp_path / name, workers=workers)
    one, two = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("one", "two")
    )
    assert one == two and len(one) == 4 + 5


def test_where_a_run_was_computed_is_no_part_of_what_it_is(conducted):
    """A study that was begun on one machine goes on on another."""
    _, _, out = conducted
    heard = Heard()
    run_study(SMALL, out, device="cuda", workers=1, **heard.options())
    assert {missing for _, missing, _ in heard.plans} == {0}


def test_the_page_has_the_claims_and_a_table_for_every_setting(conducted):
    findings, _, out = conducted
    page = (out / "page.md").read_text()
    assert page == markdown(findings, ["paper", "fair"])
    told = json.loads((out / "claims.json").read_text())
    (claim,) = told["claims"]
    assert claim["paper"] == "2.0" and claim["verdict"] in page and claim["ours"] in page
    for said in ("By the paper rule", "By the fair rule", "far: target 0.3, first touch."):
        assert said in page
    assert page.count("| FedBCD |") == 4
    rows = pq.read_table(out / "results.parquet").to_pylist()
    assert len(rows) == len(findings.rows) and {row["arm"] for row in rows} >= {"PASTA"}


def test_a_picture_has_a_panel_for_every_setting_and_a_curve_for_every_arm(conducted):
    findings, _, out = conducted
    for rule in (GIVEN, FAIR):
        drawn = (out / f"{rule.name}.svg").read_text()
        texts = re.findall(r"<text[^>]*>([^<]+)</text>", drawn)
        assert texts.count(FAR) == texts.count(NEAR) == 1
        assert all(texts.count(arm.label) == 1 for arm in SMALL.arms), "one legend for all panels"
        assert {"time, s", "accuracy"} <= set(texts)
        assert "script" not in drawn and "href" not in drawn.replace('xlink:href="#', "")
        assert drawn == picture(findings, rule), "the same figures make the same file"
        ElementTree.fromstring(drawn)
    assert f"]({GIVEN.name}.svg)" in (out / "page.md").read_text()


def test_a_picture_of_nothing_is_none():
    assert picture(Findings(SMALL, []), GIVEN) is None


def test_a_curve_is_as_long_as_the_shortest_run_and_ends_where_that_does():
    long, short = (
        Outcome(
            "x", seed, "end", None, "accuracy", [Measured(n, n, n, seed + n / 10) for n in some]
        )
        for seed, some in ((0, range(1, 401)), (1, range(1, 201)))
    )
    curve = Curve.of([long, short], "time_s")
    assert len(curve.spent) <= POINTS_MAX + 1 and curve.spent[-1] == 200
    assert curve.least[-1] == 20.0 and curve.most[-1] == 21.0 and curve.mean[-1] == 20.5
    assert Curve.of([long, outcome([])], "round").spent == []


def test_options_of_a_rule_are_everybodys_but_for_those_that_have_their_own(tmp_path):
    arms = (
        SMALL.arms[0],
        Arm("by itself", {"name": "fedbcd", "updates": 2, "average": "ema:0.9"}),
    )
    rule = replace(GIVEN, method={"average": "ema:0.99"})
    brief = replace(SMALL, rules=(rule,), settings=(Setting("", ()),), seeds=(0,), arms=arms)
    run_study(brief, tmp_path, workers=1)
    kept = [json.loads(path.read_text()) for path in (tmp_path / "points").glob("*.json")]
    averages = {each["job"]["method"]["name"]: each["job"]["method"]["average"] for each in kept}
    assert averages == {"fedsgd": "ema:0.99", "fedbcd": "ema:0.9"}


def test_more_columns_are_shown_beside_those_that_all_have(conducted):
    findings, _, _ = conducted
    columns = (
        cost_column("bytes"),
        figure_column("idle", "idle_share", "{:.0%}".format),
        Column("name", lambda found, rule, setting, arm: f"{rule}/{setting}/{arm}"),
    )
    more = Findings(replace(SMALL, columns=columns), findings.rows)
    page = markdown(more)
    assert "| bytes | idle | name |" in page and "| paper/far/FedBCD |" in page
    (line,) = [line for line in page.splitlines() if line.endswith("| fair/far/FedSGD |")]
    assert re.search(r"\| [\d.]+ kB( ± [\d.]+)? \| \d+%( ± \d+)? \| fair/far/FedSGD \|$", line), (
        line
    )


def test_a_grid_grows_while_a_best_rate_is_at_its_end(tmp_path):
    rule = replace(FAIR, rates=("0.25x", "0.5x"), growth=2, by="end")
    brief = replace(SMALL, rules=(rule,), settings=(Setting("", ()),), seeds=(0,))
    found = run_study(brief, tmp_path, workers=1)
    assert {row.rate for row in found.rows} == {"0.1"}, "twice doubled, of the job's 0.05"


def test_a_single_rate_is_taken_as_given_and_no_grid_grows_from_it(tmp_path):
    rule = replace(FAIR, rates=("2x",), growth=2, tuning_seeds=())
    brief = replace(SMALL, rules=(rule,), settings=(Setting("", ()),), seeds=(0,))
    heard = Heard()
    found = run_study(brief, tmp_path, workers=1, **heard.options())
    assert {row.rate for row in found.rows} == {"0.1"}
    assert heard.plans == [("fair rule, the table", 2, 2)], "there is nothing to tune"


def test_one_rate_for_all_is_the_baselines_best(tmp_path):
    rule = replace(FAIR, shared=True, rates=("0.01x", "2x"), by="end")
    brief = replace(SMALL, rules=(rule,), settings=(Setting("", ()),), seeds=(0,))
    heard = Heard()
    found = run_study(brief, tmp_path, workers=1, **heard.options())
    assert {row.rate for row in found.rows} == {"0.1"}
    assert heard.plans[0] == ("fair rule, tuning", 2, 2), "only FedSGD is tuned"


def test_rates_may_be_ranked_by_the_loss_of_the_training(tmp_path):
    """With twice the rate the loss falls further here, whatever the accuracy."""
    rule = replace(FAIR, rates=("0.25x", "2x"), by="loss")
    brief = replace(SMALL, rules=(rule,), settings=(Setting("", ()),), seeds=(0,))
    found = run_study(brief, tmp_path, workers=1)
    assert {row.rate for row in found.rows} == {"0.1"}
    falling, rising = (
        replace_losses(outcome([0.5] * 7), losses)
        for losses in ([9, 9, 5, 4, 3, 2, 1], [1, 1, 6, 6, 6, 6, None])
    )
    assert mean_loss([falling]) == 3 and mean_loss([rising]) == pytest.approx(5)
    assert mean_loss([falling, outcome([0.5])]) is None


def test_rates_may_be_chosen_on_other_rows_than_those_of_the_table(tmp_path):
    """The tuning has validation rows of its own; the table is judged on the test rows."""
    rule = replace(
        FAIR, sets=("train.validation=0",), tuning_sets=("train.validation=0.3",), by="end"
    )
    brief = replace(SMALL, rules=(rule,), settings=(Setting("", ()),), seeds=(0,))
    brief = replace(brief, arms=SMALL.arms[:1])
    run_study(brief, tmp_path, workers=1)
    kept = [json.loads(path.read_text()) for path in (tmp_path / "points").iterdir()]
    shares = {each["seed"]: each["job"]["train"].get("validation") for each in kept}
    assert shares == {7: 0.3, 0: 0} and len(kept) == 3


def test_a_setting_may_have_settings_that_are_known_late(tmp_path):
    def far():
        return ("network.latency=3s",)

    def lost():
        raise DataError("there are no traces here: get some")

    settings = (Setting(FAR, late=far), Setting(NEAR), Setting("lost", late=lost))
    brief = replace(SMALL, rules=(GIVEN,), seeds=(0,), settings=settings, arms=SMALL.arms[:1])
    found = run_study(brief, tmp_path, workers=1)
    far_s, near_s = (found.cost("paper", label, "FedSGD", "time_s").mean for label in (FAR, NEAR))
    assert far_s > 10 * near_s
    assert found.study.notes == ("lost is left out: there are no traces here: get some",)


def test_a_setting_whose_data_are_missing_is_left_out_and_the_page_says_so(tmp_path, monkeypatch):
    for variable in ("COLONNADE_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "nothing"))
    far = ("network.latency=1s",)
    settings = (
        *(Setting("lost", far, job="credit"), Setting("lost, near", job="credit", like="lost")),
        *(Setting(FAR, far), Setting("lost too", ("data=gmsc",))),
    )
    brief = replace(SMALL, rules=(GIVEN,), seeds=(0,), settings=settings, notes=("A note.",))
    found = run_study(brief, tmp_path, workers=1)
    assert {row.setting for row in found.rows} == {FAR}
    page = (tmp_path / "page.md").read_text()
    for label, data in (("lost", "credit"), ("lost, near", "credit"), ("lost too", "gmsc")):
        assert f"- {label} is left out: the data set {data} is not on this computer: set" in page
    assert "- A note." in page
    with pytest.raises(DataError, match="credit is not on this computer"):
        run_study(replace(brief, settings=settings[:2]), tmp_path, workers=1)


def test_a_rule_may_choose_all_rates_in_one_setting(tmp_path):
    """By the one rule each setting has its own best rate, by the other that of the first."""
    whole, tame = Setting("whole"), Setting("tame", ("parties.*.optimizer.lr=0.5",))
    each = replace(FAIR, rates=("1x", "0.02x"), by="end")
    once = replace(each, name="once", tuned_in="whole")
    brief = replace(SMALL, rules=(each, once), settings=(whole, tame), seeds=(0,), arms=ARMS_BOTH)
    heard = Heard()
    found = run_study(brief, tmp_path, workers=1, **heard.options())
    rates = {(row.rule, row.setting, row.arm): row.rate for row in found.rows}
    assert rates["once", "tame", "FedSGD"] == "0.5" and rates["once", "whole", "FedSGD"] == "0.05"
    tuned = [plan for plan in heard.plans if plan[0].endswith("tuning")]
    assert [of for _, _, of in tuned] == [8, 4]
    only = run_study(brief, tmp_path, workers=1, only=["tame"], rules=["once"])
    assert {row.setting for row in only.rows} == {"whole", "tame"}


def test_a_rule_cannot_choose_rates_where_there_are_no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = (Setting("away", ("data=mnist",), "mnist"), Setting(""))
    rule = replace(GIVEN, tuned_in="away")
    with pytest.raises(DataError, match="mnist is not on this computer"):
        run_study(replace(SMALL, settings=settings, rules=(rule,)), tmp_path, workers=1)


def test_a_setting_may_have_options_for_an_arms_method(tmp_path):
    settings = (
        Setting(
            "two",
            options={"FedBCD": {"updates": 3}},
            arm_sets={"FedBCD": ("train.batch_size=32",)},
        ),
        Setting("one", method={"average": "ema:0.9"}),
    )
    brief = replace(SMALL, rules=(GIVEN,), settings=settings, seeds=(0,), arms=ARMS_BOTH)
    run_study(brief, tmp_path, workers=1)
    kept = [json.loads(path.read_text()) for path in (tmp_path / "points").glob("*.json")]
    methods = [each["job"]["method"] for each in kept]
    sizes = {each["job"]["method"].get("updates"): each["job"]["train"] for each in kept}
    assert {updates: train.get("batch_size") for updates, train in sizes.items()} == {
        None: 64,
        2: 64,
        3: 32,
    }
    assert {"name": "fedbcd", "updates": 3} in methods and {"name": "fedsgd"} in methods
    assert {"name": "fedbcd", "updates": 2, "average": "ema:0.9"} in methods


def test_where_a_method_counts_updates_it_is_trained_once_for_all_networks(tmp_path, monkeypatch):
    """And anew where its parties' speeds give other counts."""
    flex = Arm("Flex", {"name": "flexvfl", "timeout": "90ms"})
    sets = (*SMALL.sets, "train.labels=shared")
    arms = (SMALL.arms[0], flex)
    settings = (
        Setting("near", ("network.latency=1ms",)),
        Setting("far", ("network.latency=1s",)),
        Setting("slow", ("network.latency=1ms", "compute.backward=40ms")),
    )
    trained = []
    monkeypatch.setattr(pool, "_trained", lambda *all: trained.append(all[0]) or TRAINED(*all))
    brief = replace(SMALL, sets=sets, arms=arms, rules=(GIVEN,), settings=settings, seeds=(0,))
    found = run_study(brief, tmp_path, workers=1)
    assert [label for label in trained if "Flex" in label] == [
        "near, Flex, rate 4, seed 0",
        "slow, Flex, rate 4, seed 0",
    ]
    near, far = (found.of("paper", place, "Flex")[0] for place in ("near", "far"))
    assert near.end == far.end and far.time_s > 5 * near.time_s


def test_an_arm_may_have_rates_of_its_own_or_anothers(tmp_path):
    arms = (
        SMALL.arms[0],
        Arm("slow", {"name": "fedsgd"}, rates={"fair": ("0.5x",)}),
        Arm("alike", {"name": "fedbcd", "updates": 2}, like="slow"),
    )
    brief = replace(SMALL, rules=(FAIR,), settings=(Setting("", ()),), seeds=(0,), arms=arms)
    found = run_study(brief, tmp_path, workers=1)
    rates = {row.arm: row.rate for row in found.rows}
    assert rates["slow"] == rates["alike"] == "0.025"
    with pytest.raises(RequestError, match="there is no setting 'nowhere' in this study"):
        run_study(SMALL, tmp_path, only=["nowhere"])


def test_a_run_that_fails_is_a_miss_and_is_told_and_the_rest_goes_on(tmp_path):
    refused = Arm("C-VFL", {"name": "cvfl"})  # it shows the labels, and the job keeps them
    brief = replace(SMALL, rules=(GIVEN,), seeds=(0,), arms=(SMALL.arms[0], refused))
    found = run_study(brief, tmp_path, workers=1)
    assert [row.status for row in found.rows] == ["end", "failed"] * 2
    page = (tmp_path / "page.md").read_text()
    assert "C-VFL, seed 0: failed: cvfl shows the labels" in page
    assert found.cost("paper", FAR, "C-VFL").count == 0


def test_some_of_the_settings_bring_those_whose_rates_they_need(tmp_path):
    brief = replace(SMALL, rules=(GIVEN,), seeds=(0,), arms=SMALL.arms[:1])
    found = run_study(brief, tmp_path, workers=1, only=[NEAR])
    assert {row.setting for row in found.rows} == {FAR, NEAR}
    found = run_study(brief, tmp_path, workers=1, only=[FAR])
    assert {row.setting for row in found.rows} == {FAR}


def test_a_study_may_be_conducted_by_one_of_its_rules(tmp_path):
    brief = replace(SMALL, seeds=(0,), arms=SMALL.arms[:1])
    assert len(brief.rules) > 1
    found = run_study(brief, tmp_path, workers=1, only=[FAR], rules=[GIVEN.name])
    assert {row.rule for row in found.rows} == {GIVEN.name}
    page = (tmp_path / "page.md").read_text()
    assert f"Only these settings were run: {FAR}." in page
    assert f"Only the {GIVEN.name} rule was applied." in page
    assert "By the paper rule" in page and "By the fair rule" not in page


def test_claims_of_what_is_left_out_are_left_out_too():
    unknown = Claim("of another setting", 2.0, GIVEN.name, lambda found: None)
    known = Claim("of this one", 2.0, GIVEN.name, lambda found: 3.0)
    study = replace(SMALL, claims=(unknown, known))
    whole = Findings(study, [])
    assert whole.claims() == [(unknown, None), (known, 3.0)]
    assert replace(whole, study=replace(study, partial=True)).claims() == [(known, 3.0)]


def outcome(values, seed=0, status="end", test=0.5):
    history = [Measured(10 * n, float(n), 100 * n, value) for n, value in enumerate(values, 1)]
    return Outcome("x", seed, status, None, "accuracy", history, test)


def replace_losses(made, losses):
    history = [
        replace_struct(row, loss=loss) for row, loss in zip(made.history, losses, strict=True)
    ]
    return replace_struct(made, history=history)


def found(arm, *values, target=0.8, hold=1, **more):
    made = outcome(list(values), **more)
    return judged(made, target, hold, rule="r", setting="s", arm=arm, rate="1")


@pytest.mark.parametrize(("hold", "round"), [(1, 20), (2, 40), (3, None), (None, None)])
def test_a_target_counts_when_it_is_held_as_long_as_the_rule_says(hold, round):
    row = found("a", 0.1, 0.9, 0.7, 0.8, 0.85, 0.1, hold=hold)
    assert row.round == round and (row.time_s is None) == (round is None)
    assert (row.best, row.final, row.end) == (0.9, 0.1, pytest.approx(0.67))


def test_a_target_is_steady_when_the_mean_of_the_last_five_evaluations_is_at_it():
    touched = found("a", 0.1, 0.9, 0.75, 0.8, 0.8, 0.8, 0.9, 0.1)
    assert (touched.round, touched.steady_round) == (20, 60)
    assert (touched.steady_time_s, touched.steady_bytes) == (6.0, 600)
    missed = found("a", 0.9, 0.9, 0.9, 0.9)
    assert missed.round == 10 and missed.steady_round is None
    diverged = found("a", *[0.9] * 9, status="diverged")
    assert diverged.round is None and diverged.steady_round is None
    study = replace(SMALL, measure="round", columns=(cost_column("steady_round"),))
    page = markdown(Findings(study, [replace_struct(touched, rule="paper", setting=FAR,
                                                    arm="FedSGD")]))  # fmt: skip
    assert "| rounds, steady |" in page and page.splitlines()[-1].endswith("| 60 |")


def test_ratios_are_over_the_seeds_that_both_reached_and_differences_are_paired():
    study = replace(SMALL, arms=(Arm("FedSGD", {}), Arm("ours", {})))
    rows = [
        *(found("FedSGD", 0.1, 0.1, 0.9, seed=0), found("FedSGD", 0.1, 0.1, 0.1, 0.9, seed=1)),
        *(found("ours", 0.8, 0.8, 0.92, seed=0), found("ours", 0.1, 0.1, seed=1)),
        found("ours", 0.9, seed=2, status="diverged"),
    ]
    findings = Findings(study, rows)
    assert findings.times("r", "s", "ours") == 3.0
    assert findings.saved("r", "s", "ours") == pytest.approx(2 / 3)
    assert findings.cost("r", "s", "ours").count == 1
    mean, half = findings.gain("r", "s", "ours", "final")
    assert mean == pytest.approx((0.02 - 0.8) / 2) and half == pytest.approx(12.71 * 0.41)
    assert findings.failures() == ["r rule, s, ours, seed 2: diverged"]


def test_a_claim_sees_that_a_seed_missed_the_target():
    study = replace(SMALL, arms=(Arm("FedSGD", {}), Arm("ours", {}), Arm("lost", {})))
    rows = [
        *(found("FedSGD", 0.1, 0.1, 0.9, seed=0), found("FedSGD", 0.1, 0.9, seed=1)),
        *(found("ours", 0.9, seed=0), found("ours", 0.9, seed=1)),
        *(found("lost", 0.9, seed=0), found("lost", 0.1, seed=1)),
    ]
    findings = Findings(study, rows)
    costs = {arm: findings.cost_of_all("r", "s", arm, "round") for arm in ("ours", "lost", "no")}
    assert costs == {"ours": 10, "lost": float("inf"), "no": None}
    ratios = {arm: findings.times_of_all("r", "s", arm, None, "round") for arm in costs}
    assert ratios == {"ours": 2.5, "lost": 0.0, "no": None}
    assert findings.times_of_all("r", "s", "ours", "lost", "round") == float("inf")
    assert findings.times_of_all("r", "s", "lost", "lost", "round") is None
    shares = {arm: findings.saved_of_all("r", "s", arm, None, "round") for arm in costs}
    assert shares == {"ours": pytest.approx(0.6), "lost": float("-inf"), "no": None}
    assert findings.saved_of_all("r", "s", "ours", "lost", "round") == float("inf")
    assert findings.saved_of_all("r", "s", "lost", "lost", "round") is None
    share = Claim("", 0.6, "r", lambda f: None)
    assert claim_cells(share, float("-inf"))[3:] == ["missed", "not reproduced"]
    assert claim_cells(share, float("inf"))[3:] == ["the other missed", "not comparable"]
    claim = Claim("", 10, "r", lambda f: None, smaller=True)
    assert claim_cells(claim, float("inf"))[3:] == ["missed", "not reproduced"]


def test_claims_of_shares_and_points_see_a_miss_too():
    study = replace(SMALL, arms=(Arm("FedSGD", {}), Arm("ours", {}), Arm("lost", {})))
    rows = [
        *(found("FedSGD", 0.1, 0.1, 0.1, 0.9, seed=0), found("FedSGD", 0.1, 0.9, seed=1)),
        *(found("ours", 0.9, seed=0), found("ours", 0.1, 0.92, seed=1)),
        *(found("lost", 0.9, seed=0), found("lost", 0.9, seed=1, status="diverged")),
    ]
    findings = Findings(study, rows)
    shares = {arm: findings.saved_of_all("r", "s", arm, None, "round") for arm in ("ours", "lost")}
    assert shares == {"ours": 0.5, "lost": float("-inf")}
    assert findings.saved_of_all("r", "s", "no") is None
    made = [ahead("", ("r", "s", arm), "final", least=0) for arm in ("ours", "lost", "no")]
    assert [claim.ours(findings) for claim in made] == [pytest.approx(1.0), float("-inf"), None]
    assert claim_cells(made[1], float("-inf"))[3:] == ["missed", "not reproduced"]
    column, known = saved_column("round"), told_column("paper's", {("s", "ours"): "94 %"})
    assert [column.of(findings, "r", "s", arm) for arm in ("FedSGD", "ours")] == ["–", "50.0%"]
    assert [known.of(findings, "r", "s", arm) for arm in ("FedSGD", "ours")] == ["–", "94 %"]


def test_what_a_run_sends_once_is_told_from_what_it_sends_in_a_round():
    history = [Measured(round, 1.0, 700 + 50 * round, 0.5) for round in (10, 20, 40)]
    row = judged(
        Outcome("x", 0, "end", None, "accuracy", history), 0.4, 1,
        rule="r", setting="s", arm="a", rate="1",
    )  # fmt: skip
    assert (row.bytes_a_round, row.bytes_once) == (50, 700)


def test_a_setting_may_change_every_arms_method_but_not_an_arms_own_options():
    from colonnade.study.conduct import Conduct

    falling = Setting(FAR, method={"rate": "inverse_sqrt", "local": "repeat:3"})
    arms = (SMALL.arms[0], Arm("own", {"name": "fedsgd", "local": "repeat:2"}))
    jobs = [Conduct(SMALL, None)._base(GIVEN, falling, arm) for arm in arms]
    assert [job.method["local"] for job in jobs] == ["repeat:3", "repeat:2"]
    assert {job.method["rate"] for job in jobs} == {"inverse_sqrt"}
    assert "rate" not in Conduct(SMALL, None)._base(GIVEN, SMALL.settings[0], arms[0]).method


@pytest.mark.parametrize(
    ("claim", "verdicts"),
    [
        (Claim("", 10, "", lambda f: None), {11.5: "exceeded", 9.0: "reproduced"}),
        (Claim("", 10, "", lambda f: None), {8.9: "not reproduced", None: "not measured"}),
        (Claim("", 10, "", lambda f: None, smaller=True), {8.5: "exceeded", 10.9: "reproduced"}),
        (Claim("", 10, "", lambda f: None, smaller=True), {11.5: "not reproduced"}),
        (Claim("", None, "", lambda f: None, least=12), {12.5: "reproduced", 14.0: "exceeded"}),
        (Claim("", None, "", lambda f: None, least=12), {11.9: "not reproduced"}),
        (Claim("", None, "", lambda f: None, least=-0.5), {-0.4: "exceeded"}),
        (Claim("", None, "", lambda f: None, least=-0.5), {-0.6: "not reproduced"}),
    ],
)  # fmt: skip
def test_verdicts(claim, verdicts):
    assert {ours: claim.verdict(ours) for ours in verdicts} == verdicts


def test_targets_below_the_baselines_end():
    rule = replace(FAIR, target=Below(0.05))
    from colonnade.study.conduct import Conduct

    conduct = Conduct(SMALL, None)
    assert conduct._target(rule, SMALL.settings[0], 0.9) == pytest.approx(0.85)
    assert conduct._target(rule, Setting("", target=0.3), None) == 0.3
    with pytest.raises(Exception, match="FedSGD failed in far"):
        conduct._target(rule, SMALL.settings[0], None)


def test_the_command_says_what_is_missing_and_goes_on_with_all(tmp_path, monkeypatch, capsys):
    lost = replace(SMALL, job="cifar10", rules=(GIVEN,))
    brief = replace(SMALL, rules=(GIVEN,), seeds=(0,), arms=SMALL.arms[:1], quick={})
    known = {
        name: reproduce.Known(name, "about", study, None)
        for name, study in (("lost", lost), ("small", brief))
    }
    monkeypatch.setattr(reproduce, "known", lambda: known)
    for variable in ("COLONNADE_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    try:
        from colonnade.data.named import load

        load("cifar10")
    except DataError:
        pass
    else:
        pytest.skip("CIFAR-10 lies where it is always found")
    assert main(["reproduce", "lost", "--out", str(tmp_path / "lost")]) == 2
    assert "the data set cifar10 is not on this computer" in capsys.readouterr().err
    words = ["reproduce", "all", "--quick", "--workers", "1", "--out", str(tmp_path / "all")]
    assert main([*words, "--json"]) == 0
    told = capsys.readouterr()
    assert "lost is left out: the data set cifar10 is not on this computer" in told.err
    assert [each["about"] for each in json.loads(told.out)] == ["a small one"]
    assert (tmp_path / "all" / "small-quick" / "page.md").is_file()
    assert list((tmp_path / "all" / "points").glob("*.json")), "experiments have runs in common"
    for option in ("--only", "--rule"):
        assert main(["reproduce", "all", option, "far"]) == 2
        assert f"{option} is for one experiment" in capsys.readouterr().err
    assert main(["reproduce", "small", "--rule", "fairer", "--out", str(tmp_path)]) == 2
    assert "has no rule 'fairer': choose of paper" in capsys.readouterr().err
    assert main(["reproduce", "smal"]) == 2
    assert "did you mean 'small'?" in capsys.readouterr().err


def test_all_goes_on_after_an_experiment_that_fails_and_says_so_at_the_end(
    tmp_path, monkeypatch, capsys
):
    def fails(out, seeds, quick, say):
        raise FailedError("FedSGD failed everywhere")

    def works(out, seeds, quick, say):
        claim = Claim("times", 29, "paper", show="{:.0f}".format)
        return reproduce.Reproduction(
            "A table",
            ["Q", "s"],
            [["1", "2.5"]],
            measured=frozenset("s"),
            measured_notes=["a slow machine"],
            claims=[(claim, 30)],
        )

    known = {
        name: reproduce.Known(name, f"about {name}", None, function)
        for name, function in (("bad", fails), ("good", works))
    }
    monkeypatch.setattr(reproduce, "known", lambda: known)
    assert main(["reproduce", "all", "--workers", "1", "--out", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert "bad failed: FedSGD failed everywhere" in err and "1 of 2 failed: bad" in err
    told = json.loads((tmp_path / "good" / "claims.json").read_text())
    assert told["claims"][0] | {"rule": "paper"} == {
        "claim": "times", "rule": "paper", "paper": "29", "ours": "30", "verdict": "reproduced"
    }  # fmt: skip
    page = (tmp_path / "good" / "page.md").read_text()
    assert "| 1 |" in page and "2.5" not in page and "slow" not in page, "as in every clone"
    measured = (tmp_path / "good" / "measured.md").read_text()
    assert "| 1 | 2.5 |" in measured and "- a slow machine" in measured
    assert main(["reproduce", "good", "--workers", "1"]) == 2
    assert "good has no --workers: leave it out" in capsys.readouterr().err
