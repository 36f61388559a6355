"""Which rows are for validation."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.data.splits import set_aside, split_rows
from colonnade.data.vertical import vertical
from colonnade.errors import DataError, JobError
from colonnade.job.records import Train

IDS = pa.array([f"customer-{number}" for number in range(1000)], pa.large_string())


@given(
    st.integers(1, 400),
    st.floats(0, 0.9),
    st.floats(0, 0.9),
    st.integers(-(2**70), 2**70),
    st.booleans(),
)
def test_every_row_is_in_one_split(count, test, validation, seed, named):
    parts = split_rows(count, test, validation, seed, IDS if named else None)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(count))
    assert all(np.array_equal(np.sort(rows), rows) for rows in parts)
    rest = count - len(parts.test)
    if rest:
        least = 1 if validation else 0
        assert len(parts.validation) == max(least, int(rest * validation + 0.5))


def test_without_validation_rows_the_split_is_as_it_was():
    both = split_rows(100, 0.2, 0.0, 3), split_rows(100, 0.2, 0.3, 3)
    assert len(both[0].validation) == 0
    assert np.array_equal(both[0].test, both[1].test)


def test_a_row_is_chosen_by_its_id_and_not_by_its_place():
    """Rows that come or go, and rows in another order, leave the others where they are."""
    rows = np.arange(1000)

    def chosen(ids, seed=0):
        return {ids[i].as_py() for i in set_aside(np.arange(len(ids)), 0.1, seed, ids)[1]}

    first = chosen(IDS)
    assert first == chosen(IDS.take(rows[::-1]))
    assert len(first & chosen(IDS[:950])) >= 90
    assert len(first & chosen(IDS, seed=1)) < 30


@pytest.mark.parametrize("ids", [None, IDS])
def test_the_seed_is_the_key(ids):
    rows = np.arange(1000)
    picks = [set_aside(rows, 0.1, seed, ids)[1] for seed in (0, 1, -5)]
    assert not np.array_equal(picks[0], picks[1]) and not np.array_equal(picks[1], picks[2])
    assert np.array_equal(picks[0], set_aside(rows, 0.1, 0, ids)[1])


def test_a_part_of_test_rows_keeps_its_place():
    parts = split_rows(10, np.array([2, 7]), 0.25, 0)
    assert parts.test.tolist() == [2, 7] and len(parts.validation) == 2


def test_rows_and_labels_stay_together():
    matrix = np.arange(100.0)[:, None] @ np.ones((1, 2))
    data = vertical({"bank": matrix, "telco": matrix * 2}, np.arange(100.0), validation=0.2)
    assert (data.train_count, data.validation_count, data.test_count) == (64, 16, 20)
    for split in ("train", "validation", "test"):
        labels = data.labels.part(split)
        assert np.array_equal(data.features["bank"].part(split)[:, 0], labels)
        assert np.array_equal(data.features["telco"].part(split)[:, 0], labels * 2)


def test_a_share_is_from_0_to_below_1():
    with pytest.raises(DataError, match="validation is 1"):
        vertical({"bank": np.ones((4, 1)), "telco": np.ones((4, 1))}, [0, 1, 0, 1], validation=1)
    with pytest.raises(JobError, match=r"train\.validation is -0\.1: give a share"):
        Train(validation=-0.1)
