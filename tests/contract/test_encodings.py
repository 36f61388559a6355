"""Every tensor encoding passes the public checks; and what only ours promise."""

from __future__ import annotations

import msgspec
import pytest
import torch

from colonnade.compress import decode
from colonnade.compress import parse as parse_text
from colonnade.errors import PartyError, WireError
from colonnade.testing import check_encoding, check_processes
from colonnade.testing.encodings import KEY, example, occasion, received
from colonnade.wire.codec import Codec
from colonnade.wire.messages import Embedding

LOSSLESS = {"lossless": True, "error": 0.0}
UNBIASED = {"unbiased": True}
COLUMNS = {"constant": None}
ENCODINGS = {
    "plain": LOSSLESS,
    "half": {"error": 2.0**-11, "constant": 2.0**-9, "any_scale": False},
    "half:bfloat16": {"error": 2.0**-8, "constant": 2.0**-9, "any_scale": False},
    "scalar:1": {},
    "scalar:3:minmax": {"error": 0.2},
    "scalar:4:dither": {},
    "scalar:8:minmax:dither": {"error": 2.0**-7, **UNBIASED},
    "scalar:11": {},
    "scalar:16:minmax:dither": {"error": 2.0**-15, **UNBIASED},
    "lattice:1": {},
    "lattice:2:minmax": {"error": 1.0},
    "lattice:3:dither": {},
    "lattice:4": {},
    "lattice:8:minmax:dither": {"error": 2.0**-6, **UNBIASED},
    "topk:1": COLUMNS,
    "topk:0.5": COLUMNS,
    "topk:0.25:shared": COLUMNS,
    "topk:2:importance": COLUMNS,
    "ef+scalar:2": {},
    "by_link:3:8": {},
    "by_link:4:32": LOSSLESS,
    "ef+by_link:3:16": {},
    "ef+topk:0.25": COLUMNS,
    "ef21+scalar:2": {},
    "ef21+lattice:4:minmax": {"error": 0.4},
    "ef21+by_link:2:8": {},
    "ef21+half": {"error": 2.0**-11, "constant": 2.0**-9, "any_scale": False},
    "ef21+topk:0.25": COLUMNS,
    "ef21+topk:2:importance": COLUMNS,
    "ef21+steps:0=topk:0.5,1=scalar:3": COLUMNS,
    "ef21+diminishing+scalar:2:dither": {},
    "ef21+tests.outside:rotated:3": {"lossless": True},
    "diminishing+lattice:2": {},
    "diminishing+scalar:2:dither": {},
    "steps:0=topk:0.5,1=scalar:3": COLUMNS,
    "tests.outside:rotated:3": {"lossless": True},
    "ef+tests.outside:rotated:by=1": {"lossless": True},
}
"""Every encoding, and what it promises beside the rest."""


def packed(text, tensor):
    return parse_text(text, outside=True).encoder(KEY).encode(tensor, occasion(tensor))


@pytest.mark.parametrize("text", ENCODINGS)
def test_it_keeps_the_contract_of_an_encoding(text):
    check_encoding(text, **ENCODINGS[text])


def test_two_processes_write_the_same_bytes():
    check_processes(*ENCODINGS)


@pytest.mark.parametrize("text", [t for t in ENCODINGS if t not in ("plain", "by_link:4:32")])
def test_details_that_say_nothing_are_refused(text):
    whole = packed(text, example((8, 6)))
    with pytest.raises(WireError):
        decode(msgspec.structs.replace(whole, details=b"\xff" * len(whole.details)))


@pytest.mark.parametrize("text", [text for text in ENCODINGS if "rotated" in text])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_an_encoding_from_outside_refuses_by_the_tool_that_it_is_given(text, bad):
    with pytest.raises(PartyError, match="embedding of 'partner' has NaN or infinite"):
        packed(text, torch.full((4, 4), bad))


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("kind", ["scalar", "lattice"])
def test_a_whole_frame_takes_the_bits_it_says(kind, bits):
    tensor = example((4096, 256))
    frame = Codec().encode(Embedding(1, packed(f"{kind}:{bits}:dither", tensor)))
    assert len(frame) <= bits * tensor.numel() / 8 * 1.02 + 64


def test_plain_is_exact_for_every_value():
    values = torch.tensor([[0.0, -0.0, float("inf")], [float("nan"), 1e-45, 3.4e38]])
    read = received(packed("plain", values))
    assert torch.equal(values.view(torch.int32), read.view(torch.int32))


def test_an_unknown_tag_is_refused_with_the_known_ones():
    record = msgspec.structs.replace(packed("plain", torch.ones(1)), codec="zip")
    with pytest.raises(WireError, match="unknown encoding 'zip': this party reads plain"):
        decode(record)
