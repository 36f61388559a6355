"""Sweeps: the grid, what is kept, what is run again, and which point is best."""

import json
import math

import pytest

from colonnade.cli import main
from colonnade.errors import FailedError, JobError, RequestError
from colonnade.job import load, with_sets
from colonnade.run.pool import train_all
from colonnade.run.sweep import Point, Sweep, _plan, sweep

SHORT = load("digits", ["train.epochs=1"])
RATE = "parties.*.optimizer.lr"


def measured(value, loss=0.1, name="auc"):
    metric = {"name": name, "best": value, "chosen_on": "validation"}
    return {"loss": loss, "status": "end", "metric": metric}


def point(value, loss=0.1, name="auc", **settings):
    return Point(settings, {"name": "fedsgd"}, {}, {0: measured(value, loss, name)})


def test_a_sweep_goes_on_where_it_was_stopped(tmp_path):
    plans, done = [], []

    def go(values, seeds=(0,)):
        return sweep(
            SHORT,
            {RATE: values},
            seeds,
            out=tmp_path,
            workers=1,
            on_plan=lambda *counts: plans.append(counts),
            on_done=lambda trial: done.append(trial.label),
        )

    first = go([0.1, 0.2])
    again = go([0.1, 0.2])
    more = go([0.1, 0.2, 0.4], (0, 1))
    assert plans == [(2, 2), (0, 2), (4, 6)]
    assert len(done) == 6
    assert (first.reused, again.reused, more.reused) == (0, 2, 2)
    assert again.points == first.points
    assert len(list((tmp_path / "points").iterdir())) == 6
    loaded = Sweep.load(tmp_path)
    assert loaded.points == sorted(more.points, key=lambda each: each.loss)
    assert loaded.best().settings == more.best().settings


def test_half_a_file_is_trained_again(tmp_path):
    sweep(SHORT, {RATE: [0.1]}, out=tmp_path, workers=1)
    (file,) = (tmp_path / "points").iterdir()
    whole = file.read_text()
    file.write_text(whole[:100])
    assert sweep(SHORT, {RATE: [0.1]}, out=tmp_path, workers=1).reused == 0
    assert file.read_text() == whole


def test_every_combination_is_a_point():
    grid = {"train.batch_size": [32, 64], RATE: [0.1, 0.2], "method.name": ["fedsgd", "fedbcd"]}
    plan = list(_plan(SHORT, grid, [0, 1]))
    assert len(plan) == 16
    label, job, settings = plan[-1]
    assert settings == {"train.batch_size": 64, RATE: 0.2, "method.name": "fedbcd"}
    assert label == f'train.batch_size=64, {RATE}=0.2, method.name="fedbcd", seed 1'
    assert (job.train.batch_size, job.parties["lab"].optimizer["lr"], job.seed) == (64, 0.2, 1)


def test_the_best_has_the_best_metric_whatever_its_training_loss():
    """A model that has learnt its training rows by heart has the least loss, and is the worst."""
    points = [point(0.8, loss=0.01, a=1), point(0.9, loss=0.3, a=2), point(0.7, loss=0.2, a=3)]
    found = Sweep("digits", points, folder=None)
    assert [row["settings"]["a"] for row in found.to_dict()["points"]] == [2, 1, 3]
    points = [point(2.0, 0.01, "mae", a=1), point(1.0, 0.3, "mae", a=2)]
    assert Sweep("digits", points, folder=None).best().settings == {"a": 2}


@pytest.mark.parametrize(
    ("points", "edges"),
    [
        ([point(0.7, lr=0.01), point(0.8, lr=0.1), point(0.9, lr=1)], [("lr", 1, "largest")]),
        ([point(0.9, lr=0.01), point(0.8, lr=0.1)], [("lr", 0.01, "smallest")]),
        ([point(0.7, lr=0.01), point(0.9, lr=0.1), point(0.8, lr=1)], []),
        ([point(0.7, lr=0.1, b=8), point(0.9, lr=0.1, b=4)], [("b", 4, "smallest")]),
        ([point(0.7, on=False), point(0.9, on=True)], []),
        ([point(0.7, how="a"), point(0.9, how="b")], []),
        ([point(0.7, top=[1]), point(0.9, top=[2])], []),
        ([point(None, lr=0.1), point(None, lr=1)], []),
    ],
)
def test_a_best_value_at_the_edge_of_its_grid_is_named(points, edges):
    found = Sweep("digits", points, folder=None).to_dict()["at_edge"]
    assert [(edge["field"], edge["value"], edge["edge"]) for edge in found] == edges


def test_the_output_says_that_the_best_lies_at_an_edge(tmp_path, capsys):
    grid = ["--grid", f"{RATE}=0.2,1e-9", "--set", "train.epochs=1", "-q", "--workers", "1"]
    assert main(["sweep", "digits", *grid, "--out", str(tmp_path)]) == 0
    said = f"{RATE} = 0.2 is the largest of the grid: the best may lie beyond"
    assert said in capsys.readouterr().out.splitlines()
    (edge,) = json.loads((tmp_path / "sweep.json").read_text())["at_edge"]
    assert edge == {"field": RATE, "value": 0.2, "edge": "largest"}


def test_a_sweep_without_evaluations_has_nothing_to_choose_by(tmp_path):
    job = with_sets(SHORT, "train.evaluate_every=never")
    with pytest.raises(JobError, match=r"train\.evaluate_every is 'never'"):
        sweep(job, {RATE: [0.1]}, out=tmp_path, workers=1)


def test_the_best_has_the_best_mean_and_a_failure_is_the_worst():
    runs = {0: measured(0.9), 1: {"loss": None, "status": "diverged", "metric": None}}
    unsteady = Point({"a": 1}, {"name": "fedsgd"}, {}, runs)
    assert unsteady.value is None and math.isinf(unsteady.rank)
    found = Sweep("digits", [unsteady, point(0.7, a=2), point(0.8, a=3)], folder=None)
    assert found.best().settings == {"a": 3}
    assert [row["settings"]["a"] for row in found.to_dict()["points"]] == [3, 2, 1]
    json.dumps(found.to_dict(), allow_nan=False)
    with pytest.raises(FailedError, match="no point"):
        Sweep("digits", [unsteady], folder=None).best()


def test_a_diverged_point_is_kept_and_is_the_worst(tmp_path):
    result = sweep(SHORT, {RATE: [1e12, 0.1]}, out=tmp_path, workers=1)
    assert result.best().settings == {RATE: 0.1}
    assert result.points[0].runs[0]["status"] == "diverged"
    assert result.table().row_count == 2


def test_settings_within_a_table_that_is_as_by_default():
    assert with_sets(SHORT, f"{RATE}=0.3").parties["lab"].optimizer == {"name": "sgd", "lr": 0.3}


@pytest.mark.parametrize(
    ("grid", "word"),
    [
        ({}, "--grid"),
        ({RATE: []}, "--grid"),
        ({"seed": [1]}, "--seeds"),
        ({"train.epoch": [1]}, "epochs"),
        ({"method.name": ["nope"]}, "nope"),
    ],
)
def test_a_wrong_grid_is_refused_before_anything_is_trained(grid, word, tmp_path, monkeypatch):
    monkeypatch.setattr("colonnade.run.sweep.train_all", lambda *_: pytest.fail("trained"))
    with pytest.raises(JobError, match=word):
        sweep(SHORT, grid, out=tmp_path)


def test_no_sweep_to_load(tmp_path):
    with pytest.raises(RequestError, match="no finished sweep"):
        Sweep.load(tmp_path)


def test_no_workers():
    with pytest.raises(RequestError, match="1 or more"):
        train_all([], workers=0)
