"""Metrics against scikit-learn, their direction, and what has no value."""

from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve

import colonnade as cn
from colonnade.errors import DataError, JobError
from colonnade.job import load
from colonnade.job.records import Train
from colonnade.record.metrics import METRICS, choose

rng = np.random.default_rng(5)
BINARY = rng.integers(0, 2, 300)
ONE = (BINARY - 0.5)[:, None] * 2 + rng.normal(size=(300, 1)) * 3
TWO = np.hstack([np.zeros_like(ONE), ONE])
CLASSES = rng.integers(0, 4, 300)
FOUR = np.eye(4)[CLASSES] + rng.normal(size=(300, 4))
TARGETS = rng.normal(size=300) * 7
GUESSES = (TARGETS + rng.normal(size=300))[:, None]


def sigmoid(scores):
    return 1 / (1 + np.exp(-scores[:, 0]))


def softmax(scores):
    powers = np.exp(scores)
    return powers / powers.sum(axis=1, keepdims=True)


def measured(name, scores, labels):
    return METRICS[name].measure(scores, labels)


@pytest.mark.parametrize("scores", [ONE, TWO], ids=["bce", "cross_entropy"])
def test_two_classes_as_scikit_learn_has_them(scores):
    shares = sigmoid(ONE)
    expected = {
        "pr_auc": sk.average_precision_score(BINARY, shares),
        "auc": sk.roc_auc_score(BINARY, shares),
        "log_loss": sk.log_loss(BINARY, shares),
        "brier": sk.brier_score_loss(BINARY, shares),
    }
    for name, value in expected.items():
        assert measured(name, scores, BINARY) == pytest.approx(value, rel=1e-12), name
    came, claimed = calibration_curve(BINARY, shares, n_bins=15)
    counts = np.histogram(shares, bins=15, range=(0, 1))[0]
    error = (np.abs(came - claimed) * counts[counts > 0]).sum() / counts.sum()
    assert measured("ece", scores, BINARY) == pytest.approx(error, rel=1e-12)


def test_more_classes_as_scikit_learn_has_them():
    shares, hot = softmax(FOUR), np.eye(4)[CLASSES]
    expected = {
        "pr_auc": np.mean([sk.average_precision_score(hot[:, k], shares[:, k]) for k in range(4)]),
        "auc": sk.roc_auc_score(CLASSES, shares, multi_class="ovr"),
        "log_loss": sk.log_loss(CLASSES, shares),
        "brier": ((shares - hot) ** 2).sum(axis=1).mean(),
    }
    for name, value in expected.items():
        assert measured(name, FOUR, CLASSES) == pytest.approx(value, rel=1e-12), name
    right = shares.argmax(axis=1) == CLASSES
    came, claimed = calibration_curve(right, shares.max(axis=1), n_bins=15)
    counts = np.histogram(shares.max(axis=1), bins=15, range=(0, 1))[0]
    error = (np.abs(came - claimed) * counts[counts > 0]).sum() / counts.sum()
    assert measured("ece", FOUR, CLASSES) == pytest.approx(error, rel=1e-12)


def test_quantities_as_scikit_learn_has_them():
    expected = {
        "rmse": sk.root_mean_squared_error(TARGETS, GUESSES[:, 0]),
        "mae": sk.mean_absolute_error(TARGETS, GUESSES[:, 0]),
        "r2": sk.r2_score(TARGETS, GUESSES[:, 0]),
    }
    for name, value in expected.items():
        assert measured(name, GUESSES, TARGETS) == pytest.approx(value, rel=1e-12), name


def test_certain_predictions_have_a_finite_loss():
    assert measured("log_loss", np.array([[800.0], [-800.0]]), np.array([0, 0])) == 400.0
    assert measured("log_loss", np.array([[800.0, 0.0, 0.0]]), np.array([1])) == 800.0


@pytest.mark.parametrize("name", METRICS)
def test_the_direction_is_that_of_the_metric(name):
    task = METRICS[name].tasks[-1]
    good = {"multiclass": np.eye(7)[np.arange(70) % 7] * 9, "regression": np.arange(70.0)[:, None]}
    labels = np.arange(70) % 7 if task == "multiclass" else np.arange(70.0)
    better = measured(name, good[task], labels)
    worse = measured(name, np.roll(good[task], 1, axis=0) * 1.5, labels)
    metric = METRICS[name]
    assert metric.better(better, worse) and not metric.better(worse, better)
    assert metric.reaches(better, better) and metric.reaches(better, worse)
    assert not metric.reaches(worse, better)


@pytest.mark.parametrize("name", ["auc", "pr_auc"])
def test_one_class_only_is_a_sentence(name):
    with pytest.raises(DataError, match=f"{name} needs every class among the held-out rows"):
        measured(name, ONE, np.ones(300, dtype=int))
    with pytest.raises(DataError, match="needs every class"):
        measured(name, FOUR, CLASSES % 3)


def test_equal_targets_have_no_r2():
    with pytest.raises(DataError, match="r2 needs held-out targets that differ"):
        measured("r2", GUESSES, np.ones(300))


@pytest.mark.parametrize("name", ["accuracy", "f1", "log_loss", "brier", "ece"])
def test_others_have_a_value_with_one_class_too(name):
    assert np.isfinite(measured(name, ONE, np.ones(300, dtype=int)))


def test_every_metric_is_documented_with_its_direction():
    page = (Path(__file__).parents[2] / "docs" / "job-files.md").read_text()
    table = page.partition("| metric |")[2].partition("\n\n")[0]
    found = {}
    for row in table.splitlines()[2:]:
        _, names, _, better, *_ = row.split("|")
        found |= dict.fromkeys(names.strip(" `").split("`, `"), better.strip())
    ways = {name: "higher" if METRICS[name].higher_is_better else "lower" for name in METRICS}
    assert found == ways


def test_a_metric_that_is_none_lists_the_choices():
    for make in (
        lambda: load("digits", ["train.metric=rmsee"]),
        lambda: Train(metric="rmsee"),
        lambda: Train(extra_metrics=["rmsee"]),
    ):
        with pytest.raises(JobError, match=r"did you mean 'rmse'\? .* quantities mae, rmse, r2"):
            make()
    with pytest.raises(JobError, match=r"does not fit a multiclass .*: choose one of accuracy,"):
        choose("rmse", "multiclass", 4)


def test_a_word_that_a_field_does_not_take_lists_the_choices():
    with pytest.raises(JobError, match=r"train\.loss is 'mce': did you mean 'mse'\? Choose one of"):
        load("digits", ["train.loss=mce"])
    with pytest.raises(JobError, match=r"parties\.\*\.role is 'x': choose one of active, passive"):
        load("digits", ["parties.lab.role=x"])


def test_patience_target_and_best_go_by_a_metric_that_falls():
    x = rng.normal(size=(400, 2))
    data = cn.vertical({"a": x[:, :1], "b": x[:, 1:]}, x.sum(axis=1))
    job = cn.Job(
        parties={"a": cn.Party(role="active"), "b": cn.Party()},
        train=Train(epochs=30, batch_size=50, metric="rmse", target=0.2, stop="target"),
    )
    run = cn.simulate(job, data)
    assert run.status == "target"
    values = [row["rmse"] for row in run.history]
    assert values[-1] <= 0.2 < values[0]
    assert run.best() == min(values)
