"""Paillier's cryptosystem, beside whole numbers: what is computed under encryption is exact."""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.cipher import big
from colonnade.cipher.linear import Linear
from colonnade.cipher.paillier import InvalidCipher, PrivateKey, generate, public_key
from colonnade.cipher.powers import Powers
from colonnade.cipher.slots import Slots, from_fixed, to_fixed
from colonnade.cipher.tensor import decrypt, encrypt, received, size_of
from colonnade.errors import FailedError, JobError, RequestError
from colonnade.protect.secret import Derived

BITS = 2048
few = settings(max_examples=8, deadline=None)


@cache
def key(seed: int = 0) -> PrivateKey:
    return generate(BITS, Derived(seed))


signed = st.integers(-(2**2000), 2**2000)


@few
@given(st.lists(signed, min_size=1, max_size=3), signed, st.integers(-1000, 1000))
def test_sums_and_multiples_are_those_of_whole_numbers(numbers, plain, factor):
    own = key()
    ciphertexts = own.public.encrypt(numbers, os.urandom)
    assert own.decrypt(ciphertexts) == numbers
    total = ciphertexts[0]
    for c in ciphertexts[1:]:
        total = own.public.add(total, c)
    total = own.public.add_plain(own.public.times(total, factor), plain)
    assert own.decrypt(own.public.refresh([total], os.urandom)) == [sum(numbers) * factor + plain]


def test_the_same_number_is_never_the_same_ciphertext():
    own = key()
    assert len(set(own.public.encrypt([7] * 5, os.urandom))) == 5


def test_a_key_is_what_damgard_jurik_and_nielsen_ask_for():
    own = key()
    assert own.public.bits == BITS and own.p % 4 == own.q % 4 == 3
    # h is an n-th power, so that it encrypts 0, and of Jacobi symbol 1 modulo n, as −x² is.
    assert own.decrypt([own.public.h]) == [0]
    assert pow(int(own.public.h), int((own.p - 1) * (own.q - 1)), int(own.public.square)) == 1
    assert generate(BITS, Derived(0)).public == own.public != key(1).public


@given(st.integers(2, 10**9), st.integers(2, 10**9), st.integers(0, 2**32 - 1))
def test_a_table_gives_the_powers(base, modulus, exponent):
    found = Powers(base, modulus, 4)(exponent.to_bytes(4, "little"))
    assert found % modulus == pow(base, exponent, modulus)


@given(st.data(), st.integers(1, 32))
def test_what_is_packed_is_unpacked(data, slot_bytes):
    slots = Slots(BITS, slot_bytes)
    number = st.integers(-slots.limit + 1, slots.limit - 1)
    numbers = data.draw(st.lists(number, max_size=2 * slots.count + 1))
    values = np.array(numbers, dtype=np.int64 if slot_bytes <= 8 else object)
    plaintexts = slots.pack(values)
    assert slots.unpack(plaintexts, len(numbers)).tolist() == numbers
    assert all(abs(m) < 2 ** (BITS - 2) for m in plaintexts)
    for start, m in zip(range(0, len(numbers), slots.count), plaintexts, strict=True):
        whole = numbers[start : start + slots.count]
        assert m == sum(v << 8 * slot_bytes * i for i, v in enumerate(whole))


@pytest.mark.parametrize("slot_bytes", [7, 12])
def test_a_number_too_large_for_a_slot_is_refused(slot_bytes):
    slots = Slots(BITS, slot_bytes)
    for number in (slots.limit, -slots.limit):
        with pytest.raises(OverflowError, match=f"slot of {slot_bytes} bytes"):
            slots.pack(np.array([number], dtype=object if slot_bytes > 8 else np.int64))
    with pytest.raises(FailedError, match="beyond the range"):
        slots.unpack([2 ** (8 * slot_bytes * slots.count)], 1)


@few
@given(
    st.integers(0, 2**32),
    st.sampled_from([(1,), (3, 5), (2, 20), (0, 4)]),
    st.integers(-50, 50),
    st.sampled_from([5, 7, 8, 10]),
)
def test_tensors_under_encryption_are_fixed_point_bit_for_bit(seed, shape, factor, slot_bytes):
    own, random = key(), np.random.default_rng(seed)
    slots, bound = Slots(BITS, slot_bytes), 2**20
    a, b, c = (random.integers(-bound, bound + 1, shape) for _ in range(3))
    one, other = (encrypt(v, own.public, slots, bound, os.urandom) for v in (a, b))
    sent = ((one + other).times(factor).plus(c)).refreshed(os.urandom).to_bytes()
    assert len(sent) == size_of(shape, own.public, slots)
    got = received(sent, shape, own.public, slots, bound * (2 * abs(factor) + 1))
    assert decrypt(got, own).tolist() == ((a + b) * factor + c).tolist()


@few
@given(st.integers(0, 2**32), st.integers(1, 3))
def test_a_matrix_times_ciphertexts_is_the_product(seed, factor_bytes):
    own, random = key(), np.random.default_rng(seed)
    most = 2 ** (8 * factor_bytes - 1)
    rows = random.integers(-1000, 1001, (3, 30))
    factors = random.integers(-most + 1, most, (2, 3))
    under = [encrypt(row, own.public, Slots(BITS, 7), 1000, os.urandom) for row in rows]
    found = Linear(under, factor_bytes).times(factors)
    assert [decrypt(each, own).tolist() for each in found] == (factors @ rows).tolist()
    with pytest.raises(OverflowError, match="a factor does not fit"):
        Linear(under, factor_bytes).times(np.full((1, 3), most))


def test_what_may_leave_its_slots_is_refused():
    own, slots = key(), Slots(BITS, 4)
    one = encrypt(np.array([1]), own.public, slots, 2**30, os.urandom)
    with pytest.raises(OverflowError, match="do not fit into slots of 4 bytes"):
        one + one
    with pytest.raises(OverflowError, match="do not fit"):
        one.times(-2)
    with pytest.raises(OverflowError, match="do not fit"):
        one.plus(np.array([2**30]))
    with pytest.raises(OverflowError, match="beyond 3, the bound"):
        encrypt(np.array([-4]), own.public, slots, 3, os.urandom)


@given(st.floats(-1000, 1000), st.integers(0, 40))
def test_fixed_point_is_the_nearest_multiple(number, fraction):
    fixed = to_fixed(np.array([number]), fraction, 2**50)
    assert abs(from_fixed(fixed, fraction)[0] - number) <= 2.0 ** -(fraction + 1)
    assert to_fixed(from_fixed(fixed, fraction), fraction, 2**50).tolist() == fixed.tolist()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -4.2])
def test_what_has_no_fixed_point_is_refused(number):
    with pytest.raises(FailedError, match="not finite or beyond ±4"):
        to_fixed(np.array([0.0, number]), 2, 16)


def test_ciphertexts_from_a_partner_are_checked():
    own, slots = key(), Slots(BITS, 7)
    good = encrypt(np.arange(40), own.public, slots, 100, os.urandom).to_bytes()
    width = own.public.ciphertext_bytes

    def refused(content: bytes, clause: str, shape: tuple[int, ...] = (40,)) -> None:
        with pytest.raises(InvalidCipher, match=clause):
            received(content, shape, own.public, slots, 100)

    refused(good[:-1], "1023 bytes of ciphertexts where 1024 are due")
    refused(good, "1024 bytes of ciphertexts where 71111111168 are due", (10**9, 5))
    refused(bytes(width) + good[width:], "0 or not below n²")
    refused(b"\xff" * width + good[width:], "0 or not below n²")
    multiple = int(own.p * 12345).to_bytes(width, "big")
    refused(good[:width] + multiple, "a factor in common with n")


def test_keys_from_a_partner_are_checked():
    own = key().public
    sent = own.to_bytes()
    assert public_key(sent, BITS) == own
    n = int(own.n)

    def of(n: int, h: int) -> bytes:
        return n.to_bytes(BITS // 8, "big") + h.to_bytes(BITS // 4, "big")

    prime = int(key().p)
    for content, clause in [
        (sent[:-1], "767 bytes are no key of 2048 bits"),
        (of(n >> 1, 5), "n has 2047 bits"),
        (of((n >> 20 << 20) + 2**19, 5), "no product of two large primes"),
        (of(prime * prime, 5), "no product of two large primes"),
        (of(n, 1), "h is no unit"),
        (of(n, n * n), "h is no unit"),
        (of(n, prime), "h is no unit"),
    ]:
        with pytest.raises(InvalidCipher, match=clause):
            public_key(content, BITS)
    with pytest.raises(InvalidCipher, match="no key of 512 bits"):
        public_key(sent, 512)


@pytest.mark.parametrize("bits", [0, 1024, 2047, 8192, -2048])
def test_a_key_of_another_length_is_refused(bits):
    with pytest.raises(JobError, match=f"a key of {bits} bits: Paillier's takes 2048, 3072 or"):
        generate(bits, os.urandom)


def test_without_gmpy2_whoever_encrypts_is_told_how_to_get_it(monkeypatch):
    """And whoever does not can import everything all the same."""
    monkeypatch.setitem(sys.modules, "gmpy2", None)
    spec = importlib.util.spec_from_file_location("big_without", big.__file__)
    without = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(without)
    with pytest.raises(RequestError, match=r"pip install 'colonnade\[he\]'"):
        without.gmpy2.mpz(1)
