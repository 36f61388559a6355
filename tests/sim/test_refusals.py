"""What a party does not take from another."""

from __future__ import annotations

import itertools

import pytest

from colonnade import JobError, PartyError, simulate
from tests.small import small


def test_a_tensor_of_the_wrong_shape_is_refused(monkeypatch):
    from colonnade.compress import plain
    from colonnade.learn.passive import TorchPassive

    case = small(2, rounds=3)
    monkeypatch.setattr(
        TorchPassive, "pack", lambda self, forward: plain().encode(forward.forward.embedding[:-1])
    )
    with pytest.raises(PartyError, match=r"p0 sent a tensor of shape \(7, 4\) where \(8, 4\)"):
        simulate(case.job, case.data, case.modules)


def test_a_party_that_sends_ahead_of_its_window_is_refused(monkeypatch):
    from colonnade.policies.window import Lockstep

    monkeypatch.setattr(Lockstep, "may_send", lambda self, view: view.in_flight < 3)
    case = small(3, rounds=5)
    with pytest.raises(PartyError, match="lets 1 be in flight"):
        simulate(case.job, case.data, case.modules)


def test_another_job_is_refused_before_any_data(monkeypatch):
    from colonnade.learn import agreement

    case = small(3, rounds=3)
    numbers = itertools.count()
    monkeypatch.setattr(agreement, "digest", lambda *_: str(next(numbers)))
    with pytest.raises(JobError, match="has another job"):
        simulate(case.job, case.data, case.modules)
