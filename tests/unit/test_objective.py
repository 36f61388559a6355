"""Losses, optimizers, schedules and metrics by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from colonnade import JobError
from colonnade.job.records import Train
from colonnade.learn.objective import Objective
from colonnade.learn.optim import build_optimizer, build_schedule
from colonnade.record.metrics import METRICS, choose


@pytest.mark.parametrize(
    ("task", "loss", "outputs"),
    [
        ("binary", "auto", 1),
        ("binary", "cross_entropy", 2),
        ("multiclass", "auto", 4),
        ("regression", "mse", 1),
        ("regression", "l1", 1),
        ("regression", "huber", 1),
    ],
)
def test_losses_are_torchs(task, loss, outputs):
    torch.manual_seed(0)
    labels = {
        "binary": torch.randint(2, (6,)),
        "multiclass": torch.randint(4, (6,)),
        "regression": torch.randn(6),
    }[task]
    classes = {"binary": 2, "multiclass": 4, "regression": 1}[task]
    objective = Objective(Train(loss=loss), task, classes, labels)
    assert objective.outputs == outputs
    prediction = torch.randn(6, outputs, dtype=torch.float64)
    target = objective.prepare(labels, torch.float64)
    reference = {
        "bce": nn.BCEWithLogitsLoss(),
        "cross_entropy": nn.CrossEntropyLoss(),
        "mse": nn.MSELoss(),
        "l1": nn.L1Loss(),
        "huber": nn.HuberLoss(),
    }[objective.name]
    torch.testing.assert_close(objective(prediction, target), reference(prediction, target))


def test_class_weights_are_those_of_cross_entropy():
    labels = torch.tensor([0, 1, 2, 2, 2])
    objective = Objective(Train(class_weights=[1.0, 2.0, 0.5]), "multiclass", 3, labels)
    prediction = torch.randn(5, 3, dtype=torch.float64)
    weights = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)
    expected = nn.CrossEntropyLoss(weight=weights)(prediction, labels)
    torch.testing.assert_close(objective(prediction, labels), expected)


def test_balanced_weights_count_every_class_the_same():
    labels = torch.tensor([0, 0, 0, 1])
    objective = Objective(Train(class_weights="balanced"), "binary", 2, labels)
    assert objective.class_weights.tolist() == pytest.approx([4 / 6, 2.0])


def test_pos_weight_is_that_of_bce():
    labels = torch.tensor([0, 1, 1])
    objective = Objective(Train(pos_weight=3.0), "binary", 2, labels)
    prediction = torch.randn(3, 1)
    target = objective.prepare(labels, torch.float32)
    expected = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))(prediction, target)
    torch.testing.assert_close(objective(prediction, target), expected)


@pytest.mark.parametrize(
    ("train", "task", "words"),
    [
        (Train(loss="mse"), "binary", "does not fit a binary task"),
        (Train(pos_weight=2.0), "multiclass", "is for the loss 'bce'"),
        (Train(class_weights="balanced"), "regression", "this task is a regression"),
        (Train(class_weights=[1.0]), "binary", "needs 2 numbers"),
    ],
)
def test_losses_that_do_not_fit(train, task, words):
    classes = {"binary": 2, "multiclass": 3, "regression": 1}[task]
    with pytest.raises(JobError, match=words):
        Objective(train, task, classes, torch.tensor([0, 1]))


def test_schedules_step_by_epoch_or_round():
    rates = []
    weights = [nn.Parameter(torch.ones(1))]
    optimizer = build_optimizer({"name": "SGD", "lr": 1.0}, weights, "here")
    schedule, every_round = build_schedule(
        {"name": "StepLR", "step_size": 2, "gamma": 0.1, "every": "round"}, optimizer, "here"
    )
    assert every_round
    for _ in range(4):
        optimizer.step()
        schedule.step()
        rates.append(round(optimizer.param_groups[0]["lr"], 6))
    assert rates == [1.0, 0.1, 0.1, 0.01]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"name": "sdg", "lr": 1}, "did you mean 'sgd'"),
        ({"name": "sgd", "rate": 1}, "has no option 'rate'"),
        ({"lr": 1}, "has no name"),
        ({"name": "sgd", "lr": -1.0}, "Invalid learning rate"),
        ({"name": "lbfgs"}, "needs the loss"),
    ],
)
def test_wrong_optimizers(table, words):
    with pytest.raises(JobError, match=words):
        build_optimizer(table, [nn.Parameter(torch.ones(1))], "parties.a.optimizer")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"name": "StepLR"}, "step_size"),
        ({"name": "ReduceLROnPlateau"}, "needs the loss"),
        ({"name": "StepLR", "step_size": 1, "every": "day"}, "write 'epoch' or 'round'"),
    ],
)
def test_wrong_schedules(table, words):
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    with pytest.raises(JobError, match=words):
        build_schedule(table, optimizer, "parties.a.schedule")


def test_metrics_fit_their_task():
    assert choose("auto", "regression", 1).name == "mae"
    with pytest.raises(JobError, match="choose one of mae, rmse, r2"):
        choose("auc", "regression", 1)
    with pytest.raises(JobError, match="with 4 classes"):
        choose("top5", "multiclass", 4)


def test_metrics_are_what_they_say():
    scores = np.eye(7)[[0, 1, 2, 3]] * 3
    labels = np.array([0, 1, 2, 4])
    assert METRICS["accuracy"].measure(scores, labels) == 0.75
    assert METRICS["top5"].measure(scores, labels) == 1.0
    binary = np.array([[-1.0], [2.0], [1.0], [-3.0]])
    assert METRICS["auc"].measure(binary, np.array([0, 1, 0, 0])) == 1.0
    assert METRICS["f1"].measure(binary, np.array([0, 1, 0, 0])) == pytest.approx(2 / 3)
    assert METRICS["mae"].measure(binary, np.array([0.0, 2.0, 1.0, 0.0])) == 1.0
    assert not METRICS["mae"].better(2.0, 1.0)
    assert METRICS["mae"].reaches(0.5, 1.0)
