"""Timelines and exchanges: packed, spilled, saved, read again, and from files of anybody."""

from __future__ import annotations

import copy
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.errors import RequestError
from colonnade.formats import METADATA_KEY
from colonnade.record import exchanges as exchanges_module
from colonnade.record import timeline as timeline_module
from colonnade.record.events import LocalDone, Resumed, RoundDone
from colonnade.record.exchanges import Exchanges
from colonnade.record.pieces import Pieces
from colonnade.record.timeline import NEITHER, Span, Timeline
from colonnade.record.timeline_file import (
    read_exchanges,
    read_timeline,
    read_timelines,
    save_exchanges,
    save_timeline,
    timeline_batches,
)

NS = st.integers(-(2**50), 2**50)
SPANS = st.lists(
    st.builds(
        Span,
        st.sampled_from(["forward", "local", "wait", "send", "receive"]),
        NS,
        NS,
        st.integers(0, 2**40),
        st.integers(0, 2**40),
        st.sampled_from(["", "bank", "<b>lab</b>"]),
        st.sampled_from(["", "Embedding", "Gradient"]),
    ),
    max_size=60,
)


@pytest.fixture(autouse=True)
def _small_memory(monkeypatch):
    """Everything is packed and spilled after a few records."""
    monkeypatch.setattr(timeline_module, "PACK_EVERY", 4)
    monkeypatch.setattr(timeline_module, "SPILL_EVERY", 12)
    monkeypatch.setattr(exchanges_module, "OPEN_MAX", 5)
    monkeypatch.setattr(exchanges_module, "CLOSE_EVERY", 2)


def noted(spans):
    timeline = Timeline()
    for span in spans:
        timeline.add(*span)
    return timeline


@given(SPANS)
def test_what_is_noted_comes_out_again_wherever_it_was_kept(spans):
    timeline = noted(spans)
    assert list(timeline) == spans and len(timeline) == len(spans)
    # As Python copies them, without a file of their own.
    assert copy.copy(timeline) == spans
    for kind in {span.kind for span in spans}:
        assert timeline.total_ns(kind) == sum(
            s.end_ns - s.start_ns for s in spans if s.kind == kind
        )
    busy = sum(span.end_ns - span.start_ns for span in spans if span.kind not in NEITHER)
    assert timeline.busy_ns() == busy


@given(st.dictionaries(st.sampled_from(["bank", "lab", "\x1b[2J<i>"]), SPANS, max_size=3))
def test_a_saved_timeline_is_read_as_it_was(tmp_path_factory, parties):
    path = tmp_path_factory.mktemp("run") / "timeline.parquet"
    save_timeline(path, {party: noted(spans) for party, spans in parties.items()})
    assert read_timelines(path) == {party: spans for party, spans in parties.items() if spans}
    assert path.stat().st_mode & 0o777 == 0o600
    assert pq.read_schema(path).metadata[METADATA_KEY.encode()] == b"2"


def test_memory_holds_a_bounded_number_of_spans():
    timeline = Timeline()
    for number in range(1000):
        timeline.add("forward", number, number + 1)
        assert timeline._rows + len(timeline._recent) // 5 <= 12 + 4
    assert len(timeline) == 1000


def test_what_a_crash_leaves_of_a_timeline_is_gone_on_from(tmp_path):
    path = tmp_path / "timeline.part"
    first = Timeline(Pieces(path))
    first.add("forward", 0, 5, 1)
    first.flush()
    first.add("backward", 5, 9, 1)  # Lost: it is in the memory of a process that is killed.
    with path.open("ab") as file:
        file.write(b"COLPhalf of a piece")
    second = Timeline(Pieces(path))
    second.add("wait", 20, 30, peer="bank")
    second.flush()
    third = Timeline(Pieces(path))
    assert [span.kind for span in third] == ["forward", "wait"]
    assert (third.busy_ns(), third.total_ns("wait")) == (5, 10)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_piece_that_was_changed_ends_what_is_read(tmp_path):
    path = tmp_path / "timeline.part"
    pieces = Pieces(path)
    pieces.add(b"one", b"1" * 40)
    whole = path.stat().st_size
    pieces.add(b"two", b"2" * 40)
    content = bytearray(path.read_bytes())
    content[whole + 30] ^= 1
    path.write_bytes(content)
    assert [text for text, _ in Pieces(path)] == [b"one"]


def test_a_full_disk_ends_the_recording_and_not_the_training(monkeypatch):
    timeline, exchanges = Timeline(), Exchanges()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    for number in range(100):
        timeline.add("forward", number, number + 1)
        exchanges(RoundDone("lab", number, number, 100))
    assert timeline.busy_ns() == 100
    assert "lacks spans" in timeline.fault and "lacks rounds" in exchanges.fault


def test_a_file_of_four_columns_is_read_with_neutral_values_for_the_rest(tmp_path):
    path = tmp_path / "timeline.parquet"
    columns = {"party": ["lab"] * 2, "kind": ["forward", "wait"], "start_ns": [0, 5],
               "end_ns": [5, 9]}  # fmt: skip
    table = pa.table(columns)
    pq.write_table(table.set_column(1, "kind", table["kind"].dictionary_encode()), path)
    assert list(read_timeline(path)) == [Span("forward", 0, 5), Span("wait", 5, 9)]


def _write(path, columns, metadata=None):
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)


WRONG = {
    "no Parquet": (lambda path: path.write_bytes(b"<script>"), "damaged, or no timeline"),
    "empty": (lambda path: path.write_bytes(b""), "damaged, or no timeline"),
    "another table": (lambda path: _write(path, {"x": [1]}), "damaged, or no timeline"),
    "nulls": (
        lambda path: _write(
            path,
            {"party": ["a"], "kind": ["b"], "start_ns": pa.array([None], pa.int64()),
             "end_ns": [1]},
        ),
        "damaged, or no timeline",
    ),
    "text for numbers": (
        lambda path: _write(
            path, {"party": ["a"], "kind": ["b"], "start_ns": ["x"], "end_ns": [1]}
        ),
        "damaged, or no timeline",
    ),
    "newer": (
        lambda path: _write(
            path, {"party": ["a"], "kind": ["b"], "start_ns": [0], "end_ns": [1]},
            {METADATA_KEY: "3"},
        ),
        "has format 3, written by a newer Colonnade, and this one reads formats 1 to 2: update",
    ),
    "link": (lambda path: path.symlink_to("/dev/zero"), "no plain file"),
    "pipe": (lambda path: os.mkfifo(path), "no plain file"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_is_no_timeline_is_refused_in_a_sentence(tmp_path, case):
    make, sentence = WRONG[case]
    make(tmp_path / "timeline.parquet")
    with pytest.raises(RequestError, match=sentence):
        list(timeline_batches(tmp_path / "timeline.parquet"))


ROUNDS = st.lists(st.tuples(st.booleans(), st.integers(0, 8), st.integers(2, 9)), max_size=40)


@given(ROUNDS, st.booleans())
def test_exchanges_have_the_last_of_every_round(tmp_path_factory, told, on_disk):
    """Whatever comes between, in memory and on disk, in one process or in two."""
    path = tmp_path_factory.mktemp("party") / "exchanges.part" if on_disk else None
    exchanges, known, done = Exchanges(path), {}, 0
    for fresh, back, updates in told:
        if fresh or not known:
            exchanges(RoundDone("lab", 10 * done + 9, done, 99, sent_ns=10 * done, window=2))
            known[done + 1] = [done + 1, 10 * done, 0, 10 * done + 9, 2, 0, 0, 1, None]
            done += 1
        elif (round := max(1, done - back % 5)) in known:
            weights = (0.1, 0.5, 0.9)
            exchanges(LocalDone("lab", 0, round - 1, updates, 1, weights))
            known[round][7:] = [updates, 0.5]
        if on_disk and updates == 9:
            exchanges.flush()
            exchanges = Exchanges(path)
            done = min(done, back)
            exchanges(Resumed("lab", 0, done))
            known = {round: row for round, row in known.items() if round <= done}
            # What was flushed and is behind the checkpoint changes no more.
            break
    assert [[*row[:8], row.weight_p50] for row in exchanges] == list(known.values())
    file = tmp_path_factory.mktemp("run") / "exchanges.parquet"
    save_exchanges(file, {"lab": exchanges})
    assert read_exchanges(file).get("lab", []) == list(exchanges)


def test_a_weight_that_there_is_not_is_null(tmp_path):
    exchanges = Exchanges()
    exchanges(RoundDone("lab", 7, 0, 1))
    save_exchanges(tmp_path / "exchanges.parquet", {"lab": exchanges})
    table = pq.read_table(tmp_path / "exchanges.parquet")
    assert table["weight_p50"].null_count == 1 and table["round"].to_pylist() == [1]
    assert np.isnan(next(iter(exchanges.blocks()))["weight_p10"]).all()
