"""Columns from embeddings by ridge regression, from a few rows of which the attacker knows both.
Where a bottom model is wide and smooth, that is all it takes."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import StandardScaler

from colonnade.privacy.recorded import Array

PENALTIES = tuple(10.0**power for power in range(-3, 7))
"""The one that does best on known rows left out is taken."""


def ridge(known: Array, columns: Array, asked: Array) -> Array:
    """The columns of the rows asked about, rebuilt from rows whose columns are known.

    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> ridge(x, 3 * x + 1, np.array([[0.5]])).round(2)
    array([[2.5]])
    """
    if len(known) == 1:
        return np.repeat(columns, len(asked), axis=0)
    scale = StandardScaler().fit(known)
    model = RidgeCV(PENALTIES).fit(scale.transform(known), columns)
    return np.asarray(model.predict(scale.transform(asked))).reshape(len(asked), -1)
