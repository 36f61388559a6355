"""A packed list is a list."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.learn import columns
from colonnade.learn.columns import Columns
from colonnade.packed import LongList
from colonnade.record.tree import decode, encode

INTEGERS = st.integers(-(2**63), 2**63 - 1)
RECORDS = st.tuples(
    INTEGERS, st.sampled_from(["send", "fresh", "local"]), st.floats(allow_nan=False)
)


@given(st.lists(RECORDS), st.data())
def test_it_does_what_a_list_does(records, data):
    packed = LongList("qsd", records)
    assert packed == records and list(packed) == records and len(packed) == len(records)
    assert packed != [*records, (0, "send", 0.0)]
    if records:
        place = data.draw(st.integers(-len(records), len(records) - 1))
        assert packed[place] == records[place] and records[place] in packed
        packed[place] = records[place] = data.draw(RECORDS)
        assert packed == records
    start = data.draw(st.integers(0, 5))
    assert packed.column(1, start) == [word for _, word, _ in records[start:]]


@given(st.lists(RECORDS), RECORDS)
def test_it_comes_back_from_a_checkpoint_and_goes_on(records, more):
    packed = LongList("qsd", records)
    again = LongList.of_columns("qsd", decode(*encode(packed.columns())))
    packed.append(more)
    again.append(more)
    assert packed == again == [*records, more]


def test_a_saved_list_does_not_change_with_the_list():
    packed = LongList("q", [(1,)])
    saved = packed.columns()
    packed[0] = (2,)
    assert LongList.of_columns("q", saved) == [(1,)]


@given(st.lists(st.integers(0, 9), min_size=1), st.lists(st.integers(0, 9), min_size=1))
def test_a_batch_is_the_same_whatever_was_foreseen(foreseen, rows):
    features = torch.arange(30.0).view(10, 3)
    one = Columns(features)
    one.prefetch(np.array(foreseen))
    for wanted in (rows, foreseen, rows):
        assert torch.equal(one.batch(np.array(wanted)), features[wanted])


def test_a_batch_that_was_foreseen_is_there_and_a_large_one_is_not(monkeypatch):
    features = torch.arange(30.0).view(10, 3)
    one, rows = Columns(features), np.array([4, 2])
    one.prefetch(rows)
    gathered = features[rows].clone()
    features.zero_()
    assert torch.equal(one.batch(rows), gathered) and not one.batch(rows).any()
    monkeypatch.setattr(columns, "AHEAD_BYTES_MAX", 23)
    one.prefetch(rows)
    features.fill_(1)
    assert one.batch(rows).all()
