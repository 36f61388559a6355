"""The group, the oblivious function and the garbled table beneath an alignment."""

from __future__ import annotations

import hashlib
import os
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.align.garbled import Shape, garble, look_up
from colonnade.align.group import (
    ORDER,
    InvalidPoint,
    batch,
    from_hashes,
    inverses,
    multiply,
    scalars_from,
)
from colonnade.align.oprf import blind, derive_key, evaluate_own, finalize, unblind
from colonnade.align.work import MARK, MASK, PREDICTION_TAG, TAG, zero_shares

# RFC 9497, appendix A.1.1: OPRF(ristretto255, SHA-512), mode OPRF.
SEED, INFO = "a3" * 32, "74657374206b6579"
KEY = "5ebcea5ee37023ccb9fc2d2019f9d7737be85591ae8652ffa9ef0f4d37063b0e"
BLIND = "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706"
VECTORS = {
    "00": (
        "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c",
        "7ec6578ae5120958eb2db1745758ff379e77cb64fe77b0b2d8cc917ea0869c7e",
        "527759c3d9366f277d8c6020418d96bb393ba2afb20ff90df23fb7708264e2f3"
        "ab9135e3bd69955851de4b1f9fe8a0973396719b7912ba9ee8aa7d0b5e24bcf6",
    ),
    "5a" * 17: (
        "da27ef466870f5f15296299850aa088629945a17d1f5b7f5ff043f76b3c06418",
        "b4cbf5a4f1eeda5a63ce7b77c7d23f461db3fcab0dd28e4e17cecb5c90d02c25",
        "f4a74c9c592497375e796aa837e907b1a045d34306a749db9f34221f7e750cb4"
        "f2a6413a6bf6fa5e19ba6348eb673934a722a7ede2e7621306d18951e7cf2c73",
    ),
}


@pytest.mark.parametrize("given_input", VECTORS)
def test_the_vectors_of_rfc_9497_pass(given_input):
    x = bytes.fromhex(given_input)
    shown, answered, output = VECTORS[given_input]
    key = derive_key(bytes.fromhex(SEED), bytes.fromhex(INFO))
    blinds = batch(bytes.fromhex(BLIND))
    assert key.tobytes().hex() == KEY
    points = blind([x], blinds)
    assert points.tobytes().hex() == shown
    evaluated = multiply(points, key)
    assert evaluated.tobytes().hex() == answered
    assert finalize([x], unblind(evaluated, blinds)).tobytes().hex() == output
    assert evaluate_own([x], key).tobytes().hex() == output


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=5), st.binary(min_size=32, max_size=32))
def test_blinds_fall_out_and_batches_are_as_good_as_one_at_a_time(inputs, secret):
    key, blinds = derive_key(secret, b""), scalars_from(secret, 3, len(inputs))
    whole = finalize(inputs, unblind(multiply(blind(inputs, blinds), key), blinds))
    assert whole.shape == (len(inputs), 64)
    for number, x in enumerate(inputs):
        assert (whole[number] == evaluate_own([x], key)[0]).all()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, ORDER - 1), min_size=1, max_size=6))
def test_inverses_are_inverse(numbers):
    scalars = batch(b"".join(number.to_bytes(32, "little") for number in numbers))
    found = [int.from_bytes(row.tobytes(), "little") for row in inverses(scalars)]
    products = [one * other % ORDER for one, other in zip(numbers, found, strict=True)]
    assert products == [1] * len(numbers)


POINT = from_hashes(batch(hashlib.sha512(b"x").digest(), 64))


def changed(at: int, bits: int) -> bytes:
    bare = bytearray(POINT.tobytes())
    bare[at] ^= bits
    return bytes(bare)


@pytest.mark.parametrize(
    "encoding",
    [
        changed(31, 0x80),  # libsodium would take this one for the point without the bit
        bytes(32),  # the identity
        b"\xff" * 32,
        (2**255 - 19).to_bytes(32, "little"),  # zero, written in another way
        (2**255 - 18).to_bytes(32, "little"),
        changed(0, 1),  # negative, or no point
    ],
    ids=["top bit", "identity", "all ones", "p", "p + 1", "negative"],
)
def test_bytes_that_are_no_canonical_point_are_refused(encoding):
    points = np.concatenate([POINT, batch(encoding)])
    with pytest.raises(InvalidPoint):
        multiply(points, scalars_from(bytes(32), 0, 1))


def test_the_parts_of_an_output_do_not_overlap():
    covered = [at for part in (MASK, TAG, PREDICTION_TAG, MARK) for at in range(64)[part]]
    assert sorted(covered) == list(range(64))


def words(count: int, seed: int):
    drawn = random.Random(seed).randbytes(16 * count)
    return np.frombuffer(drawn, dtype=np.uint64).reshape(-1, 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 3000), st.integers(0, 10**6))
def test_a_table_gives_every_key_its_value_and_every_other_something_random(count, seed):
    marks, values, others = words(count, seed), words(count, seed + 1), words(50, seed + 2)
    third = Shape.of(count).third
    table, attempt = garble(marks, values, third, b"secret")
    assert table.shape == (3 * third, 2)
    assert (look_up(table, marks, attempt) == values).all()
    strange = look_up(table, others, attempt)
    assert len(np.unique(strange, axis=0)) == len(others) and strange.all()
    again, _ = garble(marks, values, third, b"secret")
    assert (again == table).all(), "another filling would give the keys away"


def test_a_table_looks_the_same_whatever_it_holds():
    """No slot is zero or repeated, and half of all bits are set, with few keys as with many."""
    for count in (0, 1, 4000):
        marks, values = words(count, 1), words(count, 2)
        table, _ = garble(marks, values, Shape.of(4000).third, os.urandom(16))
        bits = np.unpackbits(table.view(np.uint8))
        assert len(np.unique(table)) == table.size
        assert abs(bits.mean() - 0.5) < 6 * 0.5 / np.sqrt(bits.size)


def test_tables_are_laid_out_by_the_size_alone():
    assert Shape.of(65_536).buckets == 1 and Shape.of(65_537).buckets == 2
    large = Shape.of(10**6)
    assert large.buckets * large.table_bytes <= 21.5 * 10**6
    assert large.capacity > 10**6 / large.buckets + 1900


def test_shares_of_all_followers_add_up_to_nothing_and_fewer_to_noise():
    ids = [bytes([number]) * 16 for number in range(20)]
    pairs = {frozenset(pair): os.urandom(32) for pair in ("ab", "ac", "bc")}
    shares = {
        name: zero_shares(ids, [seed for pair, seed in pairs.items() if name in pair])
        for name in "abc"
    }
    assert not (shares["a"] ^ shares["b"] ^ shares["c"]).any()
    assert (shares["a"] ^ shares["b"]).all() and shares["a"].all()
