"""Segments, sessions and the roster: what they carry over any link, and what they refuse."""

from __future__ import annotations

import struct

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from colonnade.compress import decode
from colonnade.compress.base import DECODERS
from colonnade.errors import PartyError, WireError
from colonnade.net.roster import FIRST_MAX, Roster
from colonnade.net.session import (
    CHUNK_BYTES,
    GROWTH,
    LAST,
    PROTOCOL,
    RECEIPT_BYTES_MAX,
    TEXT_BYTES_MAX,
    Kind,
    Segment,
    Session,
)
from colonnade.wire.codec import ITEM_BYTES, Codec
from colonnade.wire.messages import Buffer, Embedding, Finish, Packed
from tests.mutations import tensors

U8, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (8, 32, 64))
SEGMENTS = st.builds(
    Segment, st.sampled_from(Kind), U32, U64, U64, U8, U32, U64, st.binary(max_size=200)
)
"""Of any form, mostly wrong."""
FRAMES = st.lists(st.binary(max_size=70).map(bytearray), max_size=12)


def decoded(segment):
    return Segment.decode(segment.encode())


@given(U32, U64, U64, st.sampled_from([0, LAST]), U32, U64, st.binary(max_size=300))
def test_a_data_segment_comes_out_as_it_went_in(generation, number, ack, flags, total, at, data):
    segment = Segment(Kind.DATA, generation, number, ack, flags, total, at, data)
    again = decoded(segment)
    assert again[:-1] == segment[:-1]
    assert bytes(again.data) == data


@given(st.binary(max_size=400))
def test_any_bytes_are_a_segment_or_a_wire_error(raw):
    try:
        segment = Segment.decode(raw)
    except WireError:
        return
    assert segment.encode() == raw


@given(SEGMENTS)
def test_a_segment_says_nothing_beside_its_purpose(segment):
    """What ends a job, above all, is never taken from something that was meant otherwise."""
    assume(segment.kind not in (Kind.DATA, Kind.JOIN))
    stray = segment.total or segment.offset
    if segment.kind in (Kind.REFUSE, Kind.FAIL):
        stray = stray or segment.flags or segment.number or segment.generation or not segment.data
    elif segment.kind != Kind.LEAVE:
        stray = stray or segment.data
    if stray:
        with pytest.raises(WireError):
            decoded(segment)


def test_a_join_of_another_version_can_be_read():
    """Else it could not be told that it is one."""
    strange = Segment(Kind.JOIN, 7, 8, 9, PROTOCOL + 1, 10, 11, b"something new")
    assert decoded(strange).flags == PROTOCOL + 1
    with pytest.raises(WireError, match="JOIN segment that says more or less"):
        decoded(strange._replace(flags=PROTOCOL))


@pytest.mark.parametrize("kind", Kind)
def test_a_segment_that_is_too_large_is_refused(kind):
    most = CHUNK_BYTES if kind == Kind.DATA else TEXT_BYTES_MAX
    with pytest.raises(WireError, match="too large"):
        decoded(Segment(kind, data=bytes(most + 1)))


def test_what_others_say_does_nothing_to_a_terminal():
    said = Segment(Kind.FAIL, data="a\x1b[2Jb\n\x00ü\u202e".encode() + b"\xff").text()
    assert said == "a?[2Jb??ü?�" and said.isprintable()


def deliver(sender, receiver, loss=()):
    """Carry what one end has to say; the losses are places in the order of segments."""
    got, place = [], 0
    while (segment := sender.next()) is not None:
        if place not in loss:
            got += receiver.take(decoded(segment))
        place += 1
    return got


@given(FRAMES, st.lists(st.sets(st.integers(0, 60)), max_size=6), st.integers(1, 20))
def test_each_frame_comes_once_and_in_order_whatever_is_lost(frames, losses, chunk):
    here, there = Session(1, chunk_bytes=chunk), Session(1, chunk_bytes=chunk)
    for number, frame in enumerate(frames):
        here.put(frame, last=number == len(frames) - 1)
    got = []
    for loss in [*losses, set(), set()]:
        got += deliver(here, there, loss)
        here.take(decoded(there.acknowledge()))
        here.rewind()
    assert [frame.data for frame in got] == frames
    assert [frame.last for frame in got] == [False] * (len(frames) - 1) + [True] * bool(frames)
    assert here.unacknowledged == here.queued_bytes == 0


@given(st.lists(SEGMENTS | st.builds(Segment, st.just(Kind.DATA), st.just(1), U8, U8, U8, U8, U8)))
def test_a_session_takes_anything_or_raises_a_wire_error(segments):
    session = Session(1, message_bytes_max=1024)
    session.put(bytearray(b"frame"))
    session.next()
    taken = 0
    for segment in segments:
        try:
            got = session.take(segment._replace(generation=1))
        except WireError:
            continue
        taken += len(got)
        assert session.acknowledge().acknowledged == taken
        assert session.unacknowledged <= 1


def test_nothing_is_acknowledged_that_was_not_sent():
    session = Session(1)
    for _ in range(3):
        session.put(bytearray(b"frame"))
    session.next()
    with pytest.raises(WireError, match="frame 1 was acknowledged, and only 1 were sent"):
        session.take(Segment(Kind.ACK, 1, acknowledged=2))
    session.take(Segment(Kind.ACK, 1, acknowledged=1))
    session.next()
    session.rewind()  # what has gone once may be acknowledged even if it is to go again
    session.take(Segment(Kind.ACK, 1, acknowledged=2))
    assert session.unacknowledged == 1


def test_a_frame_that_was_no_message_can_come_again():
    here, there = Session(1), Session(1)
    here.put(bytearray(b"garbage"))
    assert deliver(here, there)
    there.take_back()
    assert there.acknowledge().acknowledged == 0
    here.rewind()
    assert [bytes(frame.data) for frame in deliver(here, there)] == [b"garbage"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"total": 1024 + 65536 + 65}, "over the limit"),
        ({"total": RECEIPT_BYTES_MAX + 1, "flags": LAST}, "over the limit"),
        ({"total": 2, "data": b"abc"}, "beyond its frame"),
        ({"total": 9, "offset": 2**64 - 1, "data": b"abc"}, "beyond its frame"),
        ({"total": 9}, "or is empty"),
        ({"total": 3, "data": b"abc", "flags": 2}, "flags 2"),
    ],
)
def test_what_a_segment_claims_is_judged_before_anything_is_allocated(fields, said):
    with pytest.raises(WireError, match=said):
        Session(1, message_bytes_max=1024).take(Segment(Kind.DATA, 1, **fields))


def test_a_claim_alone_allocates_nothing():
    session = Session(1)
    session.take(Segment(Kind.DATA, 1, total=2**28, data=b"abc"))
    assert len(session._partial) == GROWTH * 3
    with pytest.raises(WireError, match="changed its length"):
        session.take(Segment(Kind.DATA, 1, total=2**27, offset=3, data=b"abc"))


@given(st.binary(min_size=1, max_size=3000), st.integers(1, 50))
def test_a_large_frame_grows_as_it_comes(data, chunk):
    here, there = Session(1, chunk_bytes=chunk), Session(1)
    here.put(bytearray(data))
    (frame,) = deliver(here, there)
    assert frame.data == data


def rosters(incarnation=5, first=1):
    regroups = []
    active = Roster(["b", "c"], True, Session, regroups.append, first=first)
    passive = Roster(["a"], False, Session, regroups.append, incarnation)
    return active, passive, regroups


def test_a_party_joins_and_a_new_start_of_it_begins_a_new_generation():
    active, passive, regroups = rosters()
    (opened,) = active.take("b", decoded(passive.join()))[1]
    passive.take("a", decoded(opened))
    assert active.generation == passive.generation == 1 and not regroups
    again = rosters(6)[1]
    (opened,) = active.take("b", decoded(again.join()))[1]
    assert (active.generation, regroups) == (2, ["b started again"])
    again.take("a", decoded(opened))
    assert again.generation == 2


def test_who_is_expelled_is_forgotten():
    active, passive, regroups = rosters()
    active.take("b", passive.join())
    active.expel("b", "b was refused")
    assert active.peers["b"].session is None and regroups == ["b was refused"]
    late = Segment(Kind.ACK, 1)
    assert active.take("b", late)[1] == (Segment(Kind.WHO, 2),)


def join(generation, incarnation, first):
    return Segment(Kind.JOIN, generation, incarnation, first, PROTOCOL)


def test_a_passive_party_cannot_advance_the_generation_by_claiming_a_higher_one():
    active, honest, regroups = rosters(6, first=41)
    active.take("b", join(0, 5, 0))
    (opened,) = active.take("c", decoded(honest.join()))[1]
    honest.take("a", decoded(opened))
    for claimed in (42, 1 << 31, (1 << 32) - 1, 40, 0):
        with pytest.raises(WireError, match=f"a JOIN of generation {claimed}, which nobody has"):
            active.take("b", join(claimed, 5, 41))
    for first in (0, 7, 1 << 31, 1 << 63):
        assert active.take("b", join(1 << 31, 5, first))[1] == [Segment(Kind.OPEN, 41, 5, 41)]
    assert (active.generation, regroups) == (41, [])
    assert active.take("c", decoded(honest.join()))[1] == [Segment(Kind.OPEN, 41, 6, 41)]


def test_whoever_knew_an_earlier_process_of_the_active_party_begins_with_the_new_one():
    (old, passive, _), (new, _, none) = rosters(first=FIRST_MAX), rosters(first=3)
    (opened,) = old.take("b", decoded(passive.join()))[1]
    passive.take("a", decoded(opened))
    assert passive.generation == FIRST_MAX and not passive.begun_again
    (opened,) = new.take("b", decoded(passive.join()))[1]
    passive.take("a", decoded(opened))
    assert passive.generation == new.generation == 3 and passive.begun_again and not none
    assert passive.peers["a"].session.generation == 3


@given(st.booleans(), st.lists(SEGMENTS, max_size=20))
def test_a_roster_takes_anything_or_raises_a_wire_error(leads, segments):
    active, passive, _ = rosters()
    roster, peer = (active, "b") if leads else (passive, "a")
    for segment in segments:
        try:
            _, answers = roster.take(peer, segment)
        except WireError:
            continue
        for answer in answers:
            decoded(answer)


def frame_of(message):
    return bytes(Codec().encode(message))


def mutated(raw, draw):
    raw = bytearray(raw)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(raw) - 1)))
        how = draw(st.sampled_from(["flip", "cut", "add", "word"]))
        if how == "flip" and raw:
            raw[place] ^= draw(st.integers(1, 255))
        elif how == "cut":
            del raw[place:]
        elif how == "add":
            raw[place:place] = draw(st.binary(min_size=1, max_size=20))
        elif how == "word" and len(raw) >= place + 4:
            struct.pack_into("<I", raw, place, draw(U32))
    return raw


@st.composite
def spoilt_frames(draw):
    message = draw(
        st.sampled_from([Embedding(3, tensor) for tensor in tensors()])
        | st.just(Finish(round=3, best=1, reason="target"))
    )
    return mutated(frame_of(message), draw)


@given(spoilt_frames())
def test_a_spoilt_frame_is_refused_or_read_as_some_message(frame):
    try:
        message = Codec(1 << 20).decode(frame)
        for packed in message.packed():
            assert tuple(decode(packed).shape) == packed.shape
    except (WireError, PartyError):
        pass


EXTENTS = st.integers(0, 9) | st.sampled_from([2**16, 2**31, 2**40, 2**63])
DETAILS = st.sampled_from([packed.details for packed in tensors()]) | st.binary(max_size=40)
PACKED = st.builds(
    lambda codec, dtype, shape, data, details: Packed(
        codec, dtype, tuple(shape), Buffer(memoryview(data)), details
    ),
    st.sampled_from([*DECODERS]),
    st.sampled_from([*ITEM_BYTES]),
    st.lists(EXTENTS, max_size=4),
    st.binary(max_size=120).map(bytearray),
    DETAILS,
)


@given(PACKED)
def test_a_tensor_that_claims_anything_is_refused_or_has_that_shape(packed):
    """Built by hand: few changes of bytes would leave a header that can be read at all."""
    codec = Codec(1 << 20)
    try:
        (again,) = codec.decode(codec.encode(Embedding(3, packed))).packed()
        assert tuple(decode(again).shape) == packed.shape
    except WireError:
        pass
