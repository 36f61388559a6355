"""A passive party lets nobody move its model by more than it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import BreachError
from colonnade.job.policy import Policy
from colonnade.learn.passive import TorchPassive
from colonnade.policies.weight import Compensate, compensate
from colonnade.run.setup import prepare
from colonnade.run.simulate import simulate_prepared
from tests.small import small

METHODS = [{"name": "fedsgd"}, {"name": "celu"}, {"name": "fedsgd", "exchange": "snapshot"}]


def parties(method, most=None):
    shared = {"labels": "shared"} if "exchange" in method else {}
    case = small(3, rounds=6, method=method, **shared)
    ready = prepare(case.job, case.data, case.modules)
    return ready | {"p2": replace(ready["p2"], policy=Policy(gradient_norm_max=most))}


@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_that_is_too_long_names_the_active_party_and_moves_nothing(monkeypatch, method):
    before, seen = {}, []
    backward = TorchPassive.backward

    def watched(self, exchange, *more):
        if self._party.me == "p2":
            before.update(self.weights())
            seen.append(self)
        backward(self, exchange, *more)

    monkeypatch.setattr(TorchPassive, "backward", watched)
    with pytest.raises(BreachError) as found:
        simulate_prepared(parties(method, 1e-6))
    assert found.value.peer == "p1"
    assert "p1 sent what makes the gradient of a row" in str(found.value)
    assert "policy.gradient_norm_max is 1e-06" in str(found.value)
    assert len(seen) == 1, "the first one is refused"
    for name, weight in seen[0].weights().items():
        assert torch.equal(weight, before[name])


@pytest.mark.parametrize("method", METHODS)
def test_a_bound_that_holds_changes_nothing(method):
    free, bound = simulate_prepared(parties(method)), simulate_prepared(parties(method, 100.0))
    for name, weight in free.weights["p2"].items():
        assert torch.equal(weight, bound.weights["p2"][name])


def test_one_row_that_is_too_long_is_enough(monkeypatch):
    """It is each row's length that counts, not that of the batch."""
    from colonnade.learn.active import TorchActive

    reply = TorchActive.reply

    def stretched(self, exchange, peer, signal):
        if peer == "p2" and exchange.round == 3:
            exchange.answer[peer][0] *= 1e4
        return reply(self, exchange, peer, signal)

    assert simulate_prepared(parties({"name": "fedsgd"}, 1.0)).status == "end"
    monkeypatch.setattr(TorchActive, "reply", stretched)
    with pytest.raises(BreachError, match="p1 sent what makes the gradient of a row"):
        simulate_prepared(parties({"name": "fedsgd"}, 1.0))


def test_a_weight_above_one_does_not_lead_beyond_the_bound(monkeypatch):
    """Compensation may double a row's gradient: what came within the bound stays within it."""
    table = {"name": "fedsgd", "window": "fixed:3", "weight": "compensate", "local": "repeat:2"}
    twice = staticmethod(lambda stale, current, slope: stale.new_full((len(stale),), 2.0))
    monkeypatch.setattr(Compensate, "rows", twice)
    lengths = {}
    go_back = TorchPassive._go_back

    def watched(self, forward, gradient):
        own = torch.linalg.vector_norm(gradient, dim=1).max().item()
        lengths.setdefault(self._party.me, []).append(own)
        go_back(self, forward, gradient)

    monkeypatch.setattr(TorchPassive, "_go_back", watched)
    simulate_prepared(parties(table))
    free = max(lengths["p2"])
    most, lengths["p2"] = 0.75 * free, []
    simulate_prepared(parties(table, most))
    assert 0.6 * free < max(lengths["p2"]) <= most * (1 + 1e-9)


@given(st.lists(st.floats(width=32), min_size=9, max_size=9))
def test_whatever_a_gradient_holds_a_weight_is_within_its_bounds(values):
    stale, current, slope = torch.tensor(values).view(3, 3, 1)
    rows = compensate().rows(stale, current, slope)
    assert torch.isfinite(rows).all() and (rows >= 0).all() and (rows <= 2).all()
    assert torch.equal(compensate().rows(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 3)),
                       torch.ones(2)), "nothing moved"  # fmt: skip
