"""The hash-chained ledger: what it keeps, what it finds, and the command that shows it."""

import copy
import errno
import json
import os
import subprocess
import sys
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.cli.ledger import ledger
from colonnade.errors import FailedError, RequestError
from colonnade.record import chain as module
from colonnade.record.chain import Chain, reconcile, verify
from colonnade.wire.ledger import entries_of

JOB = "ab" * 32
NOW = 1_760_000_000_000_000_000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.chain"


@pytest.fixture
def chain(path):
    chain = Chain.open(path, "telco", JOB, NOW)
    yield chain
    chain.close()


def fill(chain, rounds=range(3)):
    for number in rounds:
        chain.message(NOW + number, "sent", "bank", "Embedding", number, 16_464)
        chain.message(NOW + number, "received", "bank", "Gradient", number, 16_400)


def build(path, rounds=3):
    chain = Chain.open(path, "telco", JOB, NOW)
    chain.note(NOW, "start")
    fill(chain, range(rounds))
    chain.close()
    return path


def build_twice(path):
    """A chain with an unfinished line in its middle."""
    path.write_bytes(build(path).read_bytes()[:-30])
    return build(path)


def test_the_format_is_what_the_docstring_says(path, chain):
    chain.message(NOW, "sent", 'ba"nk', "Embedding", 3, 16_464)
    chain.message(NOW, "received", "bank", "Hello", -1, 70)
    chain.note(NOW, "refused insurer: \x1b[2J\udc80 no", again=0)
    head, lines = "", []
    for raw in path.read_text().splitlines():
        body, _, end = raw.rpartition(',"hash":')
        head = sha256((head + body).encode()).hexdigest()
        assert end == f'"{head}"}}'
        lines.append(json.loads(raw))
        del lines[-1]["hash"]
    found = verify(path)
    assert head == chain.head == found.head and len(lines) == chain.entries == found.entries
    assert (found.party, found.job, found.fault) == ("telco", JOB, "")
    assert found.totals == found.standing | {
        ('ba"nk', "sent", "Embedding"): (1, 16_464), ("bank", "received", "Hello"): (1, 70)
    }  # fmt: skip
    assert lines == [
        {"n": 0, "at": NOW, "chain": 1, "party": "telco", "job": JOB},
        {"n": 1, "at": NOW, "way": "sent", "peer": 'ba"nk', "kind": "Embedding", "round": 3,
         "bytes": 16_464},
        {"n": 2, "at": NOW, "way": "received", "peer": "bank", "kind": "Hello", "round": -1,
         "bytes": 70},
        {"n": 3, "at": NOW, "note": "refused insurer: ?[2J? no", "again": 0},
    ]  # fmt: skip


@given(st.data())
def test_any_changed_byte_is_found(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("chain") / "ledger.chain"
    good = build_twice(path).read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != good[at]))
    path.write_bytes(good[:at] + bytes([value]) + good[at + 1 :])
    found = verify(path)
    line = good.count(b"\n", 0, at) + 1
    assert found.entries == line - 1
    assert found.torn if at == len(good) - 1 else found.fault.startswith(f"line {line} ")


@given(st.sampled_from(["take", "swap", "repeat", "insert"]), st.data())
def test_any_moved_line_is_found(tmp_path_factory, change, data):
    path = tmp_path_factory.mktemp("chain") / "ledger.chain"
    lines = build_twice(path).read_bytes().splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 2))
    one, two, more = lines[at], lines[at + 1], data.draw(st.binary(max_size=300)) + b"\n"
    instead = {"take": [two], "swap": [two, one], "repeat": [one, one, two],
               "insert": [one, more, two]}[change]  # fmt: skip
    changed = [*lines[:at], *instead, *lines[at + 2 :]]
    path.write_bytes(b"".join(changed))
    broken = at + 1 + (change in ("repeat", "insert"))
    assert verify(path).fault.startswith(f"line {broken} {'has number' * (change != 'insert')}")
    with pytest.raises(RequestError, match=rf"line {broken} .*move it away"):
        Chain.open(path, "telco", JOB, NOW)
    assert path.read_bytes() == b"".join(changed)


@pytest.mark.parametrize(
    "fields", ['"note":"x","way":"sent"', '"peer":"b"', '"chain":1', '"note":"x","torn":5']
)
def test_a_line_with_the_right_hash_but_no_meaning_is_found(path, chain, fields):
    chain._append(f'{{"n":1,"at":{NOW},{fields}')
    assert verify(path).fault.startswith("line 2 is no message, note or beginning")


def test_lines_put_at_the_end_are_found_and_lines_cut_off_there_show_against_a_hash(path):
    lines, kept = build(path).read_text().splitlines(keepends=True), verify(path).head
    path.write_text("".join([*lines, lines[-1].replace('"n":7', '"n":8')]))
    assert verify(path).fault == "line 9 was changed: its hash is not that of its text"
    path.write_text("".join(lines[:-1]))
    assert verify(path).fault == "" and kept not in path.read_text()


@given(st.lists(st.integers(0, 400), min_size=1, max_size=5))
def test_a_chain_goes_on_after_any_cut_and_keeps_every_byte(tmp_path_factory, rounds):
    path = tmp_path_factory.mktemp("chain") / "ledger.chain"
    path.touch()
    for cut in rounds:
        written, grown = path.read_bytes(), build(path, rounds=1).read_bytes()
        assert grown.startswith(written) and verify(path).fault == ""
        # Never into what was there before: a loss of power takes only what came last.
        path.write_bytes(grown[: max(len(written), len(grown) - cut)])
    left = path.read_bytes()
    torn = left[left.rfind(b"\n") + 1 :]
    before = verify(path)
    assert (before.torn, before.fault) == (torn, "")
    Chain.open(path, "telco", JOB, NOW).close()
    after = verify(path)
    assert path.read_bytes().startswith(left)
    assert (after.torn, after.fault, after.totals) == (b"", "", before.totals)
    if torn and before.entries:
        note = after.notes[-1]
        assert (note.note.split()[:2], note.torn) == (["found", str(len(torn))], len(torn))


def test_entries_outlive_a_killed_process(path):
    code = (
        "import os, sys; from colonnade.record.chain import Chain\n"
        f"chain = Chain.open(sys.argv[1], 'telco', '{JOB}', 0)\n"
        "for i in range(500): chain.message(i, 'sent', 'bank', 'Embedding', i, 10)\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, path]).returncode == -9
    found = verify(path)
    assert (found.entries, found.torn, found.fault) == (501, b"", "")


def test_a_full_disk_is_said_and_the_chain_goes_on_later(path, chain, monkeypatch):
    room, write = [40], os.write

    def short(file, data):
        part = data[: room[0]]
        room[0] -= len(part)
        if not part:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, part)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short)
        with pytest.raises(FailedError, match=r"ledger\.chain .*no space left.*make room") as first:
            fill(chain)
    for attempt in (lambda: chain.note(NOW, "again"), chain.sync):
        with pytest.raises(FailedError) as later:
            attempt()
        assert str(later.value) == str(first.value)
    chain.close()
    assert (len(verify(path).torn), chain.entries) == (40, 1)
    build(path)
    assert verify(path).fault == "" and verify(path).notes[0].torn == 40


def test_a_disk_that_does_not_sync_is_said(chain, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: os.close(-1))
    with pytest.raises(FailedError, match="bad file descriptor"):
        chain.close()


def test_what_cannot_be_opened_is_refused(path, tmp_path):
    build(path)
    for party, job in (("bank", JOB), ("telco", "cd" * 32)):
        with pytest.raises(RequestError, match="it is of telco or of another job: move it away"):
            Chain.open(path, party, job, NOW)
    with pytest.raises(RequestError, match="use a folder that can be written"):
        Chain.open(tmp_path / "none" / "ledger.chain", "telco", JOB, NOW)
    with pytest.raises(RequestError, match="cannot be read: is a directory"):
        verify(tmp_path)


def test_memory_is_bounded_by_limits(path, chain, monkeypatch):
    monkeypatch.setattr(module, "NOTES_MAX", 5)
    for number in range(20):
        chain.note(NOW, "😀" * 5_000, kept=number)
    found = verify(path)
    assert [len(line.note) for line in found.notes] == [module.NOTE_LETTERS_MAX] * 5
    path.write_bytes(path.read_bytes() + bytes(10**6))
    assert verify(path).fault == "line 22 is not an entry of a ledger"


def test_a_return_to_a_checkpoint_undoes_what_came_after(path, chain):
    counts = []

    def again(number):
        chain.note(NOW, f"began again from round {number}", again=number)
        found = verify(path)
        counts.append([total["bank", "sent", "Embedding"][0] if total else 0
                       for total in (found.totals, found.standing)])  # fmt: skip

    fill(chain, range(2))
    again(0)
    fill(chain, range(4))
    chain.note(NOW, "checkpoint", kept=4)
    fill(chain, range(4, 7))
    again(4)
    fill(chain, range(4, 6))
    again(4)
    fill(chain, range(4, 6))
    again(5)  # has no mark: nothing is known to be undone
    assert counts == [[2, 0], [9, 4], [11, 4], [13, 6]]


turned = {"received": "sent", "sent": "received"}
keys = st.tuples(st.just("b"), st.sampled_from([*turned]), st.sampled_from(["Embedding", "Beat"]))
counts = st.tuples(st.integers(1, 10**6), st.integers(1, 10**12))


@given(st.dictionaries(keys, counts, min_size=1), st.data())
def test_a_ledger_agrees_with_its_mirror_image_and_with_no_other(totals, data):
    mine = entries_of(totals | {("c", "sent", "Embedding"): (1, 1)})
    theirs = [row | {"peer": "a", "direction": turned[row["direction"]]} for row in mine[:-1]]
    assert reconcile(mine, "a", theirs, "b") == reconcile(theirs, "b", mine, "a") == []
    changed = copy.deepcopy(theirs)
    row = data.draw(st.sampled_from(changed))
    others = [{"messages": row["messages"] + 1}, {"bytes": row["bytes"] - 1}, {"peer": "c"},
              {"direction": turned[row["direction"]]}, {"kind": "Other"}]  # fmt: skip
    row |= data.draw(st.sampled_from(others))
    differences = reconcile(mine, "a", changed, "b")
    assert differences and differences == reconcile(changed, "b", mine, "a")


def test_a_difference_of_one_byte_is_said_in_full():
    mine = entries_of({("bank", "sent", "Status"): (41, 671_000)})
    theirs = entries_of({("telco", "received", "Status"): (1, 671_001)})
    (sentence,) = reconcile(mine, "telco", theirs, "bank")
    assert sentence.startswith("bank counts 1 Status message (671,001 bytes) from telco, ")
    assert sentence.endswith("telco counts 41 (671,000 bytes) sent")


def launched(folder):
    """A bank and a telco that agree, with a return to a checkpoint at the telco."""
    for name, peer, up, down in (("bank", "telco", *turned), ("telco", "bank", *turned.values())):
        (folder / "parties" / name).mkdir(parents=True)
        chain = Chain.open(folder / "parties" / name / "ledger.chain", name, JOB, NOW)
        chain.message(NOW, up, peer, "Embedding", 0, 1_000)
        chain.note(NOW, "checkpoint", kept=1)
        if name == "telco":
            chain.message(NOW, up, peer, "Embedding", 1, 1_000)
            chain.note(NOW, "began again from round 1, generation 2", again=1)
        chain.message(NOW, up, peer, "Embedding", 1, 1_000)
        chain.message(NOW, down, peer, "Gradient", 1, 234_567)
        chain.close()
    return folder


def shown(capsys, *arguments, **options):
    ledger(*arguments, **options)
    return capsys.readouterr().out


def test_the_command_shows_a_party(tmp_path, capsys):
    folder = launched(tmp_path) / "parties" / "telco"
    out = shown(capsys, folder)
    words = [line.split() for line in out.splitlines()]
    assert ["bank", "sent", "Embedding", "training", "3", "3,000"] in words
    assert ["all", "received", "1", "234,567"] in words
    assert "2025-10-09T08:53:20.000  began again from round 1, generation 2" in out
    assert "repeated: 1 of these messages, 1,000 bytes" in out and "not reconciled with bank" in out
    head = verify(folder / "ledger.chain").head
    assert out.endswith(f"verified: 7 entries, head {head}\n")
    (folder / "reconciliation.json").write_text('{"bank": []}')
    assert "reconciliation, bank: no difference" in shown(capsys, folder / "ledger.chain")


def test_the_command_reconciles_what_was_launched(tmp_path, capsys):
    out = shown(capsys, launched(tmp_path))
    assert "reconciliation, bank and telco: no difference" in out
    assert "bank verified: 5 entries" in out and "telco verified: 7 entries" in out
    chain = Chain.open(tmp_path / "parties" / "bank" / "ledger.chain", "bank", JOB, NOW)
    chain.message(NOW, "sent", "telco", "Finish", 1, 40)
    chain.close()
    with pytest.raises(FailedError, match="differ in 1 count:"):
        ledger(tmp_path, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["parties"]["telco"]["repeated"] == {"messages": 1, "bytes": 1_000}
    sentence = "telco counts 0 Finish messages (0 B) from bank, bank counts 1 (40 B) sent"
    assert said["reconciled"] == {"bank and telco": [sentence]}


def test_the_command_prints_messages(tmp_path, capsys):
    line = "telco 5 2025-10-09T08:53:20.000 sent bank Embedding round 1 1,000 bytes\n"
    assert line in shown(capsys, launched(tmp_path), messages=True)
    lines = shown(capsys, tmp_path, as_json=True, messages=True).splitlines()
    said = [(line["party"], line["n"]) for line in map(json.loads, lines)]
    assert said == [*(("bank", n) for n in range(5)), *(("telco", n) for n in range(7))]


def test_the_command_shows_a_simulation(tmp_path, capsys):
    rows = entries_of({("bank", "sent", "Embedding"): (3, 3_000)})
    (tmp_path / "ledger.json").write_text(json.dumps({"telco": rows}))
    out = shown(capsys, tmp_path)
    assert "3,000" in out and "keeps no chain" in out
    said = json.loads(shown(capsys, tmp_path, as_json=True))
    assert said["parties"]["telco"]["ledger"] == rows
    with pytest.raises(RequestError, match="keeps no chain of messages"):
        ledger(tmp_path, messages=True)


def test_the_command_refuses_what_is_broken_or_missing(tmp_path, path):
    def refused(run, error, match):
        with pytest.raises(error, match=match):
            ledger(run)

    refused(tmp_path / "none", RequestError, "there is no ")
    refused(tmp_path, RequestError, r"neither ledger\.chain nor ledger\.json")
    (tmp_path / "ledger.json").write_text("[1]")
    refused(tmp_path, RequestError, "is not what a run writes")
    path.touch()
    refused(tmp_path, RequestError, "is empty")
    path.write_bytes(build(path).read_bytes().replace(b"Gradient", b"gradient", 1))
    refused(tmp_path, FailedError, r"ledger\.chain is broken, line 4 was changed")
    path.unlink()
    for name in ("one", "two"):
        (tmp_path / "parties" / name).mkdir(parents=True)
        build(tmp_path / "parties" / name / "ledger.chain")
    refused(tmp_path, FailedError, "are both of telco")
