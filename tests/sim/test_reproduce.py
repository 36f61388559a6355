"""The reproductions that are quick enough to run with the tests."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from rich.console import Console

from colonnade import (
    Compute,
    Costs,
    DataError,
    Link,
    Network,
    RequestError,
    reproduce,
    simulate,
)
from colonnade.data.speeds import costs_under, cpu_loads
from colonnade.reproduce import fedbcd_he, lift, protections
from colonnade.run.baselines import BOOSTING, Score
from colonnade.run.kept import once
from colonnade.study.running import run_study
from colonnade.transfer.training import Trained
from tests.small import small


def heard(said: list[str]):
    """Keeps what a study says, without its counts."""
    return lambda text, *counts: said.append(text)


def function(name: str):
    """What computes a reproduction that is no study."""
    return reproduce.known()[name].function


def shown(table) -> str:
    console = Console(width=140, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_pasta_timing_agrees_with_the_29_times_that_the_paper_prints_and_marks_those_derived():
    said: list[str] = []
    result = function("pasta-timing")(None, None, False, said.append)
    figures = result.to_dict()
    assert figures["equal"] == figures["of"] == 29
    assert figures["derived_equal"] == figures["derived"] == 2
    assert "29 of 29 equal, to the unit" in shown(result.table())
    marked = [(row[1], row[2]) for row in result.rows if "*" in row[2]]
    assert marked == [("1", "86,260 *"), ("30", "2,431,500 *")]
    assert len(said) == 15


STUDIES = {name: known.study for name, known in reproduce.known().items() if known.study}


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_quick_forms_of_studies_train_everybody_and_tell_of_it(name, tmp_path):
    try:
        found = run_study(STUDIES[name], tmp_path, quick=True)
    except DataError as missing:
        pytest.skip(str(missing))
    brief = found.study
    arms = {(setting.label, arm.label) for setting in brief.settings
            for arm in brief.arms_of(setting)}  # fmt: skip
    assert {(row.setting, row.arm) for row in found.rows} == arms
    assert not [row.error for row in found.rows if row.status == "failed"]
    page = (tmp_path / "page.md").read_text()
    assert all(f"| {arm} |" in page for _, arm in arms)
    assert all((tmp_path / f"{rule.name}.svg").is_file() for rule in brief.rules)


def test_lift_in_its_quick_form_and_only_once(tmp_path, monkeypatch):
    """A second call finds all figures, in whichever order they are kept, and shows the same."""
    monkeypatch.setitem(BOOSTING, "max_iter", 20)
    said: list[str] = []
    made = function("lift")(tmp_path, None, True, heard(said))
    assert said[0] == "8 of 8 trainings to do" and len(said) == 9
    assert [row[:2] for row in made.rows] == [["breast-cancer", "60%"], ["breast-cancer", "100%"]]
    assert all(len(row) == len(made.columns) for row in made.rows)
    for case in made.to_dict()["cases"]:
        assert all(80 < auc <= 100 for found in case["auc"].values() for auc in found)
        for way, less in case["less"].items():
            assert less == [case["auc"]["Colonnade"][0] - case["auc"][way][0]]
    assert made.title in shown(made.table())
    next(tmp_path.glob("*.json")).unlink()
    said.clear()
    again = function("lift")(tmp_path, None, True, heard(said))
    assert said[0] == "1 of 8 trainings to do" and again.to_dict() == made.to_dict()


def test_lift_compares_seed_by_seed_whoever_ends_first():
    cells = lift.plan(["bank"], [0.3], [0, 1, 2], 256)
    kept = {cell: Score(0.5, 0.5 + cell.seed / 10 + len(cell.way) / 1000, 1) for cell in cells}
    case = lift._table(["bank"], [0.3], [0, 1, 2], kept).to_dict()["cases"][0]
    assert [len(set(np.round(less, 9))) for less in case["less"].values()] == [1, 1, 1]


def test_lift_keeps_figures_under_names_that_tell_all_trainings_apart(monkeypatch):
    cells = lift.plan(lift.DATA, lift.OVERLAPS, lift.SEEDS, 256)
    names = {cell.file for cell in cells}
    assert len(names) == len(cells) == 220
    monkeypatch.setitem(BOOSTING, "max_iter", 20)
    assert {cell.file for cell in cells if "boosting" in cell.way}.isdisjoint(names)


def test_traces_slow_a_party_down_as_they_say():
    """As many updates as (1 − c) of the timeout has, in every round of Flex-VFL."""
    case = small(3, method={"name": "flexvfl", "timeout": "100ms"}, rounds=4, labels="shared")
    loads = {"p0": [0.0, 0.5, 0.2, 0.75], "p2": [0.9, 0.0, 0.5, 0.0]}
    costs = {name: costs_under(load, "10ms", "110ms") for name, load in loads.items()}
    job = msgspec.structs.replace(
        case.job,
        network=Network(link=Link(latency="5ms")),
        compute=Compute(overrides=costs | {"p1": Costs(backward="50ms")}),
    )
    run = simulate(job, case.data, case.modules)
    assert run.time_s == pytest.approx(4 * 0.110 - 0.010, abs=0.011)
    for name, load in loads.items():
        updates = [count for count, _ in run.parties[name].efforts]
        for count, share in zip(updates, load, strict=True):
            assert abs(count - max(1, round(10 * (1 - share)))) <= 1, (name, updates)


@pytest.mark.parametrize("load", [[1.0], [-0.1]])
def test_a_share_that_is_none_is_refused(load):
    with pytest.raises(RequestError, match="from 0 to below 1"):
        costs_under(load, "10ms", "1s")


def test_the_traces_are_found_or_the_cure_is_named(tmp_path, monkeypatch):
    try:
        loads = cpu_loads(3, seed=1)
    except DataError:
        pass
    else:
        assert loads.shape == (3, 288) and loads.min() >= 0 and loads.max() < 1
        assert (loads == cpu_loads(3, seed=1)).all()
        assert not (loads == cpu_loads(3, seed=2)).all()
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(DataError, match="set COLONNADE_DATA"):
        cpu_loads(3)


def test_defences_in_their_quick_form(tmp_path, monkeypatch):
    """Two of them: what each leaves to tell beside what it costs, and kept for a second call."""
    some = {name: protections.DEFENCES[name] for name in ("none", "flip:2, narrow")}
    monkeypatch.setattr(protections, "DEFENCES", some)
    made = protections.reproduce(tmp_path, None, True, heard([]))
    plain, narrow = made.to_dict()["cells"]
    assert plain["labels_pooled"] > 0.95 and plain["labels_prior"] < 0.7
    assert narrow["labels_pooled"] < 0.93 and narrow["columns_pooled"] < plain["columns_pooled"]
    assert [row[1] for row in made.rows] == list(some)
    said: list[str] = []
    again = protections.reproduce(tmp_path, None, True, heard(said))
    assert again.rows == made.rows and said == ["0 of 2 trainings to do"]


@pytest.mark.slow
def test_fedbcd_he_in_its_quick_form_and_only_once(tmp_path, monkeypatch):
    """Two processes over mTLS; a second call finds what was encrypted, and shows the same."""
    said: list[str] = []
    try:
        made = function("fedbcd-he")(tmp_path, None, True, said.append)
    except DataError as missing:
        pytest.skip(str(missing))
    assert len(made.rows) == 9 and all(len(row) == len(made.columns) for row in made.rows)
    run = made.to_dict()["encrypted"]["Q=5"]
    assert run["equal"] and run["labels_told"] == 1 and run["embeddings_told"]
    assert any("encrypted: round 2" in text for text in said)
    assert made.claims == [] and len(list(tmp_path.glob("*.json"))) == 3 + 1 + 3
    said.clear()
    for name in ("train", "launch", "train_encrypted"):
        monkeypatch.setattr(fedbcd_he, name, None)
    again = function("fedbcd-he")(tmp_path, None, True, said.append)
    assert again.to_dict() == made.to_dict() and not any("encrypted" in text for text in said)


def test_fedbcd_he_claims_the_rounds_of_the_papers_table():
    assert [claim.paper for claim in fedbcd_he.CLAIMS.values()] == [17, 4, 2]
    assert all(claim.smaller and claim.rule == "paper" for claim in fedbcd_he.CLAIMS.values())
    assert fedbcd_he._mean_rounds([Trained([0.6, 0.71], []), Trained([0.75], [])], 0.7) == 1.5
    assert fedbcd_he._mean_rounds([Trained([0.6], []), Trained([0.75], [])], 0.7) is None


def test_defences_with_a_bound_are_held_against_it():
    """On one data set of two flip:2 tells more than it may; the other's classes are so unequal that
    the commonest is more than the bound."""
    shares = {"credit": {"flip:2": (0.95, 0.78), "flip:1": (0.73, 0.78)},
              "bank": {"flip:2": (0.884, 0.883), "flip:1": (0.82, 0.883)}}  # fmt: skip
    found = {
        protections.Cell(name, seed, f"labels {flip}"): dict(
            zip(("labels_pooled", "labels_prior"), pair, strict=True)
        )
        for name, own in shares.items()
        for flip, pair in own.items()
        for seed in (0, 1)
    }
    made = protections.claims(list(shares), [0, 1], found)
    assert [kept for _, kept in made] == [1, 2]
    assert [claim.verdict(kept) for claim, kept in made] == ["not reproduced", "reproduced"]


def test_figures_are_kept_with_the_setting_that_they_are_of(tmp_path):
    path, made = tmp_path / "deep" / "some.json", []

    def make():
        made.append(len(made))
        return {"figure": made[-1]}

    assert [once(path, setting, make)["figure"] for setting in "aab"] == [0, 0, 1]
    path.write_text("{")
    assert once(path, "b", make) == {"figure": 2} and once(None, "b", make) == {"figure": 3}
