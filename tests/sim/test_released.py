"""What a finished simulation held in memory is free at once."""

from __future__ import annotations

import gc
import weakref

import pytest

import colonnade as cn
from colonnade.party import training


@pytest.mark.parametrize("method", ["fedsgd", "celu", "pasta", "efvfl", "vafl", "auto"])
def test_learners_do_not_wait_for_the_collector(monkeypatch, method):
    """Of every row they may remember something, as error feedback does."""
    made: list[weakref.ref] = []

    def noted(build):
        def building(*given):
            learner = build(*given)
            made.append(weakref.ref(learner))
            return learner

        return building

    for name in ("build_active", "build_passive"):
        monkeypatch.setattr(training, name, noted(getattr(training, name)))
    job = cn.load("digits", [f"method.name={method}", "train.rounds=3"])
    gc.collect()
    gc.disable()
    try:
        run = cn.simulate(job)
        assert len(made) == 3 and not [each() for each in made if each() is not None]
    finally:
        gc.enable()
    assert run.rounds == 3
