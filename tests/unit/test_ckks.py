"""CKKS, beside whole numbers: sums under encryption are exact, and no bytes do harm."""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.cipher import seal
from colonnade.cipher.ckks import MODULUS_BITS, PARTS_MAX, CkksHolder, CkksScheme
from colonnade.cipher.paillier import InvalidCipher
from colonnade.errors import JobError, RequestError
from tests.fuzz_ckks import attempts

few = settings(max_examples=25, deadline=None)
degrees = pytest.mark.parametrize("degree", MODULUS_BITS)


@cache
def holder(degree: int = 2048, bits: int = 32) -> CkksHolder:
    return CkksScheme(degree, bits).generate(os.urandom)


@st.composite
def addends(draw):
    """Rows of numbers of which no sum leaves the range, at its ends more often than not; and known
    ones."""
    bits, parts = draw(st.sampled_from([8, 24, 32])), draw(st.integers(1, 5))
    bound = 2 ** (bits - 1) - 1
    shape = draw(st.sampled_from([(1,), (3, 5), (2, 600), (0, 4)]))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    ends = random.choice([-bound, bound], (parts, *shape))
    between = random.integers(-bound, bound, ends.shape)
    rows = np.where(random.random(ends.shape) < 0.5, ends, between)
    for row in range(1, parts):
        total = rows[:row].sum(axis=0)
        rows[row] = np.clip(rows[row], -bound - total, bound - total)
        rows[row] = np.clip(rows[row], -bound, bound)
    known = random.choice([-bound - 1, bound, 0], shape)
    return bits, rows, known


@few
@given(st.sampled_from(list(MODULUS_BITS)), addends())
def test_sums_are_those_of_whole_numbers(degree, case):
    bits, rows, known = case
    own = holder(degree, bits)
    scheme = CkksScheme(degree, bits)
    adder, shape = scheme.adder(own.public), known.shape
    sent = [own.encrypt(row) for row in rows]
    assert all(cells.shape == scheme.cells(known.size) for cells in sent)
    total = adder.total([adder.received(cells, shape) for cells in sent], known)
    assert total.shape == scheme.cells(known.size)
    for each in (own, scheme.holder(own.secret, os.urandom)):
        assert each.decrypt(total, shape).tolist() == (rows.sum(axis=0) + known).tolist()


@degrees
def test_a_sum_of_64_parts_at_the_ends_of_the_range_is_exact_with_a_wide_margin(degree):
    own, scheme = holder(degree), CkksScheme(degree, 32)
    adder, bound = scheme.adder(own.public), scheme.bound
    one = np.tile([bound, -bound, bound, bound], 256)
    one, other = own.encrypt(one), own.encrypt(-one)
    parts = [adder.received(cells, (1024,)) for cells in (one, other)] * (PARTS_MAX // 2 - 1)
    parts += [adder.received(cells, (1024,)) for cells in (one, own.encrypt(np.zeros(1024, int)))]
    known = np.tile([bound + 1, -bound - 1, bound, 0], 256)
    total = adder.total(parts, known)
    due = np.tile([2 * bound + 1, -2 * bound - 1, 2 * bound, bound], 256)
    assert own.decrypt(total, (1024,)).tolist() == due.tolist()
    (pair,) = scheme.received(total, (1024,))
    found = scheme.ring.decrypt(scheme.ring.key(own._residues), pair, scheme.scale)
    off = np.abs(found[:1024] - due)
    # A quarter is flooding, and a 64th more than four times what was ever measured of the rest.
    assert 0.24 < off.max() < 0.25 + 1 / 64


def test_the_errors_of_parts_are_hidden_under_noise_of_the_adder():
    """The same sum of the same ciphertexts twice: all slots differ, in both of their parts."""
    own, scheme = holder(), CkksScheme(2048, 32)
    adder, values = scheme.adder(own.public), np.arange(1024)
    part = adder.received(own.encrypt(values), (1024,))
    first, second = (adder.total([part], values) for _ in range(2))
    apart = scheme.received(first, (1024,)).astype(object) - scheme.received(second, (1024,))
    assert apart[0, 0].all() and not apart[0, 1].any()
    assert own.decrypt(first, (1024,)).tolist() == own.decrypt(second, (1024,)).tolist()


def test_adding_changes_no_part():
    own, scheme = holder(), CkksScheme(2048, 32)
    adder = scheme.adder(own.public)
    part = adder.received(own.encrypt(np.array([3])), (1,))
    before = part.copy()
    adder.total([part], np.array([4]))
    assert (part == before).all()


def test_the_same_numbers_are_never_the_same_ciphertext():
    own = holder()
    first, second = (own.encrypt(np.zeros(4, int)) for _ in range(2))
    assert (first != second).mean() > 0.9


@pytest.mark.parametrize("security, degree", [("TC128", 2048), ("TC256", 4096)])
def test_the_modulus_is_within_seals_table(security, degree):
    level = getattr(seal.sealapi.SEC_LEVEL_TYPE, security)
    assert MODULUS_BITS[degree] <= seal.sealapi.CoeffModulus.MaxBitCount(degree, level)
    assert CkksScheme(degree, 32).ring.modulus.bit_length() == MODULUS_BITS[degree]


def test_a_modulus_beyond_seals_table_is_refused():
    with pytest.raises(ValueError, match="encryption parameters are not set correctly"):
        seal.Ring(2048, 55)


@pytest.mark.parametrize("bits", [64, 33, 1, 0])
def test_numbers_of_more_bits_are_refused(bits):
    with pytest.raises(JobError, match=f"numbers of {bits} bits: ckks takes 32 at most.*paillier"):
        CkksScheme(4096, bits)


@pytest.mark.parametrize("degree", [0, 1024, 4095, 8192])
def test_another_degree_is_refused(degree):
    with pytest.raises(JobError, match=f"degree {degree}: ckks takes 2048 or 4096"):
        CkksScheme(degree, 32)


def test_what_is_out_of_range_is_refused():
    own, scheme = holder(), CkksScheme(2048, 32)
    adder = scheme.adder(own.public)
    with pytest.raises(OverflowError, match="beyond 2147483647"):
        own.encrypt(np.array([2**31]))
    part = adder.received(own.encrypt(np.array([1])), (1,))
    with pytest.raises(OverflowError, match="beyond 2147483648"):
        adder.total([part], np.array([2**31 + 1]))
    with pytest.raises(OverflowError, match="a sum of 65 ciphertexts: 64 at most"):
        adder.total([part] * 65, np.array([0]))
    most = adder.received(own.encrypt(np.array([2**31 - 1])), (1,))
    with pytest.raises(InvalidCipher, match="beyond the range"):
        own.decrypt(adder.total([most] * 3, np.array([0])), (1,))


def test_ciphertexts_from_a_partner_are_checked():
    own, scheme = holder(), CkksScheme(2048, 32)
    adder, good = scheme.adder(own.public), own.encrypt(np.arange(1100))
    count, width = scheme.cells(1100)
    assert good.shape == (count, width) == (2, 28672)

    def refused(cells: np.ndarray, clause: str, shape: tuple[int, ...] = (1100,)) -> None:
        for read in (adder.received, own.decrypt):
            with pytest.raises(InvalidCipher, match=clause):
                read(cells, shape)

    refused(good[:, :-1], "57342 bytes of ciphertexts where 57344 are due")
    refused(good, "57344 bytes of ciphertexts where 140000000000000 are due", (10**12, 5))
    large = good.copy()
    large[1, -7:] = 255
    refused(large, "a residue is not below the modulus")
    modulus = np.frombuffer(scheme.ring.modulus.to_bytes(7, "little"), np.uint8)
    large[1, -7:] = modulus
    refused(large, "a residue is not below the modulus")
    clear = good.copy()
    clear[1, width // 2 :] = 0
    refused(clear, "can be read without a key")


def test_what_was_not_made_with_this_key_is_refused():
    own, other = holder(), CkksScheme(2048, 32).generate(os.urandom)
    with pytest.raises(InvalidCipher, match="not made with this key"):
        own.decrypt(other.encrypt(np.array([1])), (1,))
    shifted = own.encrypt(np.array([1, 2]))
    with pytest.raises(InvalidCipher, match="not made with this key"):
        own.decrypt(shifted, (1,))


def test_keys_from_a_partner_are_checked():
    own, scheme = holder(), CkksScheme(2048, 32)
    assert (
        len(own.secret) == 7 * 2048 and scheme.holder(own.secret, os.urandom).secret == own.secret
    )
    for content, clause in [
        (own.secret[:-1], "14335 bytes are no key of degree 2048"),
        (b"", "0 bytes are no key"),
        (bytes(7 * 2048), "the key is 0"),
        (b"\xff" * 7 * 2048, "not below the modulus"),
    ]:
        with pytest.raises(InvalidCipher, match=clause):
            scheme.holder(content, os.urandom)
    for content in (b"", own.public[:-1], holder(4096).public, holder(2048, 24).public, own.secret):
        with pytest.raises(InvalidCipher, match="not those of ckks of degree 2048"):
            scheme.adder(content)


def test_mutated_bytes_are_refused_or_read():
    """The short form of `python -m tests.fuzz_ckks`."""
    found = attempts(seed=0, count=200)
    assert sum(found.values()) == 200 and found["refused"] and found["read"]


def test_without_tenseal_whoever_encrypts_is_told_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tenseal", None)
    spec = importlib.util.spec_from_file_location("seal_without", seal.__file__)
    without = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(without)
    with pytest.raises(RequestError, match=r"pip install 'colonnade\[ckks\]', or take paillier"):
        without.Ring(2048, 54)
