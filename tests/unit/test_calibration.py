"""Calibrated probabilities: they sum to one, keep the scores' order, and fit held-out rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.record.calibration import Calibration, fit


def log_loss(probabilities, labels):
    return -np.log(probabilities[np.arange(len(labels)), labels]).mean()


def drawn(seed, classes, scale, rows=4000):
    """Scores that are `scale` times too large for the classes that were drawn by them."""
    random = np.random.default_rng(seed)
    honest = random.normal(size=(rows, 1 if classes == 2 else classes))
    shares = Calibration().probabilities(honest)
    labels = (shares.cumsum(axis=1) < random.random((rows, 1))).sum(axis=1)
    return honest * scale, labels.clip(max=classes - 1)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
def test_scores_that_are_too_sure_or_too_shy_are_mended(classes, scale):
    scores, labels = drawn(0, classes, scale)
    fitted = fit(scores, labels, "validation")
    assert fitted.scale == pytest.approx(1 / scale, rel=0.1)
    assert (fitted.rows, fitted.split) == (4000, "validation")
    fresh, truth = drawn(1, classes, scale)
    plain = log_loss(Calibration().probabilities(fresh), truth)
    assert log_loss(fitted.probabilities(fresh), truth) <= plain + 1e-3


def test_another_share_of_positives_is_followed():
    scores, labels = drawn(0, 2, 1.0)
    keep = (labels == 1) | (np.arange(len(labels)) % 10 == 0)
    fitted = fit(scores[keep], labels[keep], "validation")
    assert fitted.probabilities(scores[keep])[:, 1].mean() == pytest.approx(
        labels[keep].mean(), abs=0.01
    )


@given(st.lists(st.tuples(st.floats(-50, 50), st.integers(0, 1)), max_size=30))
def test_probabilities_are_shares_in_the_order_of_the_scores(rows):
    scores = np.array([[score] for score, _ in rows]).reshape(-1, 1)
    labels = np.array([label for _, label in rows], dtype=np.int64)
    fitted = fit(scores, labels, "validation")
    assert fitted.scale > 0
    shares = fitted.probabilities(scores)
    assert np.isfinite(shares).all() and (shares >= 0).all()
    assert np.allclose(shares.sum(axis=1), 1)
    order = np.argsort(scores[:, 0], kind="stable")
    assert (np.diff(shares[order, 1]) >= 0).all()


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        (np.empty((0, 1)), np.empty(0, dtype=np.int64)),
        (np.array([[1.0], [2.0]]), np.array([1, 1])),
        (np.array([[np.nan], [2.0]]), np.array([0, 1])),
        (np.array([[2.0], [-2.0]] * 20), np.array([0, 1] * 20)),
        (np.full((2**17, 1), 2.0), np.array([0, 0, 0, 1] * 2**15)),
    ],
    ids=["no rows", "one class", "not finite", "the wrong way round", "all the same"],
)
def test_what_cannot_be_fitted_is_left_as_it_is(scores, labels):
    assert fit(scores, labels, "validation") == Calibration()
