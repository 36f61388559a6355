"""Top-k sparsification and rounding to half precision."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.compress import Key, Occasion, Plain, decode, half, plain, topk
from colonnade.errors import PartyError, RequestError

KEY = Key(0, "partner", "embedding", "bank")


def crossed(encoding, tensor, importance=None):
    return decode(encoding.encoder(KEY).encode(tensor, Occasion(importance=importance)))


@given(
    rows=st.integers(1, 20),
    width=st.integers(1, 70),
    keep=st.one_of(st.integers(1, 80), st.floats(0.01, 1.0)),
    shared=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16]),
    levels=st.sampled_from([None, 2, 5]),
    size=st.sampled_from([1e-42, 1.0, 1e30]),
    seed=st.integers(0, 10**6),
)
def test_what_is_kept_is_exact_and_what_is_lost_is_small(
    rows, width, keep, shared, dtype, levels, size, seed
):
    tensor = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    if levels:
        tensor = (tensor.abs() * levels).round() / levels  # many ties
    tensor = (tensor * (1.0 if dtype == torch.float16 else size)).to(dtype)
    encoding = topk(keep, shared=shared)
    read = crossed(encoding, tensor)
    kept = width if encoding == plain() else encoding.count(width)
    assert ((read == tensor) | (read == 0)).all()
    # By the size of the tensor: a square of 1e30 or of 1e-42 has no place in float32.
    unit = tensor.double().abs().max().clamp_min(1e-300)
    lost = ((read.double() - tensor.double()) / unit).square()
    whole = (tensor.double() / unit).square()
    share = (1 - kept / width) * (1 + 1e-5)
    if shared:
        assert lost.sum() <= share * whole.sum() + 1e-9
        assert ((read != 0).any(0).sum()) <= kept
    else:
        assert (lost.sum(1) <= share * whole.sum(1) + 1e-12).all()
        smallest_kept = tensor.abs().sort(dim=1, descending=True).values[:, kept - 1 : kept]
        assert torch.equal(read[tensor.abs() > smallest_kept], tensor[tensor.abs() > smallest_kept])
        assert ((read != 0).sum(1) <= kept).all()


def test_ties_go_to_the_first_columns():
    tensor = torch.tensor([[1.0, -1.0, 1.0, 1.0], [0.0, 2.0, 0.0, 0.0], [4.0, 3.0, 2.0, 1.0]])
    read = crossed(topk(2), tensor)
    assert read.tolist() == [[1.0, -1.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], [4.0, 3.0, 0.0, 0.0]]


def test_keeping_everything_is_plain():
    tensor = torch.randn(4, 6)
    assert topk(1.0) == plain()
    for keep in (6, 100, 0.99):
        packed = topk(keep).encoder(KEY).encode(tensor)
        assert packed == plain().encode(tensor)


@pytest.mark.parametrize(
    ("keep", "width", "count"),
    [(0.7, 10, 7), (0.25, 256, 64), (0.001, 10, 1), (3, 2, 2), (1, 9, 1), (2 / 32, 16, 1)],
)
def test_a_share_is_rounded_up(keep, width, count):
    assert topk(keep).count(width) == count


def test_importance_chooses_one_set_for_the_batch_and_nothing_before_it_is_known():
    tensor = torch.tensor([[9.0, 1.0, 5.0], [8.0, 2.0, 7.0]])
    encoding = topk(2, by="importance")
    assert encoding == topk(2, by="importance", shared=True)
    assert encoding.encoder(KEY).encode(tensor) == plain().encode(tensor)
    read = crossed(encoding, tensor, torch.tensor([0.1, -3.0, 0.5]))
    assert read.tolist() == [[0.0, 1.0, 5.0], [0.0, 2.0, 7.0]]


def test_importance_of_another_width_is_refused():
    with pytest.raises(PartyError, match="has 3 columns, and its importance"):
        crossed(topk(1, by="importance"), torch.ones(2, 3), torch.ones(4))


def test_column_numbers_are_counted():
    tensor = torch.randn(64, 1000)
    each = topk(100).encoder(KEY).encode(tensor).data.view.nbytes
    assert each == 64 * 100 * 4 + 64 * 100 * 10 // 8
    assert topk(100, shared=True).encoder(KEY).encode(tensor).data.view.nbytes == 64 * 400 + 126


@pytest.mark.parametrize("keep", [0, -1, 0.0, 1.5, float("nan"), True, "3"])
def test_an_impossible_share_is_refused(keep):
    with pytest.raises(RequestError, match="topk cannot keep"):
        topk(keep)


def test_an_unknown_order_is_refused():
    with pytest.raises(RequestError, match="did you mean 'magnitude'"):
        topk(2, by="magnitudes")


def test_half_is_the_types_own_rounding():
    tensor = torch.randn(5, 7)
    assert torch.equal(crossed(half(), tensor), tensor.half().float())
    assert torch.equal(crossed(half("bfloat16"), tensor), tensor.bfloat16().float())
    short = tensor.bfloat16()
    assert torch.equal(crossed(half(), short), short)
    assert isinstance(plain(), Plain)


def test_half_refuses_what_it_cannot_hold():
    with pytest.raises(PartyError, match=r"7e\+04, over what float16 can hold: use half"):
        crossed(half(), torch.tensor([7e4, 1.0]))
    assert crossed(half("bfloat16"), torch.tensor([65536.0])).item() == 65536.0
    with pytest.raises(RequestError, match="did you mean 'float16'"):
        half("float61")
