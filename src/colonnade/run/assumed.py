"""What a passive party has to assume of the labels, which only the active party knows."""

from __future__ import annotations

from colonnade.job.metrics import METRICS
from colonnade.learn.objective import FITS, Objective, Task
from colonnade.learn.participant import Participant

OF_TWO = ("auc", "pr_auc", "f1")
"""Metrics that fit several classes too, but are mostly asked for where there are two."""
CLASSES = 10
"""What a passive party takes for the number of classes: nobody but the active party knows them."""


def assumed_objective(me: Participant) -> Objective:
    """The loss, from which all that is known of the labels follows; a passive party concludes what
    it can from the job."""
    if me.objective is not None:
        return me.objective
    train, top = me.job.train, me.job.top
    single = {"agg": me.width == 1, "dot": True}.get(top.kind, False)
    task: Task = "binary" if single or train.metric in OF_TWO else "multiclass"
    if train.metric in METRICS and METRICS[train.metric].tasks == ("regression",):
        task = "regression"
    if train.loss != "auto":
        task = FITS[train.loss][0]
    many = me.width if top.kind == "agg" else CLASSES
    classes = {"binary": 2, "regression": 1, "multiclass": many}[task]
    weights = train.class_weights
    if isinstance(weights, str):
        weights = [1.0] * classes if weights == "balanced" else []
    return Objective.told(train, task, classes, weights)
