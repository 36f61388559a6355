"""How often rows have left, by messages and by the ledger, and what that costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.errors import PartyError
from colonnade.job import load
from colonnade.learn.agreement import Agreement
from colonnade.protect.accountant import epsilon_of, mu, spent
from colonnade.protect.embedding import gauss
from colonnade.record.chain import Line
from colonnade.run.accounting import Accountant, RowReleases, planned, releases_for
from colonnade.wire.messages import Buffer, Embedding, EvaluationEmbedding, Packed, Snapshot

NOISE = gauss(1, 20)
ROWS = {"train": 100, "validation": 20, "test": 20}


def agreement(*sets):
    job = load("digits", ["train.batch_size=30", "train.epochs=4", *sets])
    return Agreement.of(job, ROWS, {"clinic": 4, "lab": 4, "insurer": 4})


def packed(rows):
    return Packed("plain", "float32", (rows, 1), Buffer(memoryview(bytes(4 * rows))))


def embedding(round):
    return Embedding(round, packed(30))


def line(kind, round, peer="clinic"):
    return Line(n=1, at=0, hash="", way="sent", peer=peer, kind=kind, round=round)


SNAPSHOTS = ("method.exchange=snapshot", "train.labels=shared")
PASSIVES = ("lab", "insurer")


def snapshot(round, own, peer):
    others = tuple(name for name in ("clinic", *PASSIVES) if name != peer)
    shown = {name: packed(30) for name in PASSIVES} | {"clinic": own}
    return Snapshot(round, others, tuple(shown[name] for name in others), (), 0)


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


def test_what_a_snapshot_shows_of_the_active_party_is_one_release_whoever_is_shown_it():
    rows = RowReleases(agreement(*SNAPSHOTS), "clinic")
    for round in (0, 1):
        own = packed(30)
        for peer in PASSIVES:
            rows.count(snapshot(round, own, peer))
    assert rows.most == 1
    # The parties have begun again: other noise, though nobody has seen both.
    rows.count(snapshot(1, packed(30), "lab"))
    assert rows.most == 2


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.sets(st.sampled_from(PASSIVES),
                                                              min_size=1)), max_size=6),
                max_size=5))  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_the_ledger_never_counts_less_than_what_snapshots_showed(attempts):
    """Of each attempt the rounds, and which parties got a snapshot before it broke off."""
    agreed = agreement(*SNAPSHOTS)
    sent, lines = RowReleases(agreed, "clinic"), []
    for attempt in attempts:
        lines.append(Line(n=1, at=0, hash="", note="clinic starts"))
        for round, peers in dict(attempt).items():
            own = packed(30)
            for peer in sorted(peers):
                sent.count(snapshot(round, own, peer))
                lines.append(line("Snapshot", round, peer))
    recalled = RowReleases(agreed, "clinic")
    recalled.recall(lines)
    assert recalled.most == sent.most
    # Without the notes a party that is shown a round again tells as much as can be told.
    bare = RowReleases(agreed, "clinic")
    bare.recall([each for each in lines if each.note is None])
    assert bare.most <= sent.most


def test_what_an_earlier_run_has_spent_leaves_less():
    """Also where that had other noise: the squares add up."""
    first = spent(gauss(1, 30), 3)
    allowed = releases_for(1.0, NOISE, before=first)
    assert allowed < releases_for(1.0, NOISE)
    accountant = Accountant(NOISE, RowReleases(agreement()), epsilon_max=1.0, before=first)
    for _ in range(allowed):
        accountant.release(embedding(0))
    assert accountant.epsilon <= 1.0
    assert accountant.spent.mu == pytest.approx((first + spent(NOISE, allowed)) ** 0.5)
    with pytest.raises(PartyError, match=r"policy.epsilon_max is 1, which lets a row leave"):
        accountant.release(embedding(0))
    unbounded = Accountant(NOISE, RowReleases(agreement()), before=float("inf"))
    assert unbounded.spent is None and unbounded.facts()["epsilon"] is None


def test_a_result_that_is_kept_hears_of_more_before_it_leaves():
    told = []
    accountant = Accountant(NOISE, rows := RowReleases(agreement()))
    for round in (0, 1):
        accountant.release(embedding(round))
    accountant.tell = lambda: told.append(rows.most)
    accountant.release(embedding(2))
    assert not told, "no row has left more often than one did before"
    accountant.release(embedding(1))
    assert told == [2]


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
