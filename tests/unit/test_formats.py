"""Versions of formats: every file that was ever released is read, and what cannot be read is
refused with one sentence that names the file, its version, what is read here, and the cure."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import struct

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from colonnade import formats
from colonnade.align.desk import Desk
from colonnade.cli import main
from colonnade.data.aligned import ROWS, read_facts
from colonnade.errors import DataError, RequestError
from colonnade.formats import FORMATS, METADATA_KEY, Format, check, check_json, check_metadata
from colonnade.predict.account import RowAccount
from colonnade.privacy.recorded import read_recording
from colonnade.record.card import read_card
from colonnade.record.chain import verify
from colonnade.record.checkpoints import FileStore
from colonnade.record.inspection import inspect
from colonnade.record.party_folder import PartyFolder, read_party
from colonnade.record.prediction import read_prediction
from colonnade.record.run import read_rows
from colonnade.record.timeline_file import read_exchanges, read_timeline, read_timelines
from colonnade.run.points import Points
from colonnade.run.sweep import Sweep
from tests.formats import make

RELEASES = sorted(path.name for path in make.HERE.iterdir() if (path / "run").is_dir())
NEWER = "written by a newer Colonnade"
ODD = [0, -1, "1", "two", 1.0, 1.5, True, [1], {}]
"""What is no version."""


@pytest.fixture(params=RELEASES)
def kept(request, tmp_path):
    """A copy of the specimens of one release."""
    place = tmp_path / "kept"
    shutil.copytree(make.HERE / request.param, place)
    return place


def test_there_are_specimens_of_what_is_written_now_and_of_what_had_no_version():
    assert "before" in RELEASES and len(RELEASES) > 1


def test_a_run_folder_of_every_release_is_read(kept):
    folder = kept / "run"
    found = inspect(folder)
    assert [each["party"] for each in found["parties"]] == ["p0", "p1"]
    assert {each["state"] for each in found["parties"]} == {"ended"}
    integrity = [each["model"]["integrity"] for each in found["parties"]]
    assert {state for each in integrity for state in each.values()} == {"verified"}
    history = read_rows(folder / "history.parquet", "history")
    assert [row["round"] for row in history] == [1, 2]
    assert [row["round"] for row in read_rows(folder / "rounds.parquet", "rounds")] == [1, 2]
    spans = read_timelines(folder / "timeline.parquet")["p0"]
    assert {span.kind for span in spans} >= {"forward", "wait"}
    if (path := folder / "exchanges.parquet").exists():
        assert [len(own) for own in read_exchanges(path).values()] == [2, 2]
    for name in ("p0", "p1"):
        assert read_card(folder / "parties" / name).party == name
        assert read_recording(name, folder / "parties" / name).streams


def test_a_partys_folder_of_every_release_is_read_and_goes_on(kept):
    folder = kept / "party"
    party, facts = read_party(folder)
    assert (party.fresh, facts["rounds"], party.ledger[0]["bytes"]) == (2, make.ROUND, 64)
    found = verify(folder / "ledger.chain")
    assert not found.fault and found.totals == {("telco", "received", "Embedding"): (1, 64)}
    own = PartyFolder(folder)
    try:
        assert own.remember("started_ns", 8) == 7 and own.rounds == make.ROUND
        assert own.remember("seed", 9) == 9
    finally:
        own.close()
    store = FileStore(folder / "checkpoints", "bank", "d1")
    assert store.marks() == {make.ROUND: make.ATTEMPT} and store.run == make.RUN
    assert store.load(make.ROUND)["weights"].tolist() == [1, 1]


def test_an_alignment_of_every_release_is_read_and_can_be_updated(kept):
    folder = kept / "alignment"
    assert read_facts(folder).count == 2
    assert sorted(np.load(folder / ROWS).tolist()) == [0, 1]
    desk = Desk(folder / "work")
    assert desk.secrets(make.RUN, lambda count: b"\1" * count).key == bytes(32)
    assert len(desk.ids) == 2


def test_the_studies_of_every_release_are_read(kept):
    assert Sweep.load(kept / "studies" / "sweep").best().value == 0.5
    (point,) = (kept / "studies" / "race" / "points").glob("*.json")
    points = Points(point.parent)
    assert points._has(point.stem) and points._known[point.stem].test == 0.5
    run = kept / "studies" / "comparison" / "runs" / "fedsgd" / "seed-0"
    assert read_rows(run / "history.parquet", "history")[0]["accuracy"] == 0.5


def test_what_rows_have_told_is_carried_over_from_every_release(kept):
    account = RowAccount(kept / "account", bytes(16) + b"\1" * 16, "ids", once=1.0)
    assert account.highest == 2.0


def test_what_a_prediction_says_of_itself_is_read_from_every_release_that_had_it(kept):
    folder = kept / "prediction"
    if folder.exists():
        assert read_prediction(folder).rows == 8


@pytest.mark.parametrize("value", [2, 10**6, *ODD], ids=repr)
def test_a_prediction_of_another_format_is_refused(value, tmp_path):
    (newest,) = sorted(make.HERE.glob("*/prediction/prediction.json"))[-1:]
    path = tmp_path / newest.name
    shutil.copy(newest, path)
    in_json("format", value)(path)
    with pytest.raises(RequestError, match=NEWER if value in (2, 10**6) and type(value) is int
                       else "says that its format is"):  # fmt: skip
        read_prediction(tmp_path)


# Every reader, and how the version of what it reads is changed.


def in_json(key, value):
    def change(path):
        tables = json.loads(path.read_text())
        tables.pop(key, None)
        path.write_text(json.dumps(tables if value is None else tables | {key: value}))

    return change


def in_parquet(value):
    def change(path):
        table = pq.read_table(path)
        said = {} if value is None else {METADATA_KEY: str(value)}
        pq.write_table(table.replace_schema_metadata(said), path)

    return change


def in_safetensors(value):
    def change(path):
        tensors = safetensors.numpy.load(path.read_bytes())
        said = None if value is None else {METADATA_KEY: str(value)}
        path.write_bytes(safetensors.numpy.save(tensors, said))

    return change


def in_chain(value):
    def change(path):
        body = json.dumps(
            {"n": 0, "at": 7, "chain": value, "party": "bank", "job": "job"}, separators=(",", ":")
        ).encode()[:-1]
        head = hashlib.sha256(body).hexdigest()
        path.write_bytes(body + b',"hash":"%s"}\n' % head.encode())

    return change


def in_checkpoint(value, **more):
    """As a later version might write it: other fields too, and others of ours gone."""

    def change(path):
        head = msgspec.msgpack.encode({"format": value, **more})
        body = struct.pack("<IQQ", len(head), 0, 0) + head
        path.write_bytes(b"COLONNA\n" + hashlib.sha256(body).digest() + body)

    return change


def party_numbers(folder):
    own = PartyFolder(folder)
    try:
        own.remember("started_ns", 0)
    finally:
        own.close()


READERS = {
    "run": ("run/summary.json", lambda at: inspect(at / "run")),
    "party": ("party/party.json", lambda at: read_party(at / "party")),
    "start": ("party/start.json", lambda at: party_numbers(at / "party")),
    "attempts": ("party/checkpoints/run.json",
                 lambda at: FileStore(at / "party" / "checkpoints", "bank", "d1")),
    "model": ("run/parties/p0/model.json", lambda at: read_card(at / "run" / "parties" / "p0")),
    "alignment": ("alignment/alignment.json", lambda at: read_facts(at / "alignment")),
    "desk": ("alignment/work/secrets.json",
             lambda at: Desk(at / "alignment" / "work").secrets(make.RUN, bytes)),
    "sweep": ("studies/sweep/sweep.json", lambda at: Sweep.load(at / "studies" / "sweep")),
}  # fmt: skip
KINDS = {"start": "party"}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("value", [2, 10**6, *ODD], ids=repr)
def test_a_json_file_of_another_format_is_refused_with_the_cure(name, value, tmp_path):
    place = tmp_path / "kept"
    shutil.copytree(make.HERE / "before", place)
    file, read = READERS[name]
    read(place)
    in_json("format", value)(place / file)
    with pytest.raises(RequestError) as refusal:
        read(place)
    said, known = str(refusal.value), FORMATS[KINDS.get(name, name)]
    assert said.startswith(f"{place / file} ") and known.reads in said and ": " in said
    assert (NEWER in said) == (value in (2, 10**6) and type(value) is int)
    assert "\n" not in said


@pytest.mark.parametrize("value", [2, 0, "x", "\x1b[2J", "9" * 5000, "²"], ids=ascii)
@pytest.mark.parametrize("kind", ["history", "rounds"])
def test_a_table_of_another_format_is_refused(kind, value, tmp_path):
    path = tmp_path / "table.parquet"
    shutil.copy(make.HERE / "before" / "run" / f"{kind}.parquet", path)
    in_parquet(value)(path)
    with pytest.raises(RequestError, match=NEWER if value == 2 else "says that its format is|has"):
        read_rows(path, kind)
    in_parquet(FORMATS[kind].version)(path)
    assert len(read_rows(path, kind)) == 2


@pytest.mark.parametrize("value", [3, 0, "x"])
def test_a_timeline_of_another_format_is_refused(value, tmp_path):
    path = tmp_path / "timeline.parquet"
    shutil.copy(make.HERE / "before" / "run" / "timeline.parquet", path)
    in_parquet(value)(path)
    with pytest.raises(RequestError, match=NEWER if value == 3 else "says that its format is"):
        read_timeline(path)


@pytest.mark.parametrize("value", [2, 0, "x"])
def test_a_recording_of_another_format_is_refused(value, tmp_path):
    own = tmp_path / "p0"
    shutil.copytree(make.HERE / "before" / "run" / "parties" / "p0", own)
    in_safetensors(value)(own / "traffic" / "000001.safetensors")
    with pytest.raises(RequestError, match=NEWER if value == 2 else "says that its format is"):
        read_recording("p0", own)


@pytest.mark.parametrize("value", [2, 10**9, 0, -1, "1", 1.0])
def test_a_ledger_of_another_format_is_refused_and_not_called_broken(value, tmp_path, capsys):
    path = tmp_path / "ledger.chain"
    in_chain(value)(path)
    with pytest.raises(RequestError, match=r"ledger\.chain") as refusal:
        verify(path)
    is_newer = type(value) is int and value > 1
    assert (NEWER in str(refusal.value)) == is_newer and "reads format 1" in str(refusal.value)
    assert main(["ledger", str(tmp_path)]) == 2
    assert "reads format 1" in re.sub(r"\s+", " ", capsys.readouterr().err)


def test_a_ledger_whose_later_format_has_other_fields_is_newer_and_not_damaged(tmp_path):
    path = tmp_path / "ledger.chain"
    path.write_text('{"chain":2,"who":"bank"}\n')
    with pytest.raises(RequestError, match=NEWER):
        verify(path)


@pytest.mark.parametrize("value", [4, 10**9, 2, 1, 0, "3", 3.0, None])
def test_a_checkpoint_of_another_format_is_refused_and_kept(value, tmp_path):
    path = tmp_path / "checkpoint-00000002.state"
    in_checkpoint(value, steps=[1, 2])(path)
    written = path.read_bytes()
    with pytest.raises(
        RequestError, match=r"checkpoint-00000002.state .* reads format 3: "
    ) as said:
        FileStore(tmp_path, "bank", "d1")
    is_newer = type(value) is int and value > 3
    assert (NEWER in str(said.value)) == is_newer
    assert ("an older Colonnade" in str(said.value)) == (value in (2, 1, None))
    assert path.read_bytes() == written


def test_a_point_of_a_race_from_a_newer_version_is_not_trained_over(tmp_path):
    shutil.copytree(make.HERE / "before" / "studies" / "race" / "points", tmp_path / "points")
    (path,) = (tmp_path / "points").glob("*.json")
    in_json("format", 2)(path)
    with pytest.raises(RequestError, match=NEWER):
        Points(tmp_path / "points")._has(path.stem)


def test_an_account_from_a_newer_version_is_not_called_damaged(tmp_path):
    content = (make.HERE / "before" / "account" / "spent").read_bytes()
    (tmp_path / "spent").write_bytes(content[:15] + b"2" + content[16:])
    with pytest.raises(RequestError, match=NEWER):
        RowAccount(tmp_path, bytes(32), "ids", once=1.0)


def test_every_format_is_in_the_specimens_of_this_version():
    """Whoever raises a version makes specimens of it."""
    newest = {
        "run": in_file("run/summary.json"),
        "party": in_file("party/party.json"),
        "history": in_table("run/history.parquet"),
        "rounds": in_table("run/rounds.parquet"),
        "timeline": in_table("run/timeline.parquet"),
        "exchanges": in_table("run/exchanges.parquet"),
        "checkpoint": {3},
        "attempts": in_file("party/checkpoints/run.json"),
        "ledger": in_file("party/ledger.chain", "chain"),
        "model": in_file("run/parties/p0/model.json"),
        "recording": in_pieces("run/parties/p0/traffic/000001.safetensors"),
        "audit": in_file("run/privacy.json"),
        "alignment": in_file("alignment/alignment.json"),
        "desk": in_file("alignment/work/secrets.json"),
        "comparison": in_file("studies/comparison/comparison.json"),
        "sweep": in_file("studies/sweep/sweep.json"),
        "race": in_file("studies/race/race.json"),
        "study": in_file("studies/study/claims.json") & in_table("studies/study/results.parquet"),
        "account": {1},
        "prediction": in_file("prediction/prediction.json"),
    }
    assert newest.keys() == FORMATS.keys()
    for kind, known in FORMATS.items():
        wanted = set(range(known.oldest, known.version + 1))
        assert wanted <= newest[kind], f"no specimen of {kind}: python -m tests.formats.make NAME"


def in_file(name, key="format"):
    paths = [path for each in RELEASES if (path := make.HERE / each / name).exists()]
    first = [path.read_text() for path in paths]
    lines = [text.splitlines()[0] if name.endswith(".chain") else text for text in first]
    return {json.loads(line).get(key, 1) for line in lines}


def in_table(name):
    paths = [path for each in RELEASES if (path := make.HERE / each / name).exists()]
    read = [pq.read_schema(path).metadata or {} for path in paths]
    return {int(found.get(METADATA_KEY.encode(), 1)) for found in read}


def in_pieces(name):
    paths = [make.HERE / each / name for each in RELEASES]
    opened = [safetensors.safe_open(path, "numpy").metadata() or {} for path in paths]
    return {int(found.get(METADATA_KEY, 1)) for found in opened}


# The rules themselves.


@given(st.integers(1, 50), st.integers(0, 49), st.integers(1, 10**30))
def test_a_version_is_read_exactly_if_it_is_between_the_oldest_and_the_newest(oldest, more, found):
    known = Format("x.json", oldest + more, oldest, cure="make it again")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "FORMATS", {"x": known})
        if oldest <= found <= known.version:
            assert check("x", found, "x.json") == found
            return
        with pytest.raises(RequestError) as refusal:
            check("x", found, "x.json")
    assert (NEWER in str(refusal.value)) == (found > known.version)
    assert ("make it again" in str(refusal.value)) == (found < oldest)


@given(st.one_of(st.integers(max_value=0), st.floats(), st.text(), st.booleans(), st.binary()))
def test_what_is_no_version_is_refused_in_one_short_sentence(found):
    with pytest.raises(RequestError) as refusal:
        check("run", found, "summary.json")
    said = str(refusal.value)
    assert said.isprintable() and len(said) < 250


def test_no_version_is_the_first():
    assert check("run", None, "summary.json") == 1
    assert check_json("run", b"{}", "summary.json") == 1
    assert check_json("run", b'{"format": null}', "summary.json") == 1
    assert check_metadata("history", None, "history.parquet") == 1
    assert check_metadata("history", {b"pandas": b"{}"}, "history.parquet") == 1


@pytest.mark.parametrize("content", [b"", b"[1]", b"7", b"\xff", b"{", b"[" * 100_000])
def test_what_is_no_json_object_is_left_to_its_reader(content):
    assert check_json("run", content, "summary.json") == FORMATS["run"].version


def test_an_alignment_is_refused_as_data_is(tmp_path):
    (tmp_path / "alignment.json").write_text('{"format": 9}')
    with pytest.raises(DataError, match=NEWER):
        read_facts(tmp_path)
