"""An estimator whose parties are processes learns what it learns in a simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone

import colonnade as cn
from tests.frames import bank_and_telco


@pytest.mark.usefixtures("stood_in")
def test_a_launched_estimator_learns_the_same_to_the_bit():
    bank, telco, good = bank_and_telco()
    # Names that the files of a launch use themselves, and that patterns could mistake.
    bank = bank.rename(columns={"income": "id", "since": "label"})
    telco = telco.rename(columns={"calls": "call*", "plan": "!plan"})
    rows, weights = {"bank": bank, "telco": telco}, np.linspace(0, 2, len(bank))
    model = cn.VerticalClassifier(epochs=2)
    simulated = clone(model).fit(rows, good, sample_weight=weights)
    launched = model.set_params(backend="launch").fit(rows, good, sample_weight=weights)
    assert launched.run_.clock == "wall"
    assert launched.run_.job == simulated.run_.job
    for name, tensors in simulated.run_.best_weights.items():
        for key, tensor in tensors.items():
            assert torch.equal(tensor, launched.run_.best_weights[name][key])
    expected = simulated.predict_proba(rows)
    assert np.array_equal(launched.predict_proba(rows), expected, equal_nan=True)
    assert launched.classes_.tolist() == ["no", "yes"]
