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
from colonnade.reproduce import cvfl_bytes, fullpipe_tables, lift, protections
from colonnade.reproduce.fullpipe_latency import Curve, tabulated
from colonnade.run.baselines import BOOSTING, Score
from tests.small import small


def heard(said: list[str]):
    """Keeps what a study says, without its counts."""
    return lambda text, *counts: said.append(text)


def shown(table) -> str:
    console = Console(width=140, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_pasta_timing_agrees_with_the_29_times_that_the_paper_prints_and_marks_those_derived():
    said: list[str] = []
    result = reproduce.known()["pasta-timing"](None, None, False, said.append)
    figures = result.to_dict()
    assert figures["equal"] == figures["of"] == 29
    assert figures["derived_equal"] == figures["derived"] == 2
    assert "29 of 29 equal, to the unit" in shown(result.table())
    marked = [(row[1], row[2]) for row in result.rows if "*" in row[2]]
    assert marked == [("1", "86,260 *"), ("30", "2,431,500 *")]
    assert len(said) == 15


@pytest.mark.slow
def test_methods_at_a_glance_in_its_quick_form(tmp_path):
    made = reproduce.known()["methods-at-a-glance"](tmp_path, None, True, lambda text: None)
    by_method = {(row[0], row[1]): row for row in made.rows}
    assert len(by_method) == len(made.rows) == 22
    assert all(row[3] != "missed" for row in made.rows)
    assert (tmp_path / "latency-5" / "comparison.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows"),
    [("celu-rounds", 4), ("cvfl-bytes", 7), ("flexvfl-stragglers", 5), ("pasta-latency", 4)],
)
def test_quick_forms(name, rows):
    try:
        made = reproduce.known()[name](None, None, True, lambda text: None)
    except DataError as missing:
        pytest.skip(str(missing))
    assert len(made.rows) >= rows
    assert all(len(row) == len(made.columns) for row in made.rows)
    assert made.title in shown(made.table())


def test_lift_in_its_quick_form_and_only_once(tmp_path, monkeypatch):
    """A second call finds all figures, in whichever order they are kept, and shows the same."""
    monkeypatch.setitem(BOOSTING, "max_iter", 20)
    said: list[str] = []
    made = reproduce.known()["lift"](tmp_path, None, True, heard(said))
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
    again = reproduce.known()["lift"](tmp_path, None, True, heard(said))
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


def test_fullpipe_tables_in_its_quick_form_and_only_once(tmp_path):
    """The target is FedSGD's best less the margin, and a second call trains nothing."""
    said: list[str] = []
    made = reproduce.known()["fullpipe-tables"](tmp_path, None, True, heard(said))
    assert [row[:2] for row in made.rows] == [
        ["breast-cancer", "fedsgd"],
        ["breast-cancer", "fullpipe:most=16"],
        ["breast-cancer", "auto"],
    ]
    assert all(len(row) == len(made.columns) for row in made.rows)
    raced = made.to_dict()["races"]["breast-cancer"]
    best = -raced["tried"]["fedsgd"][0]["rank"][-1]
    assert raced["target"] == pytest.approx(best - fullpipe_tables.MARGIN)
    first, *ours = raced["methods"]
    assert first["reached"] == 1 and max(each["speed_up"] or 0 for each in ours) > 1
    assert made.title in shown(made.table())
    said.clear()
    again = reproduce.known()["fullpipe-tables"](tmp_path, None, True, heard(said))
    assert again.to_dict() == made.to_dict()
    trained = [text for text in said if "to do" not in text and "target" not in text]
    assert not trained and len(said) == 4


def test_the_papers_formula_for_c_vfls_bytes():
    """The check value of the paper's own code: CIFAR-10, 0.10014 GB an epoch without biases."""
    bits, parties, width, batch, top = 32, 4, 16, 100, 64 * 10
    rounds = 50_000 // batch
    total = rounds * bits * (2 * width * batch * parties**2 + parties * top) / 8 / 2**30
    assert total == pytest.approx(0.10014, rel=1e-3)
    setting = cvfl_bytes.Setting("cifar10", 0, width, batch, 1, 1, 0.5, (0.1,))
    biases = rounds * parties * 10 * bits / 8 / 2**30
    assert rounds * setting.formula(bits) / 2**30 == pytest.approx(total + biases)


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
def test_fedbcd_he_in_its_quick_form_and_only_once(tmp_path):
    """Two processes over mTLS; a second call finds what was encrypted, and shows the same."""
    said: list[str] = []
    try:
        made = reproduce.known()["fedbcd-he"](tmp_path, None, True, said.append)
    except DataError as missing:
        pytest.skip(str(missing))
    assert len(made.rows) == 9 and all(len(row) == len(made.columns) for row in made.rows)
    run = made.to_dict()["encrypted"]["Q=5"]
    assert run["equal"] and run["labels_told"] == 1 and run["embeddings_told"]
    assert any("encrypted: round 2" in text for text in said)
    said.clear()
    again = reproduce.known()["fedbcd-he"](tmp_path, None, True, said.append)
    assert again.rows == made.rows and not any("encrypted" in text for text in said)


@pytest.mark.slow
def test_fullpipe_latency_in_its_quick_form(tmp_path):
    made = reproduce.known()["fullpipe-latency"](tmp_path, None, True, heard([]))
    by_cell = {(row[0], row[1]): row for row in made.rows}
    assert len(by_cell) == 6
    assert by_cell["FedSGD", "1000"][5] == by_cell["FedSGD", "5"][5] == "1.0×"
    long, short = (float(by_cell["FedSGD", each][3].replace(",", "")) for each in ("1000", "5"))
    assert long / short == pytest.approx(2040 / 50, rel=0.1), "one training, clocked twice"
    assert (tmp_path / "table" / "comparison.json").is_file()


def test_a_target_counts_when_it_is_held_and_differences_are_paired():
    def curves(*tests, late=0):
        values = [0.1, 0.9, 0.2, *[0.1] * late, 0.9, 0.9, 0.9, 0.9, 0.9]
        units = [10.0 * place for place in range(len(values))]
        return {seed: Curve(units, values, test) for seed, test in enumerate(tests)}

    table = {("FedSGD", 5): curves(0.7, 0.8, late=3), ("fullpipe", 5): curves(0.71, 0.8)}
    made = tabulated(table, dict.fromkeys(table, 0.1), {"without": curves(None, 0.7)})
    fedsgd, ours, without = made.rows
    assert fedsgd[3:6] == ["60", "2/2", "1.0×"]
    assert ours[3:6] == ["30", "2/2", "2.0×"]
    assert ours[-1] == "+0.50 ± 6.36", "1 and 0 points, and 12.71 for two seeds"
    assert without[-2:] == ["0.7000", "-10.00"]
