"""A recording has what crossed, no more than it may, for its owner only; and one that comes from
somebody else is believed in nothing."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from colonnade.errors import RequestError
from colonnade.privacy.recorded import read_recording
from colonnade.record import traffic
from colonnade.record.traffic import Recorder, pieces_in, replace_pieces
from colonnade.run.audit import audit

LABELS = torch.arange(10) % 2


def recorder(folder=None, **options):
    return Recorder(
        **{"rounds": 100, "own": {"train": {"labels": LABELS}}, "folder": folder} | options
    )


def note(kept, round, rows, value=1.0, peer="telco"):
    kept.note("sent", peer, "gradient", round, np.array(rows), torch.full((len(rows), 2), value))


def test_what_is_noted_is_read_again_with_the_truth_about_its_rows(tmp_path):
    kept = recorder(tmp_path)
    note(kept, 0, [3, 1], 1.5)
    note(kept, 1, [1, 4], 2.5, peer="")
    summary = kept.summary()
    assert (summary.tensors, summary.whole) == (2, True)
    read = read_recording("bank", tmp_path)
    assert set(read.streams) == {("sent", "telco", "gradient"), ("sent", "*", "gradient")}
    stream = read.streams["sent", "telco", "gradient"]
    assert stream.rows.tolist() == [3, 1] and stream.values.tolist() == [[1.5, 1.5]] * 2
    assert read.labels.rows.tolist() == [1, 3, 4] and read.labels.values.tolist() == [1, 1, 0]
    assert read.rounds == 2


def test_nothing_is_kept_of_later_rounds():
    kept = recorder(rounds=1)
    note(kept, 0, [0])
    note(kept, 1, [1])
    assert kept.summary().tensors == 1


def test_a_recording_is_for_its_owner_only(tmp_path):
    old = os.umask(0)
    try:
        kept = recorder(tmp_path)
        note(kept, 0, [0])
        kept.flush()
    finally:
        os.umask(old)
    (piece,) = pieces_in(tmp_path)
    assert piece.stat().st_mode & 0o777 == 0o600
    assert piece.parent.stat().st_mode & 0o777 == 0o700


def test_it_stops_at_its_bound_and_says_so():
    kept = recorder(bytes_max=200)
    for round in range(50):
        note(kept, round, [round % 10])
    summary = kept.summary()
    assert 0 < summary.tensors < 50 and not summary.whole


def test_pieces_are_written_when_they_are_large(tmp_path, monkeypatch):
    monkeypatch.setattr(traffic, "PIECE_BYTES", 100)
    kept = recorder(tmp_path)
    for round in range(20):
        note(kept, round, [0])
    written = len(pieces_in(tmp_path))
    assert written > 1
    kept.flush()
    assert len(read_recording("bank", tmp_path).streams["sent", "telco", "gradient"].rows) == 20


def test_another_process_goes_on_behind_the_first(tmp_path):
    for round in (0, 1, 1, 2):
        kept = recorder(tmp_path)
        note(kept, round, [round])
        kept.flush()
    stream = read_recording("bank", tmp_path).streams["sent", "telco", "gradient"]
    assert stream.round.tolist() == [0, 1, 1, 2]
    assert recorder(tmp_path).summary().tensors == 4


COLUMNS = torch.arange(20.0).view(10, 2)


def test_rows_that_are_evaluated_on_are_kept_apart_with_their_own_columns(tmp_path):
    own = {"train": {"columns": COLUMNS}, "test": {"columns": -COLUMNS}}
    kept = recorder(tmp_path, own=own, peer="bank")
    for split in ("train", "test", "test"):
        kept.note("sent", "", "evaluation", 3, np.array([2, 1]), torch.ones(2, 4), split)
    assert kept.summary().tensors == 3
    read = read_recording("telco", tmp_path)
    test = read.evaluated["test"]
    assert set(read.evaluated) == {"test"} and set(read.streams) == set(test.streams)
    assert test.streams["sent", "bank", "evaluation"].rows.tolist() == [2, 1, 2, 1]
    assert read.columns.of(np.array([1])).tolist() == [[2.0, 3.0]]
    assert test.columns.of(np.array([1])).tolist() == [[-2.0, -3.0]]


def test_evaluations_leave_half_of_the_room_to_the_training():
    kept = recorder(bytes_max=2000, own={})
    for round in range(50):
        kept.note("sent", "", "evaluation", round, np.arange(5), torch.ones(5, 8), "validation")
    evaluations = kept.summary().tensors
    assert 0 < evaluations < 50 and not kept.summary().whole
    note(kept, 49, [3])
    assert kept.summary().tensors == evaluations + 1


def test_what_has_no_room_is_not_even_copied():
    kept = recorder(own={})
    endless = torch.ones(1, 1).expand(1, 2**44)
    kept.note("sent", "telco", "gradient", 0, np.array([0]), endless)
    assert kept.summary().tensors == 0 and not kept.summary().whole


def test_of_ciphertexts_only_the_own_data_of_their_rows_is_kept(tmp_path):
    kept = recorder(tmp_path)
    for rows in ([4, 2], [2, 7]):
        kept.note("sent", "telco", "gradient", 0, np.array(rows), torch.ones(99).byte())
    assert kept.summary().tensors == 0
    read = read_recording("bank", tmp_path)
    assert not read.streams and read.labels.rows.tolist() == [2, 4, 7]


def test_a_tensor_that_changes_later_is_kept_as_it_crossed():
    kept, live = recorder(), torch.ones(1, 2)
    kept.note("sent", "telco", "gradient", 0, np.array([0]), live)
    live.zero_()
    kept.flush()
    assert load(kept.pieces[0])["0:sent:telco:gradient:0"].tolist() == [[1.0, 1.0]]


def test_a_recording_takes_the_place_of_the_one_before(tmp_path):
    replace_pieces(tmp_path, [b"a", b"b"])
    replace_pieces(tmp_path, [b"c"])
    assert [path.read_bytes() for path in pieces_in(tmp_path)] == [b"c"]


GRADIENT = "0:sent:telco:gradient:0"
ROWS = torch.arange(2)


@pytest.mark.parametrize(
    "tensors",
    [
        {GRADIENT: torch.ones(2, 3)},
        {GRADIENT: torch.ones(2, 3), f"{GRADIENT}:rows": torch.arange(3)},
        {GRADIENT: torch.ones(2, 3), f"{GRADIENT}:rows": torch.ones(2)},
        {GRADIENT: torch.ones(2, 3), f"{GRADIENT}:rows": torch.tensor([0, -1])},
        {GRADIENT: torch.ones(2, 3), f"{GRADIENT}:rows": torch.tensor([0, 2**50])},
        {GRADIENT: torch.ones(2), f"{GRADIENT}:rows": ROWS},
        {GRADIENT: torch.ones(2, 0), f"{GRADIENT}:rows": ROWS},
        {GRADIENT: torch.ones(2, 3, dtype=torch.float16), f"{GRADIENT}:rows": ROWS},
        {GRADIENT: torch.full((2, 3), torch.nan), f"{GRADIENT}:rows": ROWS},
        {"0:sent:../x:gradient:0": torch.ones(2, 3), "0:sent:../x:gradient:0:rows": ROWS},
        {"weights": torch.ones(2, 3), "weights:rows": ROWS},
        {"own:labels:0": torch.ones(2, 3), "own:labels:0:rows": ROWS},
        {GRADIENT: torch.full((2, 3), 1e20), f"{GRADIENT}:rows": ROWS},
        {GRADIENT: torch.ones(2, 3).long(), f"{GRADIENT}:rows": ROWS},
        {"own:columns:0": torch.ones(2, 3).long(), "own:columns:0:rows": ROWS},
        {"0:sent:labels:gradient:0": torch.ones(2), "0:sent:labels:gradient:0:rows": ROWS},
        *(
            {name: torch.ones(2, 3), f"{name}:rows": ROWS}
            for name in (
                "0:sent:telco:gradient:0:test",
                "0:sent:telco:gradient:0:train",
                "0:sent:telco:upload:0:validation",
                "0:sent:telco:evaluation:0:tests",
                "0:sent:telco:evaluation:test",
                "0:sent:telco:weights:0",
                "0:sent:*:sum:0",
                "0:received:telco:sum:0",
                "0:received:*:embedding:0",
                "0:received:telco:summand:0",
                "0:received:telco:sealed:0:test",
                "own:columns:0:nowhere",
            )
        ),
        *(
            {name: torch.ones(2), f"{name}:rows": ROWS}
            for name in ("0:received:*:sum:0", "0:sent:bank:summand:0:test", "own:columns:0:test")
        ),
    ],
)
def test_tensors_that_nobody_records_are_refused(tmp_path, tensors):
    replace_pieces(tmp_path, [save(tensors)])
    with pytest.raises(RequestError, match="recording of bank"):
        read_recording("bank", tmp_path)


def test_rows_without_truth_and_other_widths_are_refused(tmp_path):
    other = "1:sent:telco:gradient:1"
    piece = {GRADIENT: torch.ones(2, 3), f"{GRADIENT}:rows": ROWS}
    replace_pieces(
        tmp_path, [save(piece | {other: torch.ones(2, 4), f"{other}:rows": ROWS.clone()})]
    )
    with pytest.raises(RequestError, match="recording of bank"):
        read_recording("bank", tmp_path)
    names = "0:sent:telco:embedding:0", "1:sent:telco:evaluation:0"
    for name, width in zip(names, (3, 4), strict=True):
        piece |= {name: torch.ones(2, width), f"{name}:rows": ROWS.clone()}
    replace_pieces(tmp_path, [save(piece)])
    with pytest.raises(RequestError, match="recording of bank"):
        read_recording("bank", tmp_path)
    rows = torch.arange(20)
    piece = {GRADIENT: torch.ones(20, 3), f"{GRADIENT}:rows": rows}
    own = {"own:labels:0": rows[:5] % 2, "own:labels:0:rows": torch.arange(5)}
    replace_pieces(tmp_path, [save(piece | own)])
    (tmp_path / "start.json").write_text("{}")
    with pytest.raises(RequestError, match="lacks the truth"):
        audit(tmp_path)


@pytest.mark.parametrize("kind", ["evaluation", "summand"])
def test_evaluated_rows_without_truth_are_refused(tmp_path, kind):
    """Those that there is something of are not looked up among the training rows."""
    rows, name = torch.arange(20), f"0:sent:bank:{kind}:0:test"
    piece = {name: torch.ones(20, 3), f"{name}:rows": rows}
    for split, count in (("", 20), (":test", 5)):
        own = f"own:columns:0{split}"
        piece |= {own: torch.ones(count, 2), f"{own}:rows": torch.arange(count)}
    replace_pieces(tmp_path, [save(piece)])
    (tmp_path / "start.json").write_text("{}")
    with pytest.raises(RequestError, match="lacks the truth"):
        audit(tmp_path)


def test_links_and_damaged_files_are_refused(tmp_path):
    replace_pieces(tmp_path, [b"no tensors at all"])
    with pytest.raises(RequestError, match="damaged"):
        read_recording("bank", tmp_path)
    (piece,) = pieces_in(tmp_path)
    piece.unlink()
    piece.symlink_to("/dev/zero")
    with pytest.raises(RequestError, match="no plain file"):
        read_recording("bank", tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "traffic").symlink_to(tmp_path / "traffic")
    with pytest.raises(RequestError, match="no plain folder"):
        read_recording("bank", tmp_path / "other")


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_a_recording_or_are_refused(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("any")
    replace_pieces(folder, [content])
    with pytest.raises(RequestError):
        read_recording("bank", folder)
