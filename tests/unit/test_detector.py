"""A party's own clock, and what is noted by it."""

from __future__ import annotations

from threading import Thread

from colonnade.errors import AbsentError
from colonnade.job.records import Timeouts
from colonnade.net import detector
from colonnade.net.detector import FailureDetector
from colonnade.record.chain import Chain, verify
from tests.netrun import Quiet


def test_a_process_that_was_stopped_does_not_take_the_others_for_silent(monkeypatch):
    now = [0]
    monkeypatch.setattr(detector.time, "monotonic_ns", lambda: now[0])
    one = FailureDetector(Timeouts(silence="2s", absence="5s", stall="10s"), "a")
    one.connected("b")
    one.heard("b")
    with one.waiting(lambda: "b: a word"):
        for second in (1, 2, 32):
            now[0] = second * 10**9
            assert one.check(["b"]) is None
        assert not one.silent("b")
        for second in range(33, 38):
            now[0] = second * 10**9
            fault = one.check(["b"])
        assert isinstance(fault, AbsentError) and "b was awaited for 5 s" in str(fault)


def test_a_party_that_was_started_again_gives_a_new_connection_time():
    one = FailureDetector(Timeouts(silence="2s"), "a", elapsed_ns=10**12)
    one.connected("b")
    assert not one.silent("b")


def test_a_ledger_is_whole_when_two_threads_note_at_once(tmp_path):
    chain = Chain.open(tmp_path / "ledger.chain", "a", "job", 0)
    one = FailureDetector(Timeouts(), "a", chain=chain)
    threads = [
        Thread(target=lambda: [one.note("saved") for _ in range(300)]),
        Thread(target=lambda: [one.message("sent", "b", "Hello", 0, 1) for _ in range(300)]),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chain.close()
    found = verify(tmp_path / "ledger.chain")
    assert not found.fault and found.entries == 601


def detectors(monkeypatch, **timeouts):
    """The clocks of an active party `a` and of a passive one `b`, which are one and the same."""
    now = [0]
    monkeypatch.setattr(detector.time, "monotonic_ns", lambda: now[0])
    active, passive = [FailureDetector(Timeouts(**timeouts), me) for me in "ab"]
    passive.judges = False
    return now, active, passive


def test_whoever_keeps_all_waiting_is_named_by_the_active_party_and_nobody_else(monkeypatch):
    now, active, passive = detectors(
        monkeypatch, silence="2s", absence="5s", stall="9s", join="20s"
    )
    with passive.waiting(lambda: "a: the reply to round 1"):
        for second in range(1, 20):
            now[0] = second * 10**9
            passive.heard("a")
            active.heard("b")
            active.heard("c")
            # What comes from others does not set back the clock of the one that sends nothing.
            if second % 3 == 0:
                active.message("received", "b", "Embedding", second, 1)
            with active.waiting(lambda: "b, c: an embedding of any of them"):
                fault = active.check(["b", "c"])
            assert passive.check(["a"]) is None
            if fault is not None:
                break
    assert str(fault).startswith("c was awaited for 9 s and did not come") and second == 10


def test_a_passive_party_gives_up_an_active_one_that_lives_but_never_answers(monkeypatch):
    now, _, passive = detectors(monkeypatch, silence="2s", absence="5s", stall="9s", join="20s")
    with passive.waiting(lambda: "a: the reply to round 1"):
        for second in range(1, 40):
            now[0] = second * 10**9
            passive.heard("a")
            if (fault := passive.check(["a"])) is not None:
                break
    assert str(fault).startswith("a was awaited for 29 s") and second == 29


def test_a_peer_cannot_fill_a_log_by_coming_and_going():
    report = Quiet()
    one = FailureDetector(Timeouts(), "a", [report])
    for _ in range(1000):
        one.connected("b")
        one.left("b", "x" * 2000)
        one.lost("b")
    one.connected("c")
    assert len(report.events) == 21 and report.events[-1] == "connected with c"
