"""What protections do to labels before anything is learnt from them, and what they cannot do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from colonnade.data.labels import Task
from colonnade.data.party import PartyData
from colonnade.data.splits import Split
from colonnade.errors import JobError
from colonnade.job.train import Train
from colonnade.learn.encrypted import check_encrypted, targets
from colonnade.learn.objective import Objective
from colonnade.learn.participant import Participant
from colonnade.learn.schedule import Schedule
from colonnade.methods.method import Method
from colonnade.protect.base import LabelProtection
from colonnade.protect.embedding import DistanceCorrelation
from colonnade.protect.secret import row_draws

PAIRED_ROWS_MAX = 4096
SHAPING: tuple[Split, ...] = ("train", "validation")
"""The rows whose labels shape the model or the run."""


def protected(
    data: PartyData, protection: LabelProtection, key: bytes, schedule: Schedule
) -> PartyData:
    """The data with other labels, drawn once for all: wherever the same row with the same label
    comes again, under the same key and protection, the same is drawn.

    The test rows keep theirs: they are looked at once, when everything is chosen, and what comes of
    it stays at the active party.
    """
    labels, task, classes = data.labels, data.task, data.classes
    assert labels is not None and classes is not None
    if task == "regression":
        raise JobError(
            f"method.protect.labels = '{protection.text}' is for classes, and the labels are "
            "quantities: leave it out"
        )
    if len(schedule) and schedule.chosen_on == "test":
        raise JobError(
            f"method.protect.labels = '{protection.text}' needs validation rows, or the best round "
            "would be chosen by true labels: raise train.validation"
        )
    drawn: dict[str, Any] = {}
    for split in SHAPING:
        own = labels.part(split)
        names = [labels.names[code] if labels.names else str(code) for code in own.tolist()]
        draws = row_draws(key, protection.text, labels.row_names(split), names)
        drawn[split] = protection.column(own, classes, draws)
    return replace(data, labels=replace(labels, truth=labels.train, **drawn))


def check_batches(method: Method, train: Train) -> None:
    """Refuse batches for whose protection a matrix of all pairs of rows would have to be held.

    >>> from colonnade import methods
    >>> check_batches(methods.build({"name": "fedsgd"}), Train(batch_size=10**6))
    """
    pairs = any(isinstance(each, DistanceCorrelation) for each in method.protect.embedding)
    if pairs and train.batch_size > PAIRED_ROWS_MAX:
        raise JobError(
            f"dcor compares all pairs of the {train.batch_size:,} rows of a batch, and is for up "
            f"to {PAIRED_ROWS_MAX:,}: lower train.batch_size, or leave out dcor"
        )


def check_cipher(active: Participant, objective: Objective) -> None:
    """Refuse an active party whose part cannot be computed under encryption."""
    protect, labels = active.method.protect, active.data.labels
    if protect.cipher is None or protect.sum is None or labels is None:
        return
    check_encrypted(objective, active.width)
    if labels.weights is not None:
        raise JobError(
            "method.protect.cipher adds up embeddings row by row under encryption, and the rows "
            "have weights: leave out the weights, or method.protect.cipher"
        )
    train = torch.as_tensor(np.ascontiguousarray(labels.train))
    targets(objective, objective.prepare(train, active.dtype), protect.sum)


def check_gradients(method: Method, task: Task) -> None:
    """Refuse a protection of gradients that cannot hide what there is to hide."""
    protection = method.protect.gradient
    if protection is not None and protection.binary and task != "binary":
        raise JobError(
            f"method.protect.gradient = '{protection.text}' hides one of two classes, and this "
            f"task is {task}: choose max_norm, or leave it out"
        )
