"""Packed whole numbers: exact, dense, and the same for every width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.compress.base import Key
from colonnade.compress.bits import code_type, pack, packed_bytes, unpack
from colonnade.compress.dither import Dither, dither_key


@given(bits=st.integers(1, 32), count=st.integers(0, 300), seed=st.integers(0, 2**32 - 1))
def test_codes_come_back_in_the_bytes_promised(bits, count, seed):
    codes = np.random.default_rng(seed).integers(0, 2**bits, count).astype(code_type(bits))
    data = pack(codes, bits)
    assert (data.dtype, data.size) == (np.uint8, packed_bytes(count, bits))
    assert data.flags.c_contiguous
    read = unpack(data, count, bits)
    assert read.dtype == code_type(bits)
    assert np.array_equal(read, codes)


@pytest.mark.parametrize("bits", range(1, 33))
def test_the_largest_and_the_smallest_codes_do_not_touch_their_neighbours(bits):
    codes = np.zeros(131, code_type(bits))
    codes[::2] = 2**bits - 1
    assert np.array_equal(unpack(pack(codes, bits), 131, bits), codes)


@given(bits=st.integers(1, 16), count=st.integers(0, 10_000))
def test_packing_is_dense(bits, count):
    assert bits * count / 8 <= packed_bytes(count, bits) < bits * count / 8 + bits


def test_dither_depends_on_everything_that_names_a_message():
    keys = {
        dither_key(key, round)
        for round in (0, 1)
        for key in (
            Key(0, "a", "embedding", "b"),
            Key(1, "a", "embedding", "b"),
            Key(0, "c", "embedding", "b"),
            Key(0, "a", "gradient", "b"),
            Key(0, "a", "embedding", "d"),
        )
    }
    assert len(keys) == 10
    assert all(0 <= key < 2**64 for key in keys)


def test_the_dither_stream_is_fixed():
    assert dither_key(Key(0, "a", "embedding", "b"), 1) == 0xBD63C5D8B69E8783
    assert Dither(7).take(5).tolist() == [24271, 64080, 29299, 2874, 47803]


def test_dither_does_not_depend_on_how_it_is_taken():
    whole, pieces = Dither(9), Dither(9)
    assert whole.take(22).tolist() == pieces.take(16).tolist() + pieces.take(6).tolist()
