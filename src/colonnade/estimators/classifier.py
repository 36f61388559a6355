"""Classes of rows whose columns lie with several parties."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from colonnade.data.frames import label_values
from colonnade.errors import DataError
from colonnade.estimators.base import VerticalEstimator
from colonnade.estimators.scoring import Scored
from colonnade.record.calibration import Calibration

Array = NDArray[Any]


class VerticalClassifier(ClassifierMixin, VerticalEstimator):  # type: ignore[misc]
    """A classifier over columns that lie with several parties, as scikit-learn has classifiers.

    Every argument is optional, and one that is None leaves the choice to `job`, or to a default.

    Args:
        parties: of one frame, the columns of each party (names, patterns or places), or a number
            of parties that share them equally, by default 2. Of frames by party, the columns of
            those that should not use all.
        active: the party with the labels; by default the one that has the label column, or the
            first.
        id: the column that names rows, several, or a mapping from party to either. Without it the
            index of pandas frames names them; where that is the default one, rows are matched by
            place.
        label: the label column of the active party's frame, where `fit` is given no `y`.
        method: how to train, as `"fedbcd:updates=5"`; by default `"fedsgd"`.
        epochs: passes over the training rows; by default 20.
        batch_size: rows in one exchange; by default a 32nd of the rows, from 8 to 256.
        learning_rate: of every party's optimizer.
        metric: what the best round is chosen by on validation rows; by default `"log_loss"`.
        patience: evaluations without a better metric after which training ends.
        validation: the share of the rows that is set aside to choose the best round by, and to
            calibrate probabilities; by default a tenth, and none of fewer than 200 rows.
        seed: decides initial weights and the order of rows; 0 by default.
        missing: what becomes of a row that a party lacks: `"nan"`, no prediction; `"mean"`, the
            party's mean embedding stands in for it.
        backend: `"simulate"`, all parties in this process, or `"launch"`, each in a process of its
            own, connected over mTLS.
        threads: of torch, for each party.
        job: a `cn.Job` for whatever else there is to choose; its data plays no part.

    Attributes:
        classes_: the classes, in the order of the columns of `predict_proba`.
        run_: the `cn.Run` of the training.
        parties_: the columns of each party.
        active_: the party with the labels.
        n_rows_, n_common_: how many rows each party has, and how many all of them have, which were
            trained on.
        n_features_in_, feature_names_in_: of one frame.

    Example:
        >>> import pandas as pd
        >>> bank = pd.DataFrame({"income": range(300)}, index=[f"c{i}" for i in range(300)])
        >>> calls = [number % 40 for number in range(250)]
        >>> telco = pd.DataFrame({"calls": calls}, index=bank.index[50:])
        >>> good = (bank["income"] > 150).map({True: "yes", False: "no"})
        >>> model = VerticalClassifier(epochs=5).fit({"bank": bank * 1.5, "telco": telco}, good)
        >>> model.n_common_, model.classes_.tolist()
        (250, ['no', 'yes'])
        >>> rows = {"bank": bank.iloc[[0, 290]] * 1.5, "telco": telco}
        >>> model.predict_proba(rows).shape, model.predict_rows(rows)["lacks"].to_pylist()
        ((2, 2), ['telco', ''])
    """

    _defaults: ClassVar = {"loss": "auto", "metric": "log_loss"}

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The calibrated probability of each class; NaN for a row that a party lacks."""
        return self._probabilities(self._scored(X))

    def predict(self, X: Any) -> Array:
        """The most probable class of each row; a row that a party lacks is refused."""
        scored = self._scored(X)
        scored.refuse_lacking()
        chosen: Array = self.classes_[self._probabilities(scored).argmax(axis=1)]
        return chosen

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The logit of the second class of two, or one for each of more; NaN for a row that a
        party lacks."""
        scored, fitted = self._scored(X), self._calibration
        found: NDArray[np.float64] = fitted.scale * scored.scores + fitted.shift
        if len(self.classes_) > 2:
            return found
        return found[:, 0] if found.shape[1] == 1 else found[:, 1] - found[:, 0]

    @property
    def _calibration(self) -> Calibration:
        return self._model.saved[self.active_].card.calibration or Calibration()

    def _probabilities(self, scored: Scored) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            return self._calibration.probabilities(scored.scores)

    def _targets(self, labels: Array) -> Array:
        flat = column_or_1d(labels, warn=True)
        if flat.dtype.kind in "fc":
            check_array(flat, ensure_2d=False, dtype=None, input_name="y")
        flat = label_values(flat)
        check_classification_targets(flat)
        return flat

    def _learn_targets(self, labels: Any) -> None:
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise DataError(
                f"all labels are of one class, {self.classes_[0]}: there is nothing to learn, so "
                "check the labels"
            )

    def _told(self, scored: Scored) -> dict[str, Any]:
        shares = self._probabilities(scored)
        return {
            f"probability_{name}": pa.array(shares[:, place], from_pandas=True)
            for place, name in enumerate(self.classes_.tolist())
        }
