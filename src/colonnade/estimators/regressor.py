"""Quantities of rows whose columns lie with several parties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, column_or_1d

from colonnade.data.own import FileRows
from colonnade.estimators.base import VerticalEstimator
from colonnade.estimators.scoring import Scored

Array = NDArray[Any]


class VerticalRegressor(RegressorMixin, VerticalEstimator):  # type: ignore[misc]
    """A regressor over columns that lie with several parties, as scikit-learn has regressors.

    Arguments and attributes are those of `VerticalClassifier`; the default metric is `"rmse"`.
    Targets are standardised for the training: predictions are in the units of `y`, but what
    `run_` measures is in standard deviations of it (`y_scale_`).

    Example:
        >>> from sklearn.datasets import make_regression
        >>> X, y = make_regression(300, 6, random_state=0)
        >>> model = VerticalRegressor(parties=3, seed=1).fit(X, y)
        >>> list(model.parties_), model.score(X, y) > 0.9
        (['party0', 'party1', 'party2'], True)
    """

    _defaults: ClassVar = {"loss": "mse", "metric": "rmse"}

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The expected quantity of each row; NaN for a row that a party lacks."""
        return self._quantities(self._scored(X))

    def _quantities(self, scored: Scored) -> NDArray[np.float64]:
        found: NDArray[np.float64] = scored.scores[:, 0] * self.y_scale_ + self.y_mean_
        return found

    def _targets(self, labels: Array) -> Array:
        flat = column_or_1d(labels, warn=True)
        found: Array = check_array(flat, ensure_2d=False, dtype=np.float64, input_name="y")
        return found

    def _learn_targets(self, labels: Any) -> None:
        self.y_mean_, self.y_scale_ = float(labels.mean()), float(labels.std()) or 1.0

    def _scaled(self, rows: FileRows) -> FileRows:
        assert rows.labels is not None
        return replace(rows, labels=(rows.labels - self.y_mean_) / self.y_scale_)

    def _told(self, scored: Scored) -> dict[str, Any]:
        return {"prediction": pa.array(self._quantities(scored), from_pandas=True)}
