"""Error feedback, differences, schedules over rounds, and encodings as text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from colonnade.compress import (
    Key,
    Occasion,
    decode,
    decoder,
    describe,
    differences,
    diminishing,
    error_feedback,
    half,
    lattice,
    parse,
    plain,
    scalar,
    shown,
    steps,
    topk,
    without_memory,
)
from colonnade.compress.lattice import MOMENT, cell_area
from colonnade.errors import PartyError, RequestError
from colonnade.methods import build

KEY = Key(0, "partner", "gradient", "bank")


def test_feedback_sends_on_average_what_it_was_given():
    tensor = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    for inner in (scalar(2), topk(2), lattice(2)):
        encoder = error_feedback(inner).encoder(KEY)
        sent = torch.stack([decode(encoder.encode(tensor, Occasion(round))) for round in range(60)])
        alone = decode(inner.encoder(KEY).encode(tensor))
        assert (sent.mean(0) - tensor).norm() < 0.25 * (alone - tensor).norm()


def test_feedback_is_kept_by_row():
    encoder = error_feedback(topk(1)).encoder(KEY)
    first, second = np.array([0, 7]), np.array([7, 300])
    batch = torch.tensor([[3.0, 2.0], [1.0, 5.0]])
    assert decode(encoder.encode(batch, Occasion(rows=first))).tolist() == [[3.0, 0.0], [0.0, 5.0]]
    # Row 7 is owed 1 in its first column, row 300 nothing yet.
    again = decode(encoder.encode(torch.tensor([[4.5, 5.0], [1.0, 0.5]]), Occasion(rows=second)))
    assert again.tolist() == [[5.5, 0.0], [1.0, 0.0]]
    last = decode(encoder.encode(torch.zeros(3, 2), Occasion(rows=np.array([0, 300, 1]))))
    assert last.tolist() == [[0.0, 2.0], [0.0, 0.5], [0.0, 0.0]]


def test_feedback_of_other_tensors_is_kept_by_shape():
    encoder = error_feedback(topk(1)).encoder(KEY)
    encoder.encode(torch.tensor([2.0, 1.0]))
    encoder.encode(torch.tensor([[5.0, 4.0, 3.0]]))
    assert decode(encoder.encode(torch.zeros(2))).tolist() == [0.0, 1.0]
    assert decode(encoder.encode(torch.zeros(1, 3))).tolist() == [[0.0, 4.0, 0.0]]


def test_feedback_refuses_rows_that_are_not_the_tensors():
    encoder = error_feedback(scalar(2)).encoder(KEY)
    for rows in (np.array([1]), np.array([1, -2])):
        with pytest.raises(PartyError, match="row numbers are not one for each"):
            encoder.encode(torch.ones(2, 2), Occasion(rows=rows))


def test_feedback_that_changes_nothing_is_the_encoding_itself():
    assert error_feedback(plain()) == plain()
    assert error_feedback(error_feedback(scalar(2))) == error_feedback(scalar(2))


def test_only_what_changed_of_a_row_crosses():
    """G ← G + C(h − G), row by row, and zero for a row that was never sent."""
    coded = differences(topk(1))
    encoder, reader = coded.encoder(KEY), decoder(coded)
    kept = {row: torch.zeros(2) for row in (0, 7, 300)}
    batches = {(0, 7): [[3.0, 2.0], [1.0, 5.0]], (7, 300): [[4.5, 5.0], [1.0, 0.5]],
               (300, 0): [[1.0, 0.75], [3.0, 2.0]]}  # fmt: skip
    crossed = []
    for rows, batch in batches.items():
        use, tensor = Occasion(rows=np.array(rows)), torch.tensor(batch)
        change = tensor - torch.stack([kept[row] for row in rows])
        packed = encoder.encode(tensor, use)
        assert packed == topk(1).encoder(KEY).encode(change, use)
        for row, each in zip(rows, decode(packed), strict=True):
            kept[row] = kept[row] + each
        read = reader.decode(packed, use)
        assert torch.equal(read, torch.stack([kept[row] for row in rows]))
        assert torch.equal(read, shown(encoder, packed))
        crossed.append(decode(packed).tolist())
    assert crossed == [[[3, 0], [0, 5]], [[4.5, 0], [1, 0]], [[0, 0.75], [0, 2]]]


@pytest.mark.parametrize("text", ["scalar:1", "scalar:2", "lattice:2", "topk:2", "half"])
def test_the_error_of_rows_that_stand_still_vanishes(text):
    tensor = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    coded, use = differences(parse(text)), Occasion(rows=np.arange(20))
    encoder, reader = coded.encoder(KEY), decoder(coded)
    for _ in range(40):
        packed = encoder.encode(tensor, use)
        assert written(packed) <= written(parse(text).encoder(KEY).encode(tensor, use))
        read = reader.decode(packed, use)
    alone = decode(parse(text).encoder(KEY).encode(tensor))
    assert (read - tensor).norm() < 0.05 * (alone - tensor).norm()


def written(packed):
    return len(packed.details) + packed.data.view.nbytes


def test_differences_of_other_tensors_are_kept_by_shape():
    coded = differences(topk(1))
    encoder, reader = coded.encoder(KEY), decoder(coded)
    for tensor, known in ((torch.tensor([2.0, 1.0]), [2, 0]), (torch.ones(3), [1, 0, 0]),
                          (torch.tensor([2.0, 1.0]), [2, 1])):  # fmt: skip
        assert reader.decode(encoder.encode(tensor)).tolist() == known


def test_a_memory_keeps_no_hold_of_the_tensor_that_is_sent():
    encoder = differences(steps([(0, plain()), (1, scalar(2))])).encoder(KEY)
    live = torch.ones(2, 2)
    packed = encoder.encode(live)
    live.zero_()
    assert decode(packed).tolist() == shown(encoder, packed).tolist() == [[1, 1], [1, 1]]


def test_differences_refuse_rows_that_are_not_the_tensors():
    encoder = differences(scalar(2)).encoder(KEY)
    for rows in (np.array([1]), np.array([1, -2])):
        with pytest.raises(PartyError, match="row numbers are not one for each"):
            encoder.encode(torch.ones(2, 2), Occasion(rows=rows))


def test_a_tensor_that_is_refused_leaves_the_memory_as_it_was():
    encoder, use = differences(scalar(2)).encoder(KEY), Occasion(rows=np.array([4]))
    first = shown(encoder, encoder.encode(torch.tensor([[1.0, 2.0]]), use))
    with pytest.raises(PartyError, match="NaN or infinite"):
        encoder.encode(torch.tensor([[1.0, float("nan")]]), use)
    packed = encoder.encode(torch.tensor([[5.0, 6.0]]), use)
    assert torch.equal(shown(encoder, packed), first + decode(packed))


def test_differences_that_change_nothing_are_the_encoding_itself():
    assert differences(plain()) == plain()
    assert differences(differences(scalar(2))) == differences(scalar(2))
    assert without_memory(differences(scalar(2))) == scalar(2)
    assert without_memory(error_feedback(scalar(2))) == error_feedback(scalar(2))


def test_steps_change_at_their_rounds():
    schedule = steps([(0, scalar(2)), (10, lattice(4)), (20, plain())])
    encoder = schedule.encoder(KEY)
    tensor = torch.randn(4, 4)
    for round, expected in ((0, scalar(2)), (9, scalar(2)), (10, lattice(4)), (25, plain())):
        assert schedule.at(round) == expected
        use = Occasion(round)
        assert encoder.encode(tensor, use) == expected.encoder(KEY).encode(tensor, use)


def test_a_constant_schedule_is_its_encoding():
    assert steps([(0, scalar(2))]) == scalar(2)
    assert steps([(0, half()), (5, half()), (9, half())]) == half()
    merged = steps([(0, half()), (5, half()), (9, scalar(2))])
    assert merged == steps([(0, half()), (9, scalar(2))])
    assert diminishing(scalar, 16) == scalar(16)
    assert diminishing(lattice, 8, dither=True) == lattice(8, dither=True)


@pytest.mark.parametrize("starts", [[], [1], [0, 5, 5], [0, 7, 3]])
def test_steps_in_no_order_are_refused(starts):
    with pytest.raises(RequestError, match="let the first be 0"):
        steps([(start, scalar(2)) for start in starts])


def test_steps_within_steps_are_refused():
    inner = steps([(0, scalar(2)), (5, scalar(3))])
    with pytest.raises(RequestError, match="as one list"):
        steps([(0, inner), (9, plain())])


@pytest.mark.parametrize("first", [1, 2, 4])
def test_diminishing_errors_fall_as_the_table_demands(first):
    """With t the round counted from one: scalar by 1/t, the lattice by 1/√t, until the bits end."""
    for round in [*range(300), 4095, 4096]:
        t = round + 1
        bits = diminishing(scalar, first).at(round).bits
        assert (2**first - 1) ** 2 / (2**bits - 1) ** 2 <= 1 / t
        assert 2 ** (bits - first) < 2 * t**0.5  # and no bit more than rounding up takes
        bits = diminishing(lattice, first).at(round).bits
        if bits < 8:
            fall = MOMENT * cell_area(bits, False, 1.0) / (MOMENT * cell_area(first, False, 1.0))
            assert fall <= 1.001 / t**0.5
            assert 2 ** (bits - first) < 2 * t**0.25


def test_diminishing_bits_have_an_end():
    assert diminishing(scalar, 12).at(10**9).bits == 16
    assert diminishing(lattice, 7).at(10**9).bits == 8
    with pytest.raises(RequestError, match="only scalar and lattice"):
        diminishing(lambda bits, scale, dither: plain(), 2)


scales = st.sampled_from(["minmax", "clipped"])
leaves = st.one_of(
    st.just(plain()),
    st.builds(half, st.sampled_from(["float16", "bfloat16"])),
    st.builds(scalar, st.integers(1, 16), scales, st.booleans()),
    st.builds(lattice, st.integers(1, 8), scales, st.booleans()),
    st.builds(
        topk,
        st.one_of(st.integers(1, 10**6), st.floats(0, 1, exclude_min=True)),
        st.sampled_from(["magnitude", "importance"]),
        st.booleans(),
    ),
    st.builds(diminishing, st.just(scalar), st.integers(1, 16), scales, st.booleans()),
    st.builds(diminishing, st.just(lattice), st.integers(1, 8), scales, st.booleans()),
)
parts = st.one_of(leaves, leaves.map(error_feedback))


def scheduled(parts):
    return st.lists(st.tuples(st.integers(1, 1000), parts), max_size=4).flatmap(
        lambda later: st.builds(
            lambda first: steps([(0, first), *sorted(dict(later).items())]),
            parts,
        )
    )


schedules = scheduled(parts)
remembered = st.one_of(leaves, scheduled(leaves)).map(differences)
encodings = st.one_of(parts, schedules, schedules.map(error_feedback), remembered)


@given(encoding=encodings)
def test_text_and_back(encoding):
    text = describe(encoding)
    assert parse(text) == encoding
    assert describe(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("plain", plain()),
        ("half", half()),
        ("half:bfloat16", half("bfloat16")),
        (" lattice:4 ", lattice(4)),
        ("scalar:3:dither", scalar(3, dither=True)),
        ("scalar:3:dither:minmax", scalar(3, "minmax", dither=True)),
        ("scalar:3:clipped", scalar(3)),
        ("topk:0.25", topk(0.25)),
        ("topk:16:shared", topk(16, shared=True)),
        ("topk:1.0", plain()),
        ("topk:1", topk(1)),
        ("ef+scalar:2", error_feedback(scalar(2))),
        ("ef+plain", plain()),
        ("ef21+scalar:2", differences(scalar(2))),
        ("ef21+plain", plain()),
        ("ef21+steps:0=topk:2,9=plain", differences(steps([(0, topk(2)), (9, plain())]))),
        ("diminishing+lattice:2", diminishing(lattice, 2)),
        ("steps:0=scalar:2,100=scalar:4", steps([(0, scalar(2)), (100, scalar(4))])),
        ("steps:0=ef+topk:2,9=plain", steps([(0, error_feedback(topk(2))), (9, plain())])),
    ],
)
def test_texts(text, encoding):
    assert parse(text) == encoding


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("latice:4", "no encoding is called 'latice': did you mean 'lattice'"),
        ("", "no encoding is called ''"),
        ("scalar", "'' is not a whole number of up to 15 digits: write for example scalar:4"),
        ("scalar:x", "'x' is not a whole number"),
        ("scalar:40", "choose a whole number 1 to 16"),
        ("scalar:4:dithr", "scalar has no option 'dithr': did you mean 'dither'"),
        ("scalar:4:minmax:clipped", "says one thing twice"),
        ("half:float8", "half has no option 'float8'"),
        ("plain:3", "plain has no option '3'"),
        ("topk", "'' is no number of columns"),
        ("topk:0", "topk cannot keep 0"),
        ("topk:2:sharde", "did you mean 'shared'"),
        ("eff+scalar:2", r"nothing is called 'eff\+': did you mean 'ef'"),
        ("ef+ef21+scalar:2", "two memories: .* leave out ef+"),
        ("ef21+ef+scalar:2", "two memories: .* leave out the one that is within"),
        ("ef21+steps:0=ef+scalar:2,9=half", "two memories"),
        ("steps:0=ef21+scalar:2,9=half", r"write it before all of them, as in ef21\+steps"),
        ("diminishing+topk:2", "cannot be diminishing"),
        ("diminishing+scalar", "is not a whole number"),
        ("steps:scalar:2", "is no step"),
        ("steps:5=scalar:2", "let the first be 0"),
        ("steps:x=scalar:2", "'x' is not a whole number"),
        ("ef+" * 5000 + "half", "an encoding within 20 others"),
    ],
)
def test_mistakes_are_named_with_their_cure(text, fault):
    with pytest.raises(RequestError, match=fault):
        parse(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("tests.outside:rotated:x", "the argument by of 'tests.outside:rotated:x' is 'x'"),
        ("tests.outside:rotated:1:2", "gives tests.outside:rotated an argument it does not know"),
        ("tests.outside:rotated:300", "rotated cannot move by 300"),
        ("tests.outside:Rotated:3", "does not say that it is an encoding"),
        ("tests.outside:none", "has no function 'none'"),
        ("tests.outside:nothing", "returned NoneType: it must return an encoding"),
        ("tests.outside:unread", "the tag 'tests.unread', which nobody can read"),
        ("tests.nowhere:rotated", "cannot be imported"),
        ("diminishing+tests.outside:rotated", "cannot be diminishing"),
        ("haf:bfloat16", "no encoding is called 'haf': did you mean 'half'"),
    ],
)
def test_mistakes_in_the_name_of_an_encoding_from_outside_are_named(text, fault):
    with pytest.raises(RequestError, match=fault):
        parse(text, outside=True)


def test_an_encoding_from_outside_that_changes_nothing_is_plain():
    assert parse("tests.outside:rotated:0", outside=True) == plain()


def test_code_from_outside_is_imported_only_where_the_caller_says_so():
    with pytest.raises(RequestError, match=r"tests\.outside:rotated is code from outside"):
        parse("ef+tests.outside:rotated:3")
    with pytest.raises(RequestError, match="name it for a tensor role"):
        build({"name": "cvfl", "compressor": "tests.outside:rotated"})


def test_a_foreign_encoding_has_no_text():
    with pytest.raises(RequestError, match="has no text"):
        describe(object())
