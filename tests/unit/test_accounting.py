"""How often rows have left, by messages and by the ledger, and what that costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import PartyError
from colonnade.job import load
from colonnade.learn.agreement import Agreement
from colonnade.protect.accountant import epsilon_of, mu
from colonnade.protect.embedding import gauss
from colonnade.record.chain import Line
from colonnade.run.accounting import Accountant, RowReleases, planned, releases_for
from colonnade.wire.messages import Buffer, Embedding, EvaluationEmbedding, Packed

NOISE = gauss(1, 20)
ROWS = {"train": 100, "validation": 20, "test": 20}


def agreement(*sets):
    job = load("digits", ["train.batch_size=30", "train.epochs=4", *sets])
    return Agreement.of(job, ROWS, {"clinic": 4, "lab": 4, "insurer": 4})


def packed(rows):
    return Packed("plain", "float32", (rows, 1), Buffer(memoryview(bytes(4 * rows))))


def embedding(round):
    return Embedding(round, packed(30))


def line(kind, round):
    return Line(n=1, at=0, hash="", way="sent", peer="clinic", kind=kind, round=round)


def test_a_row_leaves_once_an_epoch_and_again_where_rounds_are_repeated():
    rows = RowReleases(agreement())
    for round in range(4):
        rows.count(embedding(round))
    assert rows.most == 1
    rows.count(embedding(2))
    assert rows.most == 2
    for _ in range(5):
        rows.count(EvaluationEmbedding(3, "validation", 0, packed(20)))
    assert rows.most == 5


@pytest.mark.parametrize("sets", [(), ("train.full_loss=true",), ("train.validation=0",)])
def test_an_undisturbed_run_costs_what_was_planned(sets):
    agreed = agreement(*sets)
    rows, schedule = RowReleases(agreed), agreed.schedule
    for round in range(agreed.rounds):
        rows.count(embedding(round))
        for split in schedule.splits if schedule.due(round) else ():
            rows.count(EvaluationEmbedding(round, split, 0, packed(20)))
    if schedule.tests:
        rows.count(EvaluationEmbedding(schedule.rounds, "test", 0, packed(20)))
    assert rows.most == planned(agreed, "lab")


@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=6))
@settings(max_examples=60, deadline=None)
def test_the_ledger_never_counts_less_than_what_left(attempts):
    agreed = agreement("train.full_loss=true")
    sent, lines = RowReleases(agreed), []
    for one, other in attempts:
        for round in range(min(one, other), max(one, other) + 1):
            sent.count(embedding(round))
            lines.append(line("Embedding", round))
            for split in agreed.schedule.splits if agreed.schedule.due(round) else ():
                sent.count(EvaluationEmbedding(round, split, 0, packed(20)))
                lines.append(line("EvaluationEmbedding", round))
    recalled = RowReleases(agreed)
    recalled.recall(lines)
    assert recalled.most >= sent.most
    assert recalled.most <= sent.most + len(attempts)


def test_a_release_beyond_the_policy_is_refused():
    allowed = releases_for(1.0, NOISE)
    assert epsilon_of(mu(NOISE, allowed)) <= 1.0 < epsilon_of(mu(NOISE, allowed + 1))
    accountant = Accountant(NOISE, RowReleases(agreement()), epsilon_max=1.0)
    for _ in range(allowed):
        accountant.release(embedding(0))
    assert accountant.epsilon <= 1.0
    with pytest.raises(PartyError, match=r"policy.epsilon_max is 1, which lets a row leave"):
        accountant.release(embedding(0))
    assert releases_for(1e-9, NOISE) == 0
    assert np.isfinite(Accountant(NOISE, RowReleases(agreement())).facts()["epsilon"])
