"""What the estimators have in common: their arguments, and the way from frames to scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from colonnade.data.frames import in_one_order, is_indexed, plain_array
from colonnade.data.own import label_at_passive
from colonnade.data.tables import values
from colonnade.errors import DataError, RequestError, nearest
from colonnade.estimators.rows import check_labels, divided, training_rows
from colonnade.estimators.scoring import Model, Scored
from colonnade.estimators.settings import base_job, complete
from colonnade.estimators.tables import Held, as_table, hold
from colonnade.estimators.training import train
from colonnade.job.ids import Ids
from colonnade.job.records import Job

Array = NDArray[Any]
_CHOICES = {"missing": ("nan", "mean"), "backend": ("simulate", "launch")}


class VerticalEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """A model whose columns lie with several parties; see `VerticalClassifier`."""

    _defaults: ClassVar[Mapping[str, str]]
    """The loss and the metric of the task."""

    def __init__(
        self,
        parties: Any = None,
        *,
        active: str | None = None,
        id: Any = None,
        label: str | None = None,
        method: Any = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        metric: str | None = None,
        patience: int | None = None,
        validation: float | None = None,
        seed: int | None = None,
        missing: str = "nan",
        backend: str = "simulate",
        threads: int = 1,
        job: Job | None = None,
    ) -> None:
        self.parties = parties
        self.active = active
        self.id = id
        self.label = label
        self.method = method
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.metric = metric
        self.patience = patience
        self.validation = validation
        self.seed = seed
        self.missing = missing
        self.backend = backend
        self.threads = threads
        self.job = job

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.dict = True
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on the rows that all parties have.

        Args:
            X: each party's frame under its name, with ids; or one frame or array with all columns,
                which `parties` divides.
            y: a label for each row of the active party's frame, or the name of its label column.
            sample_weight: how much each of those rows counts.
        """
        self._check()
        held, labels = self._held_for_training(X, self.label if y is None else y)
        check_labels(self.active_, held[self.active_].count, labels)
        weights = None if sample_weight is None else plain_array("the weights", sample_weight)
        if weights is not None:
            check_labels(self.active_, len(labels), np.atleast_1d(weights))
        parts = training_rows(held, self.active_, self._targets(labels), weights)
        self.n_rows_ = {name: own.count for name, own in held.items()}
        self.n_common_ = parts[self.active_].count
        self._learn_targets(parts[self.active_].labels)
        parts[self.active_] = self._scaled(parts[self.active_])
        job = base_job(self.job, list(held), self.active_)
        job = complete(job, self.get_params(deep=False), parts, self._defaults)
        self.run_ = train(job, parts, self.backend, self.threads)  # type: ignore[arg-type]
        self._model = Model(self.run_)
        self._model.learn_means(parts)
        return self

    def predict_rows(self, X: Any) -> pa.Table:
        """What is predicted of every row of the active party, and which parties lack the row.

        The columns are `id` (where rows have ids), `lacks` (the parties, with commas between them;
        empty where all have the row), and the prediction, empty (null) where there is none.
        """
        held = self._held_for_prediction(X)
        scored = self._score(held)
        rows = zip(*scored.lacks.values(), strict=True)
        names = list(scored.lacks)
        lacks = [
            ", ".join(name for name, lacking in zip(names, row, strict=True) if lacking)
            for row in rows
        ]
        ids = held[self.active_].ids
        columns = {} if ids is None else {"id": ids}
        return pa.table({**columns, "lacks": pa.array(lacks, pa.string()), **self._told(scored)})

    def _check(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise RequestError(
                    f"{name} is {getattr(self, name)!r}: choose {' or '.join(choices)}"
                )
        if self.job is not None and not isinstance(self.job, Job):
            raise RequestError("job is not a cn.Job: load one with cn.load, or leave it out")

    @abstractmethod
    def _targets(self, labels: Array) -> Array:
        """Labels as a training takes them, one for each row."""

    @abstractmethod
    def _learn_targets(self, labels: Any) -> None:
        """Keep what is to be known of the labels of the common rows."""

    def _scaled(self, rows: Any) -> Any:
        """The active party's rows with labels in the scale of the training."""
        return rows

    @abstractmethod
    def _told(self, scored: Scored) -> dict[str, Any]:
        """The columns of a prediction."""

    def _score(self, held: Mapping[str, Held]) -> Scored:
        return self._model.score(held, stand_in=self.missing == "mean")

    def _scored(self, X: Any) -> Scored:
        return self._score(self._held_for_prediction(X))

    def _held_for_training(self, X: Any, y: Any) -> tuple[dict[str, Held], Array]:
        """What every party holds, and the labels; learns who the parties are."""
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give a "
                "label for each row of the active party, or the name of its label column"
            )
        self._one_frame = not _is_by_party(X)
        self._label = y if isinstance(y, str) else None
        held = self._divided(X, reset=True) if self._one_frame else self._by_party(X)
        frame = X if self._one_frame else X[self.active_]
        if self._label is not None:
            return held, _label_column(self.active_, frame, self._label)
        _refuse_label_among(held[self.active_], y)
        if is_indexed(y) and is_indexed(frame) and not y.index.equals(frame.index):
            y = in_one_order({self.active_: frame, "the labels": y})["the labels"]
        return held, plain_array("the labels", y)

    def _divided(self, X: Any, reset: bool) -> dict[str, Held]:
        """One frame, whose columns belong to several parties."""
        table = as_table("X", X)
        if self._label in table.column_names:
            X = table = table.drop_columns([self._label])
        validate_data(self, X, reset=reset, skip_check_array=True)
        if reset:
            given = self.parties
            if given is None and self.job is not None:
                given = {name: party.columns for name, party in self.job.parties.items()}
            self.parties_ = divided(table, given, self._ids_of("X"))
            self.active_ = self._active_of(list(self.parties_))
        return {
            name: Held(name, table.num_rows, table.select(columns))
            for name, columns in self.parties_.items()
        }

    def _by_party(self, X: Mapping[str, Any]) -> dict[str, Held]:
        """Frames by party, of which the active one has the labels."""
        if len(X) < 2:
            raise DataError("X has fewer than two parties: give each party's frame under its name")
        found = {str(name): self._hold(str(name), value) for name, value in X.items()}
        having = [name for name, own in found.items() if self._label in own.table.column_names]
        self.active_ = self._active_of([*having, *found])
        self.parties_ = {name: self._columns_of(own) for name, own in found.items()}
        for name, columns in self.parties_.items():
            if name in having and name != self.active_:
                raise label_at_passive(name, self._label)
            if not columns and name != self.active_:
                raise DataError(f"{name} has no columns beside ids: give some, or leave it out")
        self.n_features_in_ = sum(map(len, self.parties_.values()))
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        chosen = {name: own.select(self.parties_[name]) for name, own in found.items()}
        return _with_counts(chosen)

    def _columns_of(self, own: Held) -> list[str]:
        """The columns that a party uses of its frame."""
        known = [column for column in own.table.column_names if column != self._label]
        if not isinstance(self.parties, Mapping) or own.name not in self.parties:
            return known
        return divided(own.table.select(known), {own.name: self.parties[own.name]})[own.name]

    def _hold(self, name: str, value: Any) -> Held:
        if value is None:
            return Held(name, -1, pa.table({}))
        rule = Ids() if self.job is None else self.job.ids
        return hold(name, value, self._ids_of(name), rule)

    def _ids_of(self, name: str) -> tuple[str, ...]:
        """The columns that name the rows of a party, where it is said."""
        given = self.id
        if isinstance(given, Mapping):
            given = given.get(name)
        if given is None and self.job is not None and name in self.job.parties:
            given = self.job.parties[name].id
        if given is None:
            return ()
        return (given,) if isinstance(given, str) else tuple(str(each) for each in given)

    def _active_of(self, names: Sequence[str]) -> str:
        """The party with the labels: as it is said, or the first of these."""
        said = self.active if self.job is None or self.active else self.job.active
        if said is not None and said not in names:
            raise DataError(f"active is '{said}', which is no party: {nearest(said, names)}")
        return said or names[0]

    def _held_for_prediction(self, X: Any) -> dict[str, Held]:
        check_is_fitted(self, "run_")
        if self._one_frame:
            if _is_by_party(X):
                raise DataError("the model was fitted on one frame: give one frame to predict")
            return self._divided(X, reset=False)
        if not _is_by_party(X):
            raise DataError(
                "the model was fitted on a frame for each party: give a mapping from each party's "
                "name to its frame"
            )
        found = {}
        for name in self.parties_:
            if name not in X:
                raise DataError(f"X has nothing for {name}: {nearest(name, map(str, X))}")
            found[name] = self._hold(name, X[name])
        return _with_counts(found)


def _is_by_party(X: Any) -> bool:
    """Whether there is a frame for each party; a sparse matrix may be a mapping too."""
    return isinstance(X, Mapping) and not hasattr(X, "toarray")


def _with_counts(found: Mapping[str, Held]) -> dict[str, Held]:
    """An active party without a frame has as many rows as the others, by place."""
    count = max(own.count for own in found.values())
    return {
        name: own if own.count >= 0 else replace(own, count=count) for name, own in found.items()
    }


def _label_column(name: str, frame: Any, label: str) -> Array:
    table = as_table(name, frame)
    if label not in table.column_names:
        raise DataError(
            f"{name} has no label column '{label}': {nearest(label, table.column_names)}"
        )
    return values(table[label], f"the label '{label}' of {name}")


def _refuse_label_among(own: Held, y: Any) -> None:
    """Refuse labels that are a column which the model would read."""
    label = getattr(y, "name", None)
    if not isinstance(label, str) or label not in own.table.column_names:
        return
    # What is computed from a column of pandas keeps its name.
    if own.table[label].to_pylist() == plain_array("the labels", y).tolist():
        raise DataError(
            f"the labels are the column '{label}' of {own.name}, from which a model would learn "
            f"nothing else: give y='{label}' to leave it out, or drop it"
        )
