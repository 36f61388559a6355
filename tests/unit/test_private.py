"""What a party keeps to itself stays so: its files, and what its failures say to others."""

from __future__ import annotations

import os

import pytest

import colonnade as cn
from colonnade.cli import main
from colonnade.cli.reporter import Reporter
from colonnade.errors import AbsentError, BreachError, ColonnadeError, WireError
from colonnade.record.chain import Chain
from colonnade.record.checkpoints import CheckpointError, FileStore
from colonnade.record.party_folder import PartyFolder
from colonnade.wire.messages import MESSAGES, Control, Message


@pytest.fixture
def folder(tmp_path):
    """A folder that is there already, and that everybody may read."""
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    yield tmp_path
    os.umask(before)


def exposed(folder) -> list[str]:
    """The files below a folder that others than their owner may read."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.stat().st_mode & 0o077
    )


def test_the_files_of_a_run_are_for_their_owner_only(folder, capsys):
    for name in ("job.toml", "summary.json", "history.parquet", "ledger.json"):
        (folder / name).touch(0o644)
        (folder / name).unlink()
    run = cn.simulate(cn.load("digits", ["train.rounds=2"]))
    run.save(folder / "out")
    assert exposed(folder) == []
    for path in (folder / "out").rglob("*.*"):
        path.chmod(0o644)
    run.save(folder / "out")
    assert exposed(folder) == [], "also where files were there before"


def test_the_files_of_a_party_are_for_their_owner_only(folder, capsys):
    from rich.console import Console

    own = PartyFolder(folder)
    own.remember("seed", 5)
    (folder / "ledger.chain").touch(0o644)
    Chain.open(own.chain, "lab", "digest", 0).close()
    FileStore(own.checkpoints, "lab", "digest").save(1, {"round": 1})
    Reporter(Console(), folder / "log.txt", quiet=True).close()
    own.complete()
    own.reconciled({})
    own.close()
    assert exposed(folder) == []


def test_keys_in_a_folder_that_is_there_are_for_their_owner_only(folder, capsys):
    assert main(["keys", "init", str(folder)]) == 0
    assert main(["keys", "issue", str(folder), "--party", "bank"]) == 0
    assert [name for name in exposed(folder) if name.endswith("key.pem") or "ca.key" in name] == []


def every_error(root=ColonnadeError):
    yield root
    for each in root.__subclasses__():
        yield from every_error(each)


def test_other_parties_hear_of_no_local_file():
    sentence = "/home/ann/rows.csv cannot be read"
    for kind in set(every_error()) - {BreachError, *every_error(cn.PartyError)}:
        told = kind(sentence).for_peers()
        concerns_all = issubclass(kind, cn.DeadlockError | WireError)
        assert ("/home" in told) == concerns_all, kind
        assert told, kind
    assert AbsentError("telco did not come").for_peers() == "telco did not come"
    assert CheckpointError(sentence).for_peers().startswith("the checkpoint cannot be written")


def test_every_message_says_what_it_is_for():
    assert not hasattr(Message, "PURPOSE"), "nothing is control by omission"
    for message in MESSAGES.values():
        own = any("PURPOSE" in vars(each) for each in message.__mro__[:2])
        assert own, message
        assert issubclass(message, Control) == (message.PURPOSE == "control")
        assert message.PURPOSE != "control" or not message.packed(None), "control has no tensor"
