"""What a training over parties is held against: the same network trained in one place, without a
cut and without messages, and gradient boosting.

Both choose by the validation rows, as a job does, and look at the test rows once.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import nn

from colonnade.data.batches import BatchPlan
from colonnade.data.party import PartyData
from colonnade.data.splits import Parts, Split
from colonnade.data.values import is_category, numbers
from colonnade.data.vertical import VerticalData
from colonnade.job.records import Job
from colonnade.learn.agreement import EPOCHS
from colonnade.learn.objective import Objective
from colonnade.learn.optim import build_optimizer, build_schedule
from colonnade.learn.participant import DTYPES, build_bottom, secret_seed
from colonnade.learn.trainer import evaluating
from colonnade.models.top import build_top
from colonnade.record.metrics import choose
from colonnade.run.simulate import torch_threads

BOOSTING = {"max_iter": 400, "learning_rate": 0.05}
"""The most trees of gradient boosting, of which the best number is chosen, and their rate."""


class Score(NamedTuple):
    """The metric of the best weights, or of the best number of trees."""

    validation: float
    test: float
    at: int
    """After so many epochs, or trees."""


def train_joint(job: Job, data: VerticalData) -> Score:
    """Train the bottom models of those parties that the data has, and the top model, as one
    network, with the active party's optimizer and schedule.

    >>> from colonnade.data.party import assemble
    >>> from colonnade.job.files import load
    >>> job = load("breast-cancer", ["train.epochs=2"])
    >>> train_joint(job, assemble(job)).at <= 2
    True
    """
    with torch_threads(1):
        network = _Joint(job, data)
        best, kept = Score(-math.inf, -math.inf, 0), network.modules.state_dict()
        for epoch in range(1, (job.train.epochs or EPOCHS) + 1):
            network.train_epoch(epoch)
            found = network.measure("validation")
            if found > best.validation:
                best = Score(found, -math.inf, epoch)
                kept = copy.deepcopy(network.modules.state_dict())
        network.modules.load_state_dict(kept)
        return best._replace(test=network.measure("test"))


class _Joint:
    def __init__(self, job: Job, data: VerticalData) -> None:
        train, active, dtype = job.train, job.parties[job.active], DTYPES[job.train.dtype]
        bottoms, self._features, widths = [], [], {}
        for name in data.features:
            part = PartyData.of(data, name, job.active)
            build, features, widths[name], device = build_bottom(job, name, part, None)
            assert build is not None and features is not None, "every party has columns"
            bottoms.append(build())
            self._features.append(features)
        labels = torch.as_tensor(data.labels.train)
        self._objective = Objective(train, data.task, data.classes, labels)
        self._metric = choose(train.metric, data.task, data.classes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(secret_seed(job, job.active) + 1)
            top = build_top(job.top, widths, self._objective.outputs)
        self._labels = data.labels
        self._targets = self._objective.prepare(labels, dtype).to(device)
        self.modules = nn.ModuleList([*bottoms, top]).to(device=device, dtype=dtype)
        optimizer = build_optimizer(active.optimizer, self.modules.parameters(), "optimizer")
        assert optimizer is not None
        self._optimizer = optimizer
        self._schedule = (
            None
            if active.schedule is None
            else build_schedule(active.schedule, optimizer, "schedule")
        )
        order = job.seed, train.shuffle, train.drop_last
        self._plan = BatchPlan(data.train_count, train.batch_size, *order)

    def _predict(self, split: Split, rows: torch.Tensor | slice) -> torch.Tensor:
        *bottoms, top = self.modules
        embeddings = [
            bottom(features[split][rows])
            for bottom, features in zip(bottoms, self._features, strict=True)
        ]
        prediction: torch.Tensor = top(embeddings)
        return prediction

    def train_epoch(self, epoch: int) -> None:
        """One pass over the training rows; epochs count from 1."""
        first = (epoch - 1) * self._plan.per_epoch
        for batch in range(first, first + self._plan.per_epoch):
            rows = torch.from_numpy(self._plan.batch(batch).copy())
            loss = self._objective(self._predict("train", rows), self._targets[rows])
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            if self._schedule is not None and self._schedule[1]:
                self._schedule[0].step()
        if self._schedule is not None and not self._schedule[1]:
            self._schedule[0].step()

    def measure(self, split: Split) -> float:
        """The job's metric."""
        with evaluating(self.modules):
            scores = self._predict(split, slice(None)).cpu().numpy()
        return self._metric.measure(scores, self._labels.part(split))


def boost(
    table: pa.Table,
    labels: npt.NDArray[Any],
    parts: Parts,
    categorical: Collection[str] = (),
    seed: int = 0,
) -> Score:
    """Gradient boosting on a table of two classes: scikit-learn's, with up to 400 trees at a rate
    of 0.05. Columns of text are categories, and so are those that are said to be.

    >>> from colonnade.data.named import load
    >>> from colonnade.data.splits import split_rows
    >>> data = load("breast-cancer")
    >>> boost(data.table, data.labels, split_rows(569, 0.2, 0.1, 0)).test > 0.95
    True
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from threadpoolctl import threadpool_limits

    columns = [_column(table[name], name, categorical) for name in table.column_names]
    matrix = np.column_stack([values for values, _ in columns])
    model = HistGradientBoostingClassifier(
        **BOOSTING,
        early_stopping=False,
        categorical_features=np.array([coded for _, coded in columns]),
        random_state=seed,
    )
    with threadpool_limits(1):
        model.fit(matrix[parts.train], labels[parts.train])
        found = [
            roc_auc_score(labels[parts.validation], scores)
            for scores in model.staged_decision_function(matrix[parts.validation])
        ]
        best = int(np.argmax(found))
        staged = model.staged_decision_function(matrix[parts.test])
        scores = next(scores for at, scores in enumerate(staged) if at == best)
    return Score(found[best], float(roc_auc_score(labels[parts.test], scores)), best + 1)


def _column(
    column: pa.ChunkedArray, name: str, categorical: Collection[str]
) -> tuple[npt.NDArray[Any], bool]:
    """Numbers with NaN for what is missing, and whether they are codes."""
    if not (is_category(column.type) or name in categorical):
        return numbers(column, name, bounded=False), False
    codes = column.combine_chunks().dictionary_encode().indices
    return codes.to_numpy(zero_copy_only=False).astype(np.float64), True
