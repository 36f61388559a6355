"""A party's own clock, and what is noted by it."""

from __future__ import annotations

from threading import Thread

from colonnade.errors import AbsentError
from colonnade.job.records import Timeouts
from colonnade.track.chain import Chain, verify
from colonnade.world import watch
from colonnade.world.watch import Watch
from tests.netrun import Quiet


def test_a_process_that_was_stopped_does_not_take_the_others_for_silent(monkeypatch):
    now = [0]
    monkeypatch.setattr(watch.time, "monotonic_ns", lambda: now[0])
    eye = Watch(Timeouts(silence="2s", absence="5s", stall="10s"), Quiet())
    eye.connected("b")
    eye.heard("b")
    with eye.waiting(lambda: "b: a word"):
        for second in (1, 2, 32):
            now[0] = second * 10**9
            assert eye.look(["b"]) is None
        assert not eye.silent("b")
        for second in range(33, 38):
            now[0] = second * 10**9
            fault = eye.look(["b"])
        assert isinstance(fault, AbsentError) and "b was awaited for 5 s" in str(fault)


def test_a_party_that_was_started_again_gives_a_new_connection_time():
    eye = Watch(Timeouts(silence="2s"), Quiet(), elapsed_ns=10**12)
    eye.connected("b")
    assert not eye.silent("b")


def test_a_ledger_is_whole_when_two_threads_note_at_once(tmp_path):
    chain = Chain.open(tmp_path / "ledger.chain", "a", "job", 0)
    eye = Watch(Timeouts(), Quiet(), chain)
    threads = [
        Thread(target=lambda: [eye.note("saved") for _ in range(300)]),
        Thread(target=lambda: [eye.message("sent", "b", "Hello", 0, 1) for _ in range(300)]),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chain.close()
    found = verify(tmp_path / "ledger.chain")
    assert not found.fault and found.entries == 601
