"""One body of checks that every tensor encoding must pass."""

from __future__ import annotations

import pytest
import torch

from colonnade.compress import decode, plain
from colonnade.compress.base import DECODERS
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Embedding

ENCODINGS = {"plain": plain()}
each_encoding = pytest.mark.parametrize("name", ENCODINGS)


def crossed(name, tensor):
    """What a receiver that knows nothing but the frame reads."""
    frame = Codec().encode(Embedding(0, ENCODINGS[name].encode(tensor)))
    return decode(Codec().decode(frame).tensor)


@each_encoding
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(8, 4), (1, 1), (3, 7)])
def test_shape_and_type_survive(name, dtype, shape):
    tensor = torch.randn(shape, dtype=dtype)
    read = crossed(name, tensor)
    assert (read.shape, read.dtype) == (tensor.shape, tensor.dtype)
    assert torch.isfinite(read).all()


@each_encoding
def test_it_repeats_bit_for_bit(name):
    tensor = torch.randn(16, 4)
    assert torch.equal(crossed(name, tensor), crossed(name, tensor))


@each_encoding
def test_what_is_read_can_be_trained_on(name):
    read = crossed(name, torch.randn(4, 2)).requires_grad_()
    (read * 2).sum().backward()
    assert torch.equal(read.grad, torch.full((4, 2), 2.0))


@each_encoding
def test_its_tag_has_a_decoder(name):
    assert ENCODINGS[name].encode(torch.ones(2, 2)).codec in DECODERS


def test_plain_is_exact_for_every_value():
    values = torch.tensor([[0.0, -0.0, float("inf")], [float("nan"), 1e-45, 3.4e38]])
    read = crossed("plain", values)
    assert torch.equal(values.view(torch.int32), read.view(torch.int32))
