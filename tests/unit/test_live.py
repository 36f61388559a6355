"""The events of a run that goes on, in its folder: few enough, private, bounded, and never in the
way of the training."""

from __future__ import annotations

import json
import os
import resource
import signal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.record.events import (
    Evaluated,
    Finished,
    Notice,
    Resumed,
    RoundDone,
    Saved,
    Waiting,
    Worked,
)
from colonnade.record.live import FILE, LINE_BYTES_MAX, Live, Opened, is_followed, thinned
from colonnade.run.following import followed, live_of
from colonnade.units import NS_PER

OPENED = Opened("digits", "fedsgd", 0, "lab", ("lab", "clinic"), "virtual", 7, 0.9)


class Clock:
    def __init__(self):
        self.ns = 0

    def __call__(self):
        return self.ns


def lines(folder):
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines() if line]


def kinds(folder):
    return [line["type"] for line in lines(folder)]


def rounds(folder):
    return [line["round"] for line in lines(folder) if line["type"] == "RoundDone"]


def done(round, party="lab", loss=0.5):
    return RoundDone(party, round * 1000, round, 10**6, loss)


def test_rounds_are_written_twice_a_second_at_most_for_each_party(tmp_path):
    clock = Clock()
    live = Live(tmp_path, OPENED, now=clock)
    for count in range(100):
        clock.ns = count * NS_PER["s"] // 10
        live(done(count))
        live(done(count, "clinic", None))
    live.close(done=False)
    of = {name: [line["round"] for line in lines(tmp_path) if line.get("party") == name]
          for name in ("lab", "clinic")}  # fmt: skip
    # And the last, so that the file says how far the run came.
    assert of["lab"] == [*range(0, 100, 5), 99] == of["clinic"]


def test_what_happens_once_is_always_written_and_work_never(tmp_path):
    live = Live(tmp_path, OPENED, now=lambda: 0)
    live(Worked("lab", 0, "forward", 5))
    for each in (Notice("lab", 1, "a"), Notice("lab", 2, "b"), Saved("lab", 3, 9)):
        live(each)
    live(Evaluated("lab", 4, 9, {"auc": float("nan")}, True, 1, 2))
    live(Finished("lab", 5, "end"))
    live.close(done=False)
    assert kinds(tmp_path) == ["Opened", "Notice", "Notice", "Saved", "Evaluated", "Finished"]
    assert lines(tmp_path)[4]["measured"] == {"auc": None}


def test_an_evaluation_comes_after_the_round_that_it_is_of(tmp_path):
    live = Live(tmp_path, OPENED, now=lambda: 0)
    for count in range(7):
        live(done(count))
    live(Evaluated("lab", 4, 6, {"auc": 0.5}, True, 1, 2))
    assert rounds(tmp_path) == [0, 6]
    assert kinds(tmp_path)[-1] == "Evaluated"


def test_that_a_party_waits_is_written_when_it_begins_changes_and_ends(tmp_path):
    clock = Clock()
    live = Live(tmp_path, OPENED, now=clock)
    told = ["waits for telco: 1 s", "waits for telco: 2 s", "waits for shop: 3 s", None, None]
    for what in told:
        clock.ns += NS_PER["s"]
        live(Waiting("lab", clock.ns, what))
    assert [line["what"] for line in lines(tmp_path)[1:]] == [told[0], told[2], None]
    for _ in range(12):
        clock.ns += NS_PER["s"]
        live(Waiting("lab", clock.ns, "waits for telco: more"))
    assert kinds(tmp_path).count("Waiting") == 5


def test_the_file_is_for_its_owner_only_and_is_locked_until_the_end(tmp_path):
    live = Live(tmp_path / "runs" / "new", OPENED, now=lambda: 0)
    live.open()
    assert (live.path.stat().st_mode & 0o777) == 0o600
    assert is_followed(live.path)
    live.close(done=False)
    assert not is_followed(live.path)
    assert live.path.exists()


def test_the_file_of_a_process_that_was_killed_is_not_followed(tmp_path):
    child = os.fork()
    if not child:
        Live(tmp_path, OPENED, now=lambda: 0).open()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (tmp_path / FILE).exists()
    assert not is_followed(tmp_path / FILE)


def test_a_run_that_is_done_leaves_no_live_file(tmp_path):
    job = cn.load("digits")
    with followed(tmp_path, job, clock="virtual") as (live,):
        live(done(0))
        assert kinds(tmp_path) == ["Opened", "RoundDone"]
    assert not (tmp_path / FILE).exists()
    with pytest.raises(KeyError), followed(tmp_path, job, clock="wall") as (live,):
        live(done(0))
        raise KeyError
    assert kinds(tmp_path) == ["Opened", "RoundDone"]
    with followed(None, job, clock="wall") as nobody:
        assert nobody == []


def test_a_party_that_starts_again_goes_on_in_the_file_and_a_simulation_begins_it_anew(tmp_path):
    job = cn.load("digits")
    for _ in range(2):
        live = live_of(tmp_path, job, clock="wall")
        live(Resumed("clinic", 0, 3))
        live.close(done=False)
    assert kinds(tmp_path) == ["Opened", "Resumed"] * 2
    live = live_of(tmp_path, job, clock="virtual", anew=True)
    live(done(0))
    live.close(done=False)
    assert kinds(tmp_path) == ["Opened", "RoundDone"]


def test_a_line_that_was_cut_off_does_not_spoil_the_next(tmp_path):
    (tmp_path / FILE).write_text('{"type":"RoundDone","par')
    live = Live(tmp_path, OPENED, now=lambda: 0)
    live.open()
    assert json.loads((tmp_path / FILE).read_text().splitlines()[1])["type"] == "Opened"


def test_a_long_run_stays_within_its_bytes_and_keeps_its_whole_course(tmp_path):
    clock = Clock()
    live = Live(tmp_path, OPENED, now=clock, bytes_max=60_000)
    for count in range(5_000):
        clock.ns += NS_PER["s"]
        live(done(count))
        if count % 100 == 0:
            live(Evaluated("lab", count, count, {"auc": 0.5}, True, 1, 2))
    live.close(done=False)
    assert live.path.stat().st_size <= 60_000
    assert (live.path.stat().st_mode & 0o777) == 0o600
    assert lines(tmp_path)[0]["type"] == "Opened"
    found = rounds(tmp_path)
    assert found == sorted(found)
    gaps = [b - a for a, b in pairwise(found)]
    # Evenly spread from first to last, not merely the latest.
    assert found[0] < 200 and found[-1] == 4_999 and max(gaps) < 5_000 / 10
    assert kinds(tmp_path).count("Evaluated") >= 10


def test_it_stays_locked_when_it_is_thinned_out(tmp_path):
    clock = Clock()
    live = Live(tmp_path, OPENED, now=clock, bytes_max=3_000)
    for count in range(100):
        clock.ns += 100 * NS_PER["s"]
        live(done(count))
    assert is_followed(live.path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


@given(
    st.lists(st.sampled_from(["RoundDone", "Evaluated", "Saved"]), max_size=60),
    st.integers(60, 3000),
)
def test_what_is_thinned_fits_and_keeps_order_and_the_first_line(told, most):
    content = [b'{"type":"Opened"}\n']
    content += [b'{"type":"%s","round":%d}\n' % (each.encode(), n) for n, each in enumerate(told)]
    kept = thinned(b"".join(content), most).splitlines(keepends=True)
    assert kept[0] == content[0]
    places = [content.index(line) for line in kept]
    assert places == sorted(set(places))
    assert sum(map(len, kept)) <= max(most, len(content[0]))


def test_words_of_others_that_are_too_long_are_left_out(tmp_path):
    live = Live(tmp_path, OPENED, now=lambda: 0)
    live(Notice("lab", 0, "a" * LINE_BYTES_MAX))
    live(Notice("lab", 0, "b"))
    assert [line["text"] for line in lines(tmp_path)[1:]] == ["b"]


def test_a_disk_that_is_full_is_said_once_and_ends_nothing(tmp_path):
    told = []
    live = Live(tmp_path, OPENED, now=lambda: 0, tell=told.append)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    live.open()
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (live.path.stat().st_size, before[1]))
        for _ in range(3):
            live(Notice("lab", 0, "more"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    live(Notice("lab", 0, "too late"))
    live.close(done=True)
    assert len(told) == 1
    assert "cannot be written" in told[0]


def test_a_folder_that_cannot_be_made_ends_no_training(tmp_path):
    (tmp_path / "file").write_text("")
    told = []
    live = Live(tmp_path / "file" / "run", OPENED, now=lambda: 0, tell=told.append)
    run = cn.simulate(cn.load("digits", ["train.rounds=2"]), observers=[live])
    live.close(done=True)
    assert run.rounds == 2
    assert len(told) == 1


def test_to_be_followed_changes_no_bit_of_a_training(tmp_path):
    job = cn.load("digits", ["train.rounds=3"], method="pasta")
    with followed(tmp_path, job, clock="virtual") as others:
        seen = cn.simulate(job, observers=others)
    unseen = cn.simulate(job)
    assert seen.summary() == unseen.summary()
    for name, weights in seen.weights.items():
        assert all((weights[key] == unseen.weights[name][key]).all() for key in weights)
