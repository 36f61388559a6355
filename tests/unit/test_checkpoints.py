"""A checkpoint is whole or not there, whatever happens while it is written or lies on the disk."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from colonnade.errors import FailedError, RequestError
from colonnade.record import checkpoints, sealed
from colonnade.record.checkpoints import CheckpointError, FileStore
from colonnade.record.sealed import FORMAT, Header, pack, unpack
from colonnade.record.tree import StateError
from colonnade.testing.stores import MemoryStore


def tree(round: int) -> dict:
    weights = torch.full((3, 2), float(round))
    return {"round": round, "weights": weights, "rows": np.arange(round), "none": None}


def is_of(state, round: int) -> bool:
    return (
        state["round"] == round
        and torch.equal(state["weights"], torch.full((3, 2), float(round)))
        and state["rows"].tolist() == list(range(round))
    )


def file_store(folder: Path, **options) -> FileStore:
    return FileStore(folder, "bank", "d1", **options)


@pytest.fixture(params=["memory", "files"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else file_store(tmp_path / "a" / "b")


def rounds(store) -> tuple[int, ...]:
    return tuple(store.marks())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_is_loaded(store):
    assert rounds(store) == ()
    for round in (2, 4, 6):
        store.save(round, tree(round))
    assert rounds(store) == (2, 4, 6)
    assert all(is_of(store.load(round), round) for round in (4, 2, 6))


def test_a_state_is_saved_as_it_is_at_that_instant(store):
    state = tree(2)
    store.save(2, state)
    state["weights"] += 1
    store.load(2)["weights"].add_(1)
    assert is_of(store.load(2), 2)


def test_the_newest_stay(store):
    for round in range(2, 12, 2):
        store.save(round, tree(round))
    assert rounds(store) == (6, 8, 10)


def test_a_round_can_be_saved_anew(store):
    for round in (2, 4):
        store.save(round, tree(round))
    store.save(4, tree(5))
    assert is_of(store.load(4), 5)
    assert rounds(store) == (2, 4)


def test_going_back_deletes_nothing_until_the_new_attempt_has_come_as_far(store):
    store.begin("r1", "first", 0)
    for round in (2, 4, 6):
        store.save(round, tree(round))
    store.begin("r1", "second", 2)
    assert store.marks() == {2: "first", 4: "first", 6: "first"}
    store.save(4, tree(5))
    assert store.marks() == {2: "first", 4: "second", 6: "first"}
    assert is_of(store.load(4), 5) and is_of(store.load(6), 6)
    store.save(7, tree(7))
    assert store.marks() == {2: "first", 4: "second", 7: "second"}


def test_one_who_makes_all_begin_again_and_again_fills_no_disk(store):
    for attempt in range(20):
        store.begin("r1", str(attempt), 0)
        for round in range(40 - 2 * attempt, 40 - attempt):
            store.save(round + 1, tree(1))
    assert len(rounds(store)) <= 2 * checkpoints.KEEP
    assert max(rounds(store)) == 39


def test_the_checkpoints_of_two_runs_do_not_mix(store):
    store.begin("r1", "a", 0)
    store.save(2, tree(2))
    with pytest.raises(AssertionError, match="do not mix"):
        store.begin("r2", "b", 0)


def test_a_folder_knows_its_run_again_and_refuses_what_is_of_another(tmp_path):
    for name, run in (("one", "r1"), ("other", "r2")):
        store = file_store(tmp_path / name)
        store.begin(run, "a", 0)
        assert file_store(tmp_path / name).run == run
        store.save(2 if name == "one" else 4, tree(2))
    strange = tmp_path / "other" / "checkpoint-00000004.state"
    strange.rename(tmp_path / "one" / strange.name)
    with pytest.raises(RequestError, match="is of another run of this job, r2, than the folder"):
        file_store(tmp_path / "one")


def test_checkpoints_that_are_gone_are_missed(tmp_path):
    store = file_store(tmp_path)
    store.begin("r1", "a", 0)
    file_store(tmp_path)  # nothing was saved, nothing is missed
    store.save(2, tree(2))
    (tmp_path / "checkpoint-00000002.state").unlink()
    with pytest.raises(RequestError, match="are gone or damaged: put them back, or begin anew"):
        file_store(tmp_path)


def test_files_are_their_owners_and_found_again(tmp_path):
    file_store(tmp_path).save(120, tree(120))
    (path,) = tmp_path.iterdir()
    assert path.name == "checkpoint-00000120.state"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = file_store(tmp_path)
    assert rounds(again) == (120,)
    assert is_of(again.load(120), 120)
    assert again.faults == []


def test_its_tensors_are_safetensors(tmp_path):
    from safetensors.torch import load

    data = b"".join(pack(Header(FORMAT), {"weights": torch.ones(2)}))
    (tensor,) = load(data[data.index(b'{"') - 8 :]).values()
    assert tensor.tolist() == [1.0, 1.0]


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_is_seen(tmp_path, data):
    """Every byte counts, from the first to the last."""
    sound = b"".join(pack(Header(FORMAT, "d1", "bank", 4), tree(4)))
    damaged = bytearray(sound)
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(sound) - 1))
        damaged[place] ^= data.draw(st.integers(1, 255))
    else:
        damaged = damaged[: data.draw(st.integers(0, len(sound) - 1))]
    with pytest.raises(StateError):
        unpack(bytes(damaged))
    (tmp_path / "checkpoint-00000004.state").write_bytes(damaged)
    (tmp_path / "checkpoint-00000002.state").write_bytes(
        b"".join(pack(Header(FORMAT, "d1", "bank", 2), tree(2)))
    )
    store = file_store(tmp_path)
    assert rounds(store) == (2,)
    assert is_of(store.load(2), 2)
    (fault,) = store.faults
    assert fault.startswith("checkpoint-00000004 is damaged (it")
    assert fault.endswith("): the one of round 2 is used")


def test_every_truncation_is_seen():
    sound = b"".join(pack(Header(FORMAT, "d1", "bank", 4), tree(4)))
    for length in range(len(sound)):
        with pytest.raises(StateError):
            unpack(sound[:length])


def test_damage_with_a_right_checksum_is_an_error_of_ours_only():
    """The seal is what tells; but nothing else than a StateError comes from behind it."""
    sound = b"".join(pack(Header(FORMAT, "d1", "bank", 4), tree(4)))
    for place in range(sealed._BODY, len(sound)):
        damaged = bytearray(sound)
        damaged[place] ^= 0x81
        body = damaged[sealed._BODY :]
        damaged[8 : sealed._BODY] = hashlib.sha256(body).digest()
        try:
            unpack(bytes(damaged))
        except StateError:
            continue


def test_a_fault_is_told_once_and_the_file_is_read_once(tmp_path, monkeypatch):
    store = file_store(tmp_path)
    for round in (2, 4):
        store.save(round, tree(round))
    (tmp_path / "checkpoint-00000006.state").write_bytes(b"")
    read = []
    inspect = checkpoints.inspect
    monkeypatch.setattr(checkpoints, "inspect", lambda *a: read.append(a[1]) or inspect(*a))
    again = file_store(tmp_path)
    assert rounds(again) == rounds(again) == (2, 4)
    assert len(again.faults) == 1
    assert read == [2, 4, 6]
    (tmp_path / "checkpoint-00000004.state").write_bytes(b"other")
    assert rounds(again) == (2,)
    assert len(again.faults) == 2


def test_where_none_is_sound_it_says_so(tmp_path):
    (tmp_path / "checkpoint-00000006.state").write_bytes(b"")
    store = file_store(tmp_path)
    assert rounds(store) == ()
    assert store.faults == [
        "checkpoint-00000006 is damaged (it does not begin as a checkpoint does): there is no other"
    ]


def test_damaged_ones_do_not_push_out_sound_ones(tmp_path):
    store = file_store(tmp_path, keep=2)
    for round in (2, 4):
        store.save(round, tree(round))
    (tmp_path / "checkpoint-00000004.state").write_bytes(b"")
    store.save(6, tree(6))
    assert rounds(store) == (2, 6)
    store.save(8, tree(8))
    assert rounds(store) == (6, 8)
    assert names(tmp_path) == ["checkpoint-00000006.state", "checkpoint-00000008.state"]


def test_a_file_under_another_name_is_damaged(tmp_path):
    store = file_store(tmp_path)
    store.save(2, tree(2))
    (tmp_path / "checkpoint-00000002.state").rename(tmp_path / "checkpoint-00000004.state")
    assert rounds(store) == ()
    assert "it is of round 2" in store.faults[0]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (Header(FORMAT, "d2", "bank", 2), "its digest is d2, this job's is d1: choose another"),
        (Header(FORMAT, "d1", "telco", 2), "the party 'telco', not 'bank': choose another --out"),
        (Header(FORMAT + 1, "d1", "bank", 2), "has format 4, written by a newer"),
    ],
)  # fmt: skip
def test_what_is_not_ours_is_refused(tmp_path, header, words):
    path = tmp_path / "checkpoint-00000002.state"
    path.write_bytes(b"".join(pack(header, tree(2))))
    with pytest.raises(RequestError, match=words):
        file_store(tmp_path)
    assert path.exists()


def test_other_files_are_left_alone_and_left_overs_are_not(tmp_path):
    for name in ("checkpoint-2.state", "checkpoint-00000002.stat", "notes.txt"):
        (tmp_path / name).write_text("mine")
    (tmp_path / ".checkpoint-00000002.state.part").write_text("half")
    store = file_store(tmp_path)
    assert rounds(store) == ()
    assert names(tmp_path) == ["checkpoint-00000002.stat", "checkpoint-2.state", "notes.txt"]


FAILING = {
    "open": (os, "open"),
    "write": (os, "fdopen"),
    "force": (os, "fsync"),
    "rename": (Path, "replace"),
}


@pytest.mark.parametrize("step", FAILING)
@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EROFS, "make the folder writable"),
        (errno.EIO, "see to the disk"),
        (errno.EMFILE, "raise the limit on open files (ulimit -n)"),
        (errno.ENFILE, "raise the limit on open files (ulimit -n)"),
    ],
)
def test_a_failing_disk_gets_a_sentence_and_harms_nothing(
    tmp_path, monkeypatch, step, number, cure
):
    store = file_store(tmp_path)
    store.save(2, tree(2))
    real = os.open

    def fail(*given):
        if step == "open" and not str(given[0]).endswith(".part"):
            return real(*given)
        if step == "write":
            os.close(given[0])
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(*FAILING[step], fail)
        with pytest.raises(CheckpointError) as raised:
            store.save(4, tree(4))
    assert isinstance(raised.value, FailedError)
    assert str(raised.value) == (
        f"the checkpoint {tmp_path}/checkpoint-00000004.state cannot be written "
        f"({os.strerror(number)}): {cure}, or choose another --out folder"
    )
    assert names(tmp_path) == ["checkpoint-00000002.state"]
    assert is_of(store.load(2), 2)
    store.save(4, tree(4))
    assert rounds(store) == (2, 4)


def test_the_old_goes_only_when_the_new_is_durable(tmp_path, monkeypatch):
    """At the folder's fsync the new one has its name, and all old ones are still there."""
    store = file_store(tmp_path, keep=1)
    store.save(2, tree(2))

    def fail(folder):
        assert len(names(folder)) == 2
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "force_folder", fail)
        with pytest.raises(CheckpointError):
            store.save(4, tree(4))
    assert rounds(file_store(tmp_path)) == (2, 4)


def test_what_cannot_be_used_gets_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be used for checkpoints"):
        file_store(tmp_path / "file")
    store = file_store(tmp_path / "folder")
    with pytest.raises(CheckpointError, match="cannot be read"):
        store.load(7)
    store.save(2, tree(2))
    (tmp_path / "folder" / "checkpoint-00000002.state").write_bytes(b"")
    with pytest.raises(CheckpointError, match="is damaged"):
        store.load(2)
