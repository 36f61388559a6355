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
from colonnade.party.state import StateError
from colonnade.track import checkpoints, sealed
from colonnade.track.checkpoints import CheckpointError, FileStore, MemoryStore
from colonnade.track.sealed import FORMAT, Header, pack, unpack


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


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_is_loaded(store):
    assert store.rounds() == ()
    for round in (2, 4, 6):
        store.save(round, tree(round))
    assert store.rounds() == (2, 4, 6)
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
    assert store.rounds() == (6, 8, 10)


def test_a_round_can_be_saved_anew(store):
    for round in (2, 4):
        store.save(round, tree(round))
    store.save(4, tree(5))
    assert is_of(store.load(4), 5)
    assert store.rounds() == (2, 4)


def test_going_back_forgets_what_came_after(store):
    for round in (2, 4, 6):
        store.save(round, tree(round))
    store.forget_after(4)
    assert store.rounds() == (2, 4)
    store.forget_after(4)
    store.save(3, tree(3))
    assert store.rounds() == (2, 3)
    store.forget_after(0)
    assert store.rounds() == ()


def test_files_are_their_owners_and_found_again(tmp_path):
    file_store(tmp_path).save(120, tree(120))
    (path,) = tmp_path.iterdir()
    assert path.name == "checkpoint-00000120.state"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = file_store(tmp_path)
    assert again.rounds() == (120,)
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
    assert store.rounds() == (2,)
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
    assert again.rounds() == again.rounds() == (2, 4)
    assert len(again.faults) == 1
    assert read == [2, 4, 6]
    (tmp_path / "checkpoint-00000004.state").write_bytes(b"other")
    assert again.rounds() == (2,)
    assert len(again.faults) == 2


def test_where_none_is_sound_it_says_so(tmp_path):
    (tmp_path / "checkpoint-00000006.state").write_bytes(b"")
    store = file_store(tmp_path)
    assert store.rounds() == ()
    assert store.faults == [
        "checkpoint-00000006 is damaged (it does not begin as a checkpoint does): there is no other"
    ]


def test_damaged_ones_do_not_push_out_sound_ones(tmp_path):
    store = file_store(tmp_path, keep=2)
    for round in (2, 4):
        store.save(round, tree(round))
    (tmp_path / "checkpoint-00000004.state").write_bytes(b"")
    store.save(6, tree(6))
    assert store.rounds() == (2, 6)
    store.save(8, tree(8))
    assert store.rounds() == (6, 8)
    assert names(tmp_path) == ["checkpoint-00000006.state", "checkpoint-00000008.state"]


def test_a_file_under_another_name_is_damaged(tmp_path):
    store = file_store(tmp_path)
    store.save(2, tree(2))
    (tmp_path / "checkpoint-00000002.state").rename(tmp_path / "checkpoint-00000004.state")
    assert store.rounds() == ()
    assert "it is of round 2" in store.faults[0]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (Header(FORMAT, "d2", "bank", 2), "its digest is d2, this job's is d1: choose another"),
        (Header(FORMAT, "d1", "telco", 2), "the party 'telco', not 'bank': choose another --out"),
        (Header(FORMAT + 1, "d1", "bank", 2), "has the format 2, .* reads format 1: choose"),
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
    assert store.rounds() == ()
    store.forget_after(0)
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
    assert store.rounds() == (2, 4)


def test_the_old_goes_only_when_the_new_is_durable(tmp_path, monkeypatch):
    """At the folder's fsync the new one has its name, and all old ones are still there."""
    store = file_store(tmp_path, keep=1)
    store.save(2, tree(2))

    def fail(folder):
        assert len(names(folder)) == 2
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "_force_folder", fail)
        with pytest.raises(CheckpointError):
            store.save(4, tree(4))
    assert file_store(tmp_path).rounds() == (2, 4)


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
