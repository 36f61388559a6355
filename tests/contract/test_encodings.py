"""One body of checks that every tensor encoding must pass."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.compress import DECODERS, Key, Occasion, decode, describe
from colonnade.compress import parse as parse_text
from colonnade.errors import PartyError, WireError
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Buffer, Embedding

KEY = Key(seed=3, sender="partner", role="embedding", receiver="bank")
TEXTS = (
    "plain",
    "half",
    "half:bfloat16",
    "scalar:1",
    "scalar:3:minmax",
    "scalar:4:dither",
    "scalar:8:minmax:dither",
    "scalar:11",
    "scalar:16:minmax:dither",
    "lattice:1",
    "lattice:2:minmax",
    "lattice:3:dither",
    "lattice:4",
    "lattice:8:minmax:dither",
    "topk:1",
    "topk:0.5",
    "topk:0.25:shared",
    "topk:2:importance",
    "ef+scalar:2",
    "ef+topk:0.25",
    "diminishing+lattice:2",
    "diminishing+scalar:2:dither",
    "steps:0=topk:0.5,1=scalar:3",
    "tests.outside:rotated:3",
    "ef+tests.outside:rotated:by=1",
)
LOSSY = [text for text in TEXTS if text != "plain"]
SHAPES = [(8, 4), (1, 1), (3, 7), (2, 3, 5), (6,), (), (0,), (0, 4), (4, 0), (1, 257)]
each_encoding = pytest.mark.parametrize("text", TEXTS)


def parse(text):
    return parse_text(text, outside=True)


def packed(text, tensor, round=0):
    width = tensor.shape[-1] if tensor.dim() else 1
    encoder = parse(text).encoder(KEY)
    return encoder.encode(tensor, Occasion(round, importance=torch.arange(float(width))))


def crossed(text, tensor, round=0):
    """What a receiver that knows nothing but the frame reads."""
    frame = Codec().encode(Embedding(round, packed(text, tensor, round)))
    return decode(Codec().decode(frame).tensor)


def example(shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@each_encoding
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shape_and_type_survive(text, dtype, shape):
    tensor = example(shape, dtype)
    read = crossed(text, tensor)
    assert (read.shape, read.dtype) == (tensor.shape, tensor.dtype)
    assert torch.isfinite(read).all()


@each_encoding
def test_it_repeats_bit_for_bit(text):
    tensor = example((16, 4))
    assert torch.equal(crossed(text, tensor, 5), crossed(text, tensor, 5))


@each_encoding
def test_what_is_read_can_be_trained_on(text):
    read = crossed(text, example((4, 2))).requires_grad_()
    (read * 2).sum().backward()
    assert torch.equal(read.grad, torch.full((4, 2), 2.0))


@each_encoding
def test_the_tensor_itself_is_left_alone_and_may_require_gradients(text):
    tensor = example((9, 5)).requires_grad_()
    before = tensor.detach().clone()
    read = crossed(text, tensor)
    assert torch.equal(tensor, before)
    assert not read.requires_grad


@each_encoding
def test_a_part_of_a_larger_tensor_is_read_as_its_copy(text):
    part = example((8, 12))[::2, 1::3]
    assert torch.equal(crossed(text, part), crossed(text, part.clone()))


@each_encoding
def test_its_text_names_it(text):
    assert parse(describe(parse(text))) == parse(text)


@each_encoding
def test_its_tag_has_a_decoder(text):
    assert packed(text, example((2, 2))).codec in DECODERS


@each_encoding
@pytest.mark.parametrize("value", [0.0, -2.5, 1e-45, -3e4])
def test_one_value_everywhere_is_read_as_it_is(text, value):
    if "topk" in text:
        return
    tensor = torch.full((6, 3), value)
    read = crossed(text, tensor)
    tolerance = 2.0**-9 * abs(value) + 1e-7 if text.startswith("half") else 0.0
    assert (read - tensor).abs().max() <= tolerance


@pytest.mark.parametrize("text", [text for text in TEXTS if not text.startswith("half")])
@pytest.mark.parametrize("scale", [1e-45, 1e-38, 1e-30, 1e30, 1e38])
def test_very_small_and_very_large_tensors_stay_finite_and_in_proportion(text, scale):
    tensor = example((32, 8)).clamp(-3, 3) * scale
    read = crossed(text, tensor)
    assert torch.isfinite(read).all()
    assert read.abs().max() <= 4 * tensor.abs().max()


@pytest.mark.parametrize("text", LOSSY)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_refused_by_role(text, bad):
    tensor = example((4, 4))
    tensor[2, 1] = bad
    with pytest.raises(PartyError, match="embedding of 'partner' has NaN or infinite"):
        packed(text, tensor)


@pytest.mark.parametrize("text", LOSSY)
def test_whole_numbers_are_refused(text):
    with pytest.raises(PartyError, match="only floating-point"):
        packed(text, torch.arange(4).view(2, 2))


@pytest.mark.parametrize("text", LOSSY)
def test_records_that_do_not_hold_together_are_refused(text):
    whole = packed(text, example((8, 6)))
    view = whole.data.view
    wrong = [
        {"data": Buffer(view[:-1])},
        {"data": Buffer(memoryview(bytes(view) + b"\0"))},
        {"data": Buffer(view[:0])},
        {"shape": (8, 16)},
        {"shape": (2**40, 2**20)},
        {"dtype": "int64"},
        {"details": whole.details[:-1]},
        {"details": whole.details + b"\0"},
        {"details": b""},
        {"details": b"\xff" * len(whole.details)},
    ]
    for change in wrong:
        with pytest.raises(WireError):
            decode(msgspec.structs.replace(whole, **change))


@given(
    codec=st.sampled_from(["half", "scalar", "lattice", "topk"]),
    dtype=st.sampled_from(["float32", "float64", "float16", "bfloat16", "uint8"]),
    shape=st.lists(st.integers(0, 5), max_size=3).map(tuple),
    details=st.binary(max_size=40),
    data=st.binary(max_size=60),
)
def test_any_bytes_are_read_or_refused(codec, dtype, shape, details, data):
    plain = packed("plain", torch.ones(1))
    change = {"codec": codec, "dtype": dtype, "shape": shape, "details": details}
    record = msgspec.structs.replace(plain, data=Buffer(memoryview(data)), **change)
    try:
        assert decode(record).shape == shape
    except WireError as error:
        assert str(error)


@given(
    text=st.sampled_from(["scalar:3", "scalar:4:dither", "lattice:3", "topk:2", "topk:2:shared"]),
    place=st.integers(0, 200),
    byte=st.integers(0, 255),
)
def test_a_changed_byte_is_read_or_refused(text, place, byte):
    whole = packed(text, example((5, 6)))
    bytes_ = bytearray(whole.details + bytes(whole.data.view))
    bytes_[place % len(bytes_)] = byte
    cut = len(whole.details)
    data = Buffer(memoryview(bytes_)[cut:])
    record = msgspec.structs.replace(whole, details=bytes(bytes_[:cut]), data=data)
    try:
        assert decode(record).shape == (5, 6)
    except WireError as error:
        assert str(error)


SCRIPT = """
import hashlib, sys
import torch
from colonnade.compress import Key, Occasion, parse
key = Key(seed=3, sender="partner", role="embedding", receiver="bank")
tensor = torch.randn(64, 33, generator=torch.Generator().manual_seed(1))
for text in sys.argv[1:]:
    encoder = parse(text, outside=True).encoder(key)
    packed = encoder.encode(tensor, Occasion(7, importance=torch.arange(33.0)))
    print(hashlib.sha256(packed.details + bytes(packed.data.view)).hexdigest())
"""


def test_two_processes_write_the_same_bytes():
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT, *TEXTS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0].split()) == len(TEXTS)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("kind", ["scalar", "lattice"])
def test_a_whole_frame_takes_the_bits_it_says(kind, bits):
    tensor = example((4096, 256))
    frame = Codec().encode(Embedding(1, packed(f"{kind}:{bits}:dither", tensor)))
    assert len(frame) <= bits * tensor.numel() / 8 * 1.02 + 64


def test_plain_is_exact_for_every_value():
    values = torch.tensor([[0.0, -0.0, float("inf")], [float("nan"), 1e-45, 3.4e38]])
    read = crossed("plain", values)
    assert torch.equal(values.view(torch.int32), read.view(torch.int32))


def test_an_unknown_tag_is_refused_with_the_known_ones():
    record = msgspec.structs.replace(packed("plain", torch.ones(1)), codec="zip")
    with pytest.raises(WireError, match="unknown encoding 'zip': this party reads plain"):
        decode(record)


def test_every_row_number_form_is_accepted_by_stateless_encodings():
    rows = np.array([3, 1], np.int64)
    tensor = example((2, 4))
    for text in TEXTS:
        encoder = parse(text).encoder(KEY)
        assert decode(encoder.encode(tensor, Occasion(rows=rows))).shape == (2, 4)
