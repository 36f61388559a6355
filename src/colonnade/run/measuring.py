"""The metrics of a job, once it is known that they can be measured on the rows that are held out.

The labels are there before the training begins, and so is what is wrong with them: an hour later
is too late to hear of a class that no held-out row has.
"""

from __future__ import annotations

import numpy as np

from colonnade.data.splits import Split
from colonnade.data.vertical import Labels
from colonnade.errors import DataError
from colonnade.job.train import Train
from colonnade.learn.objective import Objective
from colonnade.learn.schedule import Schedule
from colonnade.record.metrics import DIFFERING, EVERY_CLASS, Metric, choose

_SHOWN = 3
"""So many missing classes are named."""


def metrics_of(
    train: Train, objective: Objective, labels: Labels, schedule: Schedule
) -> list[Metric]:
    """The metrics that a job wants, the first of them for its choices."""
    wanted = (train.metric, *train.extra_metrics)
    found = [choose(name, objective.task, objective.classes) for name in wanted]
    splits: list[Split] = [schedule.chosen_on] if len(schedule) else []
    if schedule.tests:
        splits.append("test")
    for split in splits:
        for metric, name in zip(found, wanted, strict=True):
            problem = _problem(metric, objective, labels, split)
            if problem is not None:
                raise DataError(f"{problem}: {_cure(split, metric, name in train.extra_metrics)}")
    return found


def _problem(metric: Metric, objective: Objective, labels: Labels, split: Split) -> str | None:
    """Why a metric cannot be measured on a split."""
    own = labels.part(split)
    begun = f"{metric.name} cannot be measured on the {len(own):,} {split} rows"
    if metric.name in EVERY_CLASS:
        missing = np.setdiff1d(np.arange(max(2, objective.classes)), own).tolist()
        if missing:
            names = [labels.names[each] if labels.names else str(each) for each in missing]
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            kind = "class" if len(names) == 1 else "classes"
            return f"{begun}, which have no row of the {kind} {', '.join(names[:_SHOWN])}{more}"
    if metric.name in DIFFERING and len(np.unique(own)) < 2:
        return f"{begun}, whose targets are all the same"
    return None


def _cure(split: Split, metric: Metric, extra: bool) -> str:
    other = "rmse" if metric.name in DIFFERING else "accuracy"
    choice = (
        f"leave {metric.name} out of train.extra_metrics"
        if extra
        else f"set train.metric = '{other}'"
    )
    return f"raise train.{split}, choose another train.split_seed, or {choice}"
