"""Which customers two parties have in common."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade import DataError
from colonnade.data.overlap import draw_customers

counts = st.integers(50, 3000)
shares = st.floats(0.01, 1)
seeds = st.integers(0, 2**32 - 1)


@given(counts, shares, seeds)
def test_every_customer_is_in_one_part_of_one_party_and_nobody_is_in_two(count, overlap, seed):
    customers = draw_customers(count, overlap, seed)
    dealt = np.concatenate([*customers.own, customers.elsewhere])
    assert sorted(dealt.tolist()) == list(range(count))


@given(counts, shares, seeds)
def test_the_common_customers_are_so_many_of_the_active_partys_part_by_part(count, overlap, seed):
    customers = draw_customers(count, overlap, seed)
    for own, common in zip(customers.own[:2], customers.common[:2], strict=True):
        assert set(common.tolist()) <= set(own.tolist())
        assert abs(len(common) - overlap * len(own)) <= 0.5
    assert np.array_equal(customers.own.test, customers.common.test)
    for rows in (*customers.own, *customers.common, customers.elsewhere):
        assert (np.diff(rows) > 0).all()


@given(counts, shares, shares, seeds)
def test_a_larger_overlap_has_all_customers_of_a_smaller_one(count, one, other, seed):
    less, more = (draw_customers(count, each, seed) for each in sorted((one, other)))
    assert np.array_equal(less.elsewhere, more.elsewhere)
    for small, large in zip(less.own, more.own, strict=True):
        assert np.array_equal(small, large)
    for small, large in zip(less.common, more.common, strict=True):
        assert set(small.tolist()) <= set(large.tolist())


def test_with_all_in_common_the_partner_lacks_nobody():
    customers = draw_customers(500, 1.0, seed=3)
    for own, common in zip(customers.own, customers.common, strict=True):
        assert np.array_equal(own, common)


def test_a_seed_decides_who_is_where():
    first, again, other = (draw_customers(500, 0.3, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.common.train, again.common.train)
    assert not np.array_equal(first.own.test, other.own.test)


@pytest.mark.parametrize("overlap", [0, -0.1, 1.01, float("nan")])
def test_what_is_no_overlap_is_refused(overlap):
    with pytest.raises(DataError, match="above 0, up to 1"):
        draw_customers(100, overlap, seed=0)
