"""Null learners and the book of evaluations go on from where they were saved."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from colonnade import methods
from colonnade.job.records import Train
from colonnade.learn.learner import Aggregate
from colonnade.learn.null import NullActive, NullPassive
from colonnade.learn.schedule import Schedule
from colonnade.party.evaluation import Evaluations
from colonnade.policies.view import Exchange
from colonnade.record.metrics import choose
from colonnade.record.sizes import Sizes
from colonnade.record.tree import decode, encode

SIZES = Sizes({"p0": 3, "p1": 2}, {"train": 20, "test": 5}, top=[(2, 3), (2,)])
TABLES = [
    {"name": "fedsgd"},
    {"name": "fedsgd", "compress": {"embedding": "ef+scalar:2", "gradient": "ef+scalar:3"}},
    {"name": "cvfl", "compressor": "ef+scalar:2"},
]


def learners(table):
    method = methods.build(table)
    active = NullActive("p1", dict.fromkeys(SIZES.widths, method), SIZES)
    return NullPassive("p0", method, SIZES), active


def play(passive, active, rounds):
    """What crosses the wire."""
    crossed = []
    for round in rounds:
        exchange = Exchange(round, np.arange(round, round + 4))
        crossed.append(passive.pack(exchange))
        exchange.packed = {"p0": crossed[-1]}
        aggregate = active.aggregate(exchange, None, True)
        exchange.answer = aggregate.answer
        crossed.append(active.reply(exchange, "p0", 0))
        active.backward(None, aggregate, round)
        passive.backward(exchange)
        active.capture()
    return crossed


@pytest.mark.parametrize("table", TABLES)
def test_null_learners_go_on(table):
    passive, active = learners(table)
    play(passive, active, range(3))
    states = [decode(*encode(learner.state())) for learner in (passive, active)]
    crossed = play(passive, active, range(3, 6))
    again = learners(table)
    for learner, state in zip(again, states, strict=True):
        learner.restore(state)
        assert learner.applied == [0, 1, 2]
    assert play(*again, range(3, 6)) == crossed
    for learner in (*again, passive, active):
        assert learner.applied == [0, 1, 2, 3, 4, 5]
    assert again[1].capture() == active.capture() == 6


def test_a_null_learner_keeps_the_order_of_its_fresh_updates():
    passive, active = learners(TABLES[0])
    for round in (3, 1, 1):
        passive.backward(Exchange(round, np.arange(2)))
        active.backward(None, Aggregate(0.0), round)
        passive.local_backward(None, Exchange(7, np.arange(2)))
    assert passive.applied == active.applied == [3, 1, 1]
    state = passive.state()
    passive.applied.append(9)
    assert state["applied"].tolist() == [3, 1, 1]


def book() -> Evaluations:
    train = Train(rounds=9, evaluate_every="1 rounds", patience=3)
    schedule = Schedule.of(train, 9, 1, {"train": 1, "test": 1}, 1)
    return Evaluations(train, choose("auc", "binary", 2), (), schedule)


def score(evaluations: Evaluations, round: int, value: float) -> str | None:
    evaluations.ask(round, {})
    evaluations.capture(round, lambda: None)
    return evaluations.close_scored(evaluations.ready(), {"auc": value})


def test_evaluations_go_on():
    first, second = book(), book()
    for round, value in enumerate([0.5, 0.7, 0.6]):
        assert score(first, round, value) is None
    second.restore(decode(*encode(first.state())))
    assert (second.best, second.best_value, second.scored) == (1, 0.7, 2)
    for evaluations in (first, second):
        assert score(evaluations, 3, 0.6) is None
        assert score(evaluations, 4, 0.6) == "patience"
    assert first.state() == second.state()


def test_evaluations_are_not_saved_with_one_open():
    evaluations = book()
    evaluations.ask(0, {})
    with pytest.raises(AssertionError, match="in flight"):
        evaluations.state()


def test_randomness_on_the_cpu_leaves_the_outside_alone():
    from colonnade.learn.trainer import Randomness

    layers = [torch.nn.Dropout(0.5)]
    before = torch.get_rng_state()
    mine, yours = (Randomness(layers, seed, torch.device("cpu")) for seed in (1, 2))
    with mine.own():
        torch.rand(3)
    yours.restore(decode(*encode(mine.state())))
    drawn = []
    for stream in (mine, yours):
        with stream.own():
            drawn.append(torch.rand(3))
    assert torch.equal(*drawn)
    assert torch.equal(torch.get_rng_state(), before)
