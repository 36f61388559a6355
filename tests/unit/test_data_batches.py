import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.batches import BatchPlan, Permutation, held_out, splitmix64
from colonnade.errors import DataError

keys = st.integers(min_value=0, max_value=2**64 - 1)


@given(rows=st.integers(1, 3000), key=keys)
def test_a_permutation_takes_every_row_once(rows, key):
    shuffle = Permutation(rows, key)
    order = shuffle(np.arange(rows))
    assert np.array_equal(np.sort(order), np.arange(rows))
    assert np.array_equal(Permutation(rows, key)(np.arange(rows)), order)


@given(
    rows=st.sampled_from([10**9, 2**29 + 1, 2**30, 2**62]),
    key=keys,
    starts=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=50),
)
def test_a_permutation_of_very_many_rows(rows, key, starts):
    positions = np.unique([min(int(start * rows), rows - 1) for start in starts])
    shuffle = Permutation(rows, key)
    order = shuffle(positions)
    assert order.min() >= 0
    assert order.max() < rows
    assert len(np.unique(order)) == len(positions)


def test_a_permutation_depends_on_its_key_and_looks_random():
    positions = np.arange(100_000)
    first, second = (Permutation(100_000, key)(positions) for key in (1, 2))
    assert (first == second).mean() < 0.001
    assert abs(np.corrcoef(positions, first)[0, 1]) < 0.02
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02


def test_a_permutation_is_the_same_on_every_machine():
    # Written down once: parties with other versions of numpy must agree with these numbers.
    assert splitmix64(1) == 0x910A2DEC89025CC1
    assert Permutation(10, 42)(np.arange(10)).tolist() == [0, 7, 5, 2, 4, 9, 6, 3, 1, 8]
    assert Permutation(10**9, 42)(np.arange(4)).tolist() == [
        785220133,
        318036127,
        76677277,
        781450827,
    ]


def test_one_row_stays_where_it_is():
    assert Permutation(1, 5)(np.zeros(3, dtype=int)).tolist() == [0, 0, 0]


def test_positions_keep_their_shape():
    assert Permutation(100, 5)(np.arange(12).reshape(3, 4)).shape == (3, 4)
    assert Permutation(100, 5)(np.array([], dtype=np.int64)).shape == (0,)


@given(
    rows=st.integers(1, 500),
    size=st.integers(1, 500),
    seed=st.integers(0, 2**63),
    shuffle=st.sampled_from(["epoch", "once", "never"]),
    epoch=st.integers(0, 5),
)
def test_the_batches_of_an_epoch_are_the_rows(rows, size, seed, shuffle, epoch):
    size = min(size, rows)
    plan = BatchPlan(rows, size, seed, shuffle)
    rounds = range(epoch * plan.per_epoch, (epoch + 1) * plan.per_epoch)
    batches = [plan.batch(round) for round in rounds]
    assert all(len(batch) == size for batch in batches[:-1])
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(rows))


@given(rows=st.integers(1, 500), size=st.integers(1, 500))
def test_drop_last_leaves_only_full_batches(rows, size):
    size = min(size, rows)
    plan = BatchPlan(rows, size, 3, drop_last=True)
    batches = [plan.batch(round) for round in range(plan.per_epoch)]
    assert len(batches) == rows // size
    assert all(len(batch) == size for batch in batches)
    assert len(np.unique(np.concatenate(batches))) == size * len(batches)


def test_shuffle_says_how_often_the_order_changes():
    def epochs(shuffle):
        plan = BatchPlan(1000, 1000, 0, shuffle)
        return plan.batch(0), plan.batch(1)

    first, second = epochs("epoch")
    assert not np.array_equal(first, second)
    first, second = epochs("once")
    assert np.array_equal(first, second)
    assert not np.array_equal(first, np.arange(1000))
    first, second = epochs("never")
    assert np.array_equal(first, np.arange(1000))
    assert np.array_equal(second, np.arange(1000))


def test_seeds_give_different_orders():
    first, second = (BatchPlan(1000, 1000, seed).batch(0) for seed in (0, 1))
    assert not np.array_equal(first, second)


@given(rounds=st.lists(st.integers(0, 2000), min_size=1, max_size=30))
def test_a_batch_does_not_depend_on_what_was_asked_before(rounds):
    used = BatchPlan(200_000, 256, 9)
    for round in rounds:
        assert np.array_equal(used.batch(round), BatchPlan(200_000, 256, 9).batch(round))


def test_a_plan_of_very_many_rows_keeps_little():
    plan = BatchPlan(10**9, 256, 0)
    for round in range(0, 3_000_000, 500_000):
        assert plan.batch(round).max() < 10**9
    assert sum(rows.size for _, rows in plan._recent) <= 65_536


def test_neighbouring_batches_share_one_computation():
    plan = BatchPlan(10**6, 256, 0)
    assert np.shares_memory(plan.batch(0), plan.batch(0))
    first = plan.batch(0).base
    plan.batch(plan._per_chunk)
    assert plan.batch(1).base is first


def test_batches_larger_than_the_rows_are_refused():
    with pytest.raises(DataError, match="batch_size is 5000 but there are only 1797 training rows"):
        BatchPlan(1797, 5000, 0)


@given(rows=st.integers(1, 2000), share=st.floats(0, 0.99), seed=st.integers(0, 2**32))
def test_held_out_rows_and_training_rows_are_all_rows(rows, share, seed):
    train, test = held_out(rows, share, seed)
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(rows))
    assert np.array_equal(train, np.sort(train))
    assert np.array_equal(test, np.sort(test))
    assert abs(len(test) - rows * share) <= 0.5
    assert np.array_equal(held_out(rows, share, seed)[1], test)


def test_held_out_rows_change_with_the_seed():
    assert not np.array_equal(held_out(1000, 0.2, 0)[1], held_out(1000, 0.2, 1)[1])
