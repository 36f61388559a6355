"""Messages to bytes and back, and bytes that are not messages."""

from __future__ import annotations

import struct

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.compress import decode, plain
from colonnade.data.splits import SPLITS
from colonnade.errors import WireError
from colonnade.wire.codec import ITEM_BYTES, MAGIC, VERSION, Codec
from colonnade.wire.fault import Fault
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import (
    MESSAGES,
    Buffer,
    Calibrate,
    Components,
    Echo,
    Embedding,
    Evaluate,
    EvaluationEmbedding,
    Failure,
    Finish,
    Gradient,
    Hello,
    Labels,
    Masked,
    Opened,
    Packed,
    Probe,
    Setting,
    Snapshot,
    Status,
    TransferKey,
    Upload,
)

counts = st.integers(0, 2**62)
texts = st.text(max_size=40)
buffers = st.lists(
    st.binary(max_size=40).map(lambda data: Buffer(memoryview(bytearray(data)))), max_size=3
).map(tuple)


@st.composite
def packed(draw):
    dtype = draw(st.sampled_from(sorted(ITEM_BYTES)))
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    size = ITEM_BYTES[dtype]
    for extent in shape:
        size *= extent
    data = draw(st.binary(min_size=size, max_size=size))
    return Packed("plain", dtype, shape, Buffer(memoryview(bytearray(data))))


messages = st.one_of(
    st.builds(Hello, texts, texts, counts, counts, counts),
    st.builds(Embedding, counts, packed()),
    st.builds(Gradient, counts, packed(), st.integers(-1, 1)),
    st.builds(
        Evaluate,
        counts,
        counts,
        st.lists(st.sampled_from(SPLITS), max_size=3).map(tuple),
        st.integers(-1, 99),
        st.integers(-1, 99),
    ),
    st.builds(Status, counts, st.integers(1, 100_000)),
    st.builds(Calibrate, counts),
    st.builds(Probe, counts, packed()),
    st.builds(Echo, counts, *[st.integers(0, 10**15)] * 3, packed()),
    st.builds(Setting, st.integers(0, 1000), st.integers(0, 32)),
    st.builds(Upload, counts, packed()),
    st.builds(EvaluationEmbedding, counts, st.sampled_from(SPLITS), counts, packed()),
    st.builds(
        Snapshot,
        counts,
        st.lists(texts, max_size=3).map(tuple),
        st.lists(packed(), max_size=3).map(tuple),
        st.lists(packed(), max_size=3).map(tuple),
    ),
    st.builds(Labels, packed(), st.lists(packed(), max_size=1).map(tuple)),
    st.builds(
        Finish, counts, st.integers(-1, 99), texts, st.none() | st.builds(Fault, texts, texts)
    ),
    st.builds(Failure, texts),
    st.builds(TransferKey, st.binary(max_size=40)),
    st.builds(Components, counts, buffers),
    st.builds(Masked, counts, counts, buffers),
    st.builds(Opened, counts, counts, buffers),
)


def frame(kind=7, header=None, payload=b"", magic=MAGIC, version=VERSION, sizes=None):
    """A frame put together by hand, lies included."""
    header = msgspec.msgpack.encode(["reason"]) if header is None else header
    sizes = sizes or (len(header), len(payload))
    padding = bytes(-len(header) % 16) if payload else b""
    return bytearray(
        struct.pack("<2sBBIQ", magic, version, kind, *sizes) + header + padding + payload
    )


@given(messages)
def test_decode_inverts_encode(message):
    codec = Codec()
    assert codec.decode(codec.encode(message)) == message


@given(messages, st.data())
def test_a_cut_or_lengthened_frame_is_refused(message, data):
    codec = Codec()
    whole = codec.encode(message)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for wrong in (whole[:cut], whole + b"\0"):
        with pytest.raises(WireError):
            codec.decode(wrong)


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused(data):
    if not data.startswith(MAGIC):
        with pytest.raises(WireError):
            Codec().decode(bytearray(data))


@given(messages, st.data())
def test_a_changed_byte_never_breaks_more_than_the_message(message, data):
    """Either another well-formed message or a WireError: nothing else may come out."""
    codec = Codec()
    changed = codec.encode(message)
    position = data.draw(st.integers(0, len(changed) - 1))
    changed[position] ^= data.draw(st.integers(1, 255))
    try:
        assert type(codec.decode(changed)) in MESSAGES.values()
    except WireError as error:
        assert len(str(error)) > 10
    assert codec.decode(codec.encode(message)) == message


def header_of(tensor_header):
    return msgspec.msgpack.encode([0, tensor_header])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (bytearray(b"CO"), "shorter than the prefix"),
        (frame(magic=b"XX"), "not Colonnade's"),
        (frame(version=9), "protocol version 9"),
        (frame(kind=99), "unknown kind 99"),
        (frame(sizes=(2**31, 0)), "over the limit"),
        (frame(sizes=(8, 2**60)), "over the limit"),
        (frame(header=b"\xc1"), "does not fit its kind"),
        (frame(header=msgspec.msgpack.encode([5])), "does not fit its kind"),
        (frame(header=msgspec.msgpack.encode(["a", "b"])), "does not fit its kind"),
        (frame(payload=b"1234"), "no use for"),
        (frame(2, header_of(["plain", "float32", [2], 9]), bytes(8)), "announces a tensor of 9"),
        (frame(2, header_of(["plain", "float32", [1], 4]), bytes(8)), "no use for"),
        (frame(2, header_of(["plain", "float32", [3], 8]), bytes(8)), "has 12 bytes"),
        (frame(2, header_of(["plain", "object", [1], 8]), bytes(8)), "type 'object'"),
        (frame(2, header_of(["plain", "float32", [-1, -2], 8]), bytes(8)), "negative"),
        (frame(2, header_of(["plain", "float32", [1] * 9, 4]), bytes(4)), "9 dimensions"),
        (frame(2, header_of(["zip", "float32", [2**40], 4]), bytes(4)), "when unpacked"),
    ],
)
def test_bad_frames_are_named(wrong, words):
    with pytest.raises(WireError, match=words):
        Codec().decode(wrong)


def test_the_limit_is_a_setting():
    codec = Codec()
    big = codec.encode(Embedding(0, plain().encode(torch.zeros(1000))))
    assert Codec(message_bytes_max=4000).decode(big)
    with pytest.raises(WireError, match=r"raise limits\.message_bytes"):
        Codec(message_bytes_max=3999).decode(big)


@given(packed())
def test_a_plain_tensor_comes_back_bit_for_bit(record):
    tensor = decode(record)
    assert tuple(tensor.shape) == record.shape
    assert plain().encode(tensor).data == record.data


def test_decoding_does_not_copy():
    codec = Codec()
    whole = codec.encode(Embedding(0, plain().encode(torch.ones(4, 4))))
    tensor = decode(codec.decode(whole).tensor)
    whole[-4:] = struct.pack("<f", 7.0)
    assert tensor[3, 3].item() == 7.0


def test_payloads_are_aligned():
    codec = Codec()
    for round in (0, 200, 70_000):
        whole = codec.encode(Embedding(round, plain().encode(torch.ones(3))))
        assert (len(whole) - 12) % 16 == 0


def test_an_unknown_encoding_is_refused():
    with pytest.raises(WireError, match="unknown encoding 'zip'"):
        decode(Packed("zip", "float32", (1,), Buffer(memoryview(b"1"))))


def test_a_non_contiguous_tensor_is_sent_in_order():
    tensor = torch.arange(6.0).view(2, 3).t()
    assert torch.equal(decode(plain().encode(tensor)), tensor)


def test_kinds_are_distinct_and_every_field_is_explained():
    import inspect

    assert len(set(MESSAGES)) == len(MESSAGES)
    for message in MESSAGES.values():
        family = [kind for kind in message.__mro__ if kind.__module__ == message.__module__]
        source = "".join(inspect.getsource(kind) for kind in family)
        for field in message.__struct_fields__:
            after = source.split(f"    {field}:", 1)[1].split("\n")[1]
            assert after.strip().startswith('"""'), f"{message.__name__}.{field}"


def test_ledger_counts_by_peer_direction_and_kind():
    ledger = Ledger()
    ledger.count("telco", "sent", Embedding, 100)
    ledger.count("telco", "sent", Embedding, 50)
    ledger.count("telco", "received", Evaluate, 7)
    ledger.count("shop", "sent", Hello, 3)
    assert ledger.training_bytes("sent") == 153
    assert ledger.training_bytes("received") == 0
    assert [(e["peer"], e["kind"], e["messages"]) for e in ledger.entries()] == [
        ("shop", "Hello", 1),
        ("telco", "Evaluate", 1),
        ("telco", "Embedding", 2),
    ]
