"""Trees and views come back from their encoded form exactly as they were, or with a StateError."""

from __future__ import annotations

import struct
from dataclasses import fields

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from colonnade.learn.contents import Forward, Share, Shared
from colonnade.learn.state import _SAVED, restore_view, view_state
from colonnade.packed import LongList
from colonnade.policies.view import EFFORT, Exchange, Role, View, Window
from colonnade.record.tree import DEPTH_MAX, StateError, decode, encode, moved
from colonnade.wire.messages import Buffer, Packed

NUMBERS = [np.dtype(code).name for code in "?BHILbhilefd"]
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def same(a, b) -> bool:
    """Equal in type, in structure and to the last bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return bits(a) == bits(b)
    if isinstance(a, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        raw = [tensor.contiguous().reshape(-1) for tensor in (a, b)]
        return not a.numel() or torch.equal(*(flat.view(torch.uint8) for flat in raw))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple | LongList):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a), list(b)) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, Forward | Shared | Share | Window | View):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, Packed | Exchange):
        return all(same(getattr(a, f), getattr(b, f)) for f in a.__struct_fields__)
    return a == b


def array_of(name: str):
    return arrays.arrays(np.dtype(name), SHAPES)


ARRAYS = st.sampled_from(NUMBERS).flatmap(array_of)
TENSORS = ARRAYS.map(lambda array: torch.from_numpy(array.copy())) | array_of("float32").map(
    lambda array: torch.from_numpy(array.copy()).to(torch.bfloat16)
)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1])
    | st.floats()
    | st.text()
    | st.binary()
)
BUFFERS = st.binary().map(lambda data: Buffer(memoryview(bytearray(data))))
PACKED = st.builds(
    Packed, st.text(), st.sampled_from(NUMBERS), SHAPES, BUFFERS, details=st.binary(max_size=9)
)
TABLES = st.dictionaries(st.text(), TENSORS, max_size=3)
SHARED = st.builds(Shared, TABLES, TABLES)
SHARES = st.builds(
    Share, st.dictionaries(st.text(), PACKED, max_size=3), st.tuples(PACKED, PACKED), SHARED
)
COUNTS = st.integers(0, 2**62)


def exchanges(parts):
    return st.builds(
        Exchange,
        round=COUNTS,
        rows=arrays.arrays(np.int64, st.integers(0, 5)),
        forward=st.none() | st.builds(Forward, TENSORS),
        gradient=parts,
        others=parts,
        answer=parts,
        packed=st.none() | st.dictionaries(st.text(), PACKED, max_size=2),
        replied_ns=COUNTS,
        forward_ns=COUNTS,
        completes=st.none() | COUNTS,
        updates=COUNTS,
        agreed=COUNTS,
        sampled=st.none() | COUNTS,
    )


LEAVES = PLAIN | TENSORS | ARRAYS | BUFFERS | PACKED | SHARES | st.builds(Window, COUNTS, COUNTS)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
        | exchanges(inner)
    ),
    max_leaves=12,
)


@given(TREES)
def test_a_tree_comes_back_as_it_was(tree):
    from safetensors.torch import load, save

    structure, tensors = encode(tree)
    assert type(structure) is bytes
    assert same(decode(structure, load(save(tensors))), tree)


@given(TREES)
def test_a_copy_is_equal_and_shares_nothing(tree):
    copied = moved(tree, "cpu", copy=True)
    assert same(copied, tree)
    for one, other in zip(
        encode(copied)[1].values(), encode(moved(tree, "cpu"))[1].values(), strict=True
    ):
        # What crossed the wire is never written to, so it may be shared.
        if one.numel() and one.dtype is not torch.uint8:
            assert one.data_ptr() != other.data_ptr()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).view(3, 4).t(),
        torch.arange(12.0)[2:7],
        torch.zeros(1).expand(3, 2),
        torch.tensor([float("nan"), -0.0, float("-inf")]),
        torch.nn.Parameter(torch.ones(2)).detach(),
        torch.get_rng_state(),
    ],
)
def test_any_layout_comes_back(tensor):
    assert same(decode(*encode([tensor]))[0].contiguous(), tensor.contiguous())


def test_tensors_that_share_memory_are_saved_one_by_one():
    from safetensors.torch import load, save

    whole = torch.arange(6.0)
    tree = {"whole": whole, "again": whole, "part": whole[1:3], "array": whole.numpy()}
    structure, tensors = encode(tree)
    assert same(decode(structure, load(save(tensors))), tree)


def test_a_graph_is_left_behind():
    weight = torch.nn.Parameter(torch.ones(2))
    forward = Forward(weight * 2)
    (read,) = decode(*encode([forward]))
    assert not read.embedding.requires_grad
    assert torch.equal(read.embedding, torch.tensor([2.0, 2.0]))
    assert not moved([forward], "cpu")[0].embedding.requires_grad


def test_what_is_read_may_be_written_to():
    tree = decode(*encode([np.frombuffer(b"ab", np.uint8), Buffer(memoryview(b"ab"))]))
    assert tree[0].flags.writeable
    assert not tree[1].view.readonly


@pytest.mark.parametrize(
    "tree",
    [object(), {1.5: 2}, {True: 2}, {1, 2}, np.float64(1), np.array(["a"]),
     torch.zeros(1).to_sparse(), torch.zeros(1, dtype=torch.complex64), np.zeros(2, ">f4"),
     Window("a", 1)],
)  # fmt: skip
def test_what_is_no_tree_is_our_own_mistake(tree):
    with pytest.raises(AssertionError):
        encode(tree)


@pytest.mark.parametrize(
    "node",
    [[], {}, {"a": 1}, ["set", 1], [1, 2], ["dict", 1], ["dict", 1.5, 2], ["dict", None, 2],
     ["int"], ["int", 5], ["tensor"], ["tensor", 0], ["tensor", "9"], ["tensor", "0", "0"],
     ["array", "half"], ["memory", "0"], ["Window", 1], ["Window", 1, "a"], ["Window", 1, 2, 3],
     ["Buffer", b"a"], ["Packed", 1, 2, 3, 4, 5], ["Exchange", 1, None], ["list", ["set"]]],
)  # fmt: skip
def test_what_is_no_tree_is_refused(node):
    tensors = {"0": torch.zeros(2), "half": torch.zeros(2, dtype=torch.bfloat16)}
    with pytest.raises(StateError):
        decode(msgspec.msgpack.encode(node), tensors)


def test_a_structure_without_end_is_refused():
    deep: list[object] = []
    for _ in range(DEPTH_MAX + 2):
        deep = ["list", deep]
    with pytest.raises(StateError):
        decode(msgspec.msgpack.encode(deep), {})
    with pytest.raises(StateError):
        decode(b"\x91" * 1_000_000, {})


@settings(max_examples=120)
@given(TREES, st.data())
def test_a_damaged_structure_is_read_or_refused(tree, data):
    """Never another error."""
    structure, tensors = encode(tree)
    damaged = bytearray(structure)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for candidate in (damaged, damaged[:cut], damaged[cut:]):
        try:
            decode(bytes(candidate), tensors)
        except StateError:
            continue


ROUNDS = st.dictionaries(st.text(max_size=3), st.integers(-1, 2**40), max_size=3)


@st.composite
def views(draw) -> View:
    view = View(Role.PASSIVE, rounds=10, per_epoch=5, parties=3)
    numbers = ("now_ns", "round", "fresh", "local", "finished_ns", "update_ns", "agreed")
    for field in (*numbers, "locals_since_fresh", "in_flight_max", "signalled"):
        setattr(view, field, draw(COUNTS))
    view.sent = view.round
    view.sent_since_fresh = draw(st.booleans())
    view.window = draw(st.builds(Window, COUNTS, COUNTS))
    efforts = st.tuples(COUNTS, st.floats())
    view.efforts = LongList(EFFORT, draw(st.lists(efforts, max_size=5)))
    for field in ("reported", "arrived", "answered", "signals"):
        setattr(view, field, draw(ROUNDS))
    view.kept.extend(draw(st.lists(exchanges(st.none() | TENSORS | SHARES | TABLES), max_size=3)))
    return view


@settings(max_examples=50)
@given(views())
def test_a_view_comes_back_as_it_was(view):
    fresh = View(Role.PASSIVE, rounds=10, per_epoch=5, parties=3)
    fresh.waiting = waiting = {("telco", 3): None}.keys()
    kept = view.kept
    restore_view(fresh, decode(*encode(view_state(view))))
    assert fresh.waiting is waiting
    fresh.waiting = ()
    assert type(fresh.kept) is type(kept)
    assert same(list(fresh.kept), list(kept))
    fresh.kept = view.kept
    assert same(fresh, view)


def test_every_field_of_a_view_is_saved_or_given():
    given_or_derived = {"role", "rounds", "per_epoch", "parties", "per_round", "room"}
    empty_at_rest = {"replies", "waiting", "came_ns"}
    in_columns, nobody_reads_again = {"efforts", "kept"}, {"actions"}
    assert {field.name for field in fields(View)} == (
        set(_SAVED) | given_or_derived | empty_at_rest | in_columns | nobody_reads_again
    )


def test_a_saved_view_stays_as_it_was():
    view = View(Role.PASSIVE, rounds=10, per_epoch=5, parties=3)
    view.meet(["telco"])
    view.remember(Exchange(0, np.arange(3), Forward(torch.zeros(3, 2))), 1, 0, 5, 0.1)
    view.sent = 1
    state = view_state(view)
    restored = View(Role.PASSIVE, rounds=10, per_epoch=5, parties=3)
    restore_view(restored, state)
    for one in (view, restored):
        one.updated(one.kept[0], 6, 7)
        one.window.size, one.signals["telco"] = 9, 9
    again = View(Role.PASSIVE, rounds=10, per_epoch=5, parties=3)
    restore_view(again, state)
    assert again.kept[0].updates == 1
    assert (again.local, again.efforts, again.actions) == (0, [(1, 0.1)], [])
    assert (again.window.size, again.signals) == (1, {"telco": 0})


def test_only_a_view_at_rest_is_saved():
    flying = View(Role.PASSIVE, rounds=10, per_epoch=5, parties=3, sent=1)
    replied = View(Role.ACTIVE, rounds=10, per_epoch=5, parties=3, replies=1)
    stashed = View(Role.PASSIVE, rounds=10, per_epoch=5, parties=3)
    stashed.kept.append(Exchange(0, np.arange(1), Forward(torch.zeros(1), {"w": torch.ones(1)})))
    for view in (flying, replied, stashed):
        with pytest.raises(AssertionError, match="in flight"):
            view_state(view)
