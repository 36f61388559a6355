"""Failures between real processes over mTLS: what is lost, what is said, and how it ends."""

from __future__ import annotations

import resource
import shutil
import signal
import time

import pytest

from colonnade.cli import main
from colonnade.record.clocks import align
from colonnade.record.timeline_file import read_exchanges, read_timeline
from tests.alliance import ACTIVE, PARTIES, PASSIVES, Alliance, differences, has_traceback, new_keys
from tests.tcp_relay import Relay

QUICK = ("timeouts.silence=2s", "train.rounds=100")
LINE = "latency=15ms"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return new_keys(tmp_path_factory.mktemp("keys") / "alliance")


@pytest.fixture(scope="module")
def calm(tmp_path_factory, keys):
    """What comes of the job when nothing happens."""
    with Alliance(tmp_path_factory.mktemp("calm"), *QUICK, emulate=LINE, keys=keys) as alliance:
        alliance.start()
        alliance.complete()
        return alliance.result()


@pytest.fixture
def alliance(tmp_path, keys, request):
    more = getattr(request, "param", ())
    with Alliance(tmp_path, *QUICK, *more, emulate=LINE, keys=keys) as made:
        yield made
        assert not has_traceback(made.said()) or "ValueError" in made.said(), made.said()


def sets(*more):
    """With other settings than all have."""
    return pytest.mark.parametrize("alliance", [more], indirect=True)


def same(calm, alliance):
    alliance.complete()
    assert not differences(calm, alliance.result())


@pytest.mark.parametrize("party", [ACTIVE, "lab"])
def test_a_party_that_is_stopped_for_a_while_costs_time_only(calm, alliance, party):
    alliance.start()
    alliance.wait_for_round(20)
    alliance.signal(party, signal.SIGSTOP)
    time.sleep(4)
    alliance.signal(party, signal.SIGCONT)
    same(calm, alliance)
    other = "insurer" if party == ACTIVE else ACTIVE
    assert f"waiting for {party}" in alliance.log(other)
    assert "goes on from" not in alliance.log(other), "nobody had to go back"


def test_reset_connections_cost_nothing(calm, alliance):
    with Relay(alliance.port) as relay:
        alliance.connect = dict.fromkeys(PASSIVES, relay.port)
        alliance.start()
        for round in (10, 30, 50):
            alliance.wait_for_round(round)
            relay.reset()
        same(calm, alliance)
        assert relay.connections >= 2 + 3 * 2
    assert "goes on from" not in alliance.log(ACTIVE)
    assert "the connection with lab is lost" in alliance.log(ACTIVE)


def test_a_partition_is_waited_out(calm, alliance):
    with Relay(alliance.port) as relay:
        alliance.connect = {"lab": relay.port}
        alliance.start()
        alliance.wait_for_round(20)
        relay.cut()
        time.sleep(5)
        relay.heal()
        same(calm, alliance)
    assert "goes on from" not in alliance.log(ACTIVE)
    for said in (alliance.log(ACTIVE), alliance.output(ACTIVE)):
        assert "waiting for lab: the embedding of round" in said
        assert " s ago, gives up in " in said


@sets("timeouts.absence=4s")
@pytest.mark.parametrize("party", [ACTIVE, "lab"])
def test_a_party_that_never_comes_back_ends_the_job_with_its_name(alliance, party):
    alliance.start()
    alliance.wait_for_round(20)
    alliance.kill(party)
    began = time.monotonic()
    codes = alliance.codes(30)
    assert time.monotonic() - began < 15
    for other in set(PARTIES) - {party}:
        assert codes[other] == 1
        last = alliance.output(other).splitlines()[-1]
        assert f"{party} was awaited for 4 s and did not come (the connection is lost)" in last


@pytest.mark.parametrize("party", [ACTIVE, "lab"])
def test_a_party_that_fails_for_good_ends_the_job_with_its_name(alliance, party):
    alliance.start(*(name for name in PARTIES if name != party))
    model = f"parties.{party}.model={{name='tests.brittle:brittle'}}"
    alliance.start(party, sets=[model])
    codes = alliance.codes(30)
    for other in set(PARTIES) - {party}:
        assert codes[other] == 1
        last = alliance.output(other).splitlines()[-1]
        assert f"{party} failed: ValueError in its own program" in last
        assert "Jane" not in alliance.output(other), "what a party's error says is its own"
    assert "Jane Doe" in alliance.output(party)


@pytest.mark.parametrize("alliance", [(), ("recovery.on_stop=stop",)], indirect=True)
@pytest.mark.parametrize("party", [ACTIVE, "lab"])
def test_a_planned_stop(calm, alliance, party, capsys):
    # Loads the command as well: on a busy machine that may take longer than the job.
    assert main(["stop", str(alliance.folder)]) == 1
    assert "no party runs in" in capsys.readouterr().err
    alliance.start()
    alliance.wait_for_round(20)
    if party == ACTIVE:
        assert main(["stop", str(alliance.run_folder(party))]) == 0
        assert "asked to stop" in capsys.readouterr().out
    else:
        alliance.signal(party, signal.SIGINT)
    others = [name for name in PARTIES if name != party]
    if alliance.sets[-1] == "recovery.on_stop=stop":
        assert set(alliance.codes(20).values()) == {130}
        alliance.start()
    else:
        alliance.wait_for("insurer", f"saved the checkpoint of round {stopped(alliance, party)}")
        assert not any(alliance.ended(name) for name in others)
        alliance.start(party)
    same_but_barriers(calm, alliance)


def stopped(alliance, party):
    """The round after which a party has stopped, with exit code 130."""
    alliance.codes_of(party, 20)
    assert alliance.processes[party].poll() == 130, alliance.said()
    last = alliance.output(party).splitlines()[-1]
    assert "stopped as planned after round " in last
    return int(last.rpartition(" round ")[2].partition(":")[0])


def same_but_barriers(calm, alliance):
    """A stop has messages of its own; all else is as if nothing had happened."""
    alliance.complete()
    own = ("Barrier", "Leave", "history bytes_")
    found = differences(calm, alliance.result())
    assert not [line for line in found if not any(word in line for word in own)], found


@sets("recovery.on_disk_fault=go_on")
def test_a_party_goes_on_without_a_disk_if_the_job_says_so(calm, alliance):
    break_the_disk(alliance, "lab")
    same(calm, alliance)
    for said in (alliance.log("lab"), alliance.output("lab")):
        assert "cannot be written (Not a directory)" in said
        assert "the training goes on without (recovery.on_disk_fault)" in said


@sets("recovery.on_disk_fault=stop")
def test_a_party_stops_without_a_disk_if_the_job_says_so(alliance):
    break_the_disk(alliance, "lab")
    assert set(alliance.codes(30).values()) == {1}
    for name in PARTIES:
        last = alliance.output(name).splitlines()[-1]
        if name == "lab":
            assert "cannot be written (Not a directory)" in last
        else:
            assert "lab failed: the checkpoint cannot be written" in last
            assert str(alliance.folder) not in last, "where it lies is nobody else's business"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of others are of Linux")
@sets("recovery.on_disk_fault=stop")
def test_a_party_without_file_descriptors_left_behaves_as_without_a_disk(calm, alliance):
    alliance.start()
    alliance.wait_for("lab", "saved the checkpoint of round 20")
    _, hard = resource.prlimit(alliance.processes["lab"].pid, resource.RLIMIT_NOFILE)
    resource.prlimit(alliance.processes["lab"].pid, resource.RLIMIT_NOFILE, (1, hard))
    assert set(alliance.codes(30).values()) == {1}, alliance.said()
    last = alliance.output("lab").splitlines()[-1]
    assert "cannot be written (Too many open files): raise the limit on open files" in last
    for name in (ACTIVE, "insurer"):
        last = alliance.output(name).splitlines()[-1]
        assert "lab failed: the checkpoint cannot be written" in last
    alliance.start()
    same(calm, alliance)


def break_the_disk(alliance, party):
    alliance.start()
    alliance.wait_for(party, "saved the checkpoint of round 20")
    folder = alliance.run_folder(party) / "checkpoints"
    folder.rename(folder.with_name("elsewhere"))
    folder.write_text("")


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(calm, alliance):
    alliance.start()
    alliance.wait_for("lab", "saved the checkpoint of round 40")
    alliance.kill("lab")
    *_, before, newest = sorted((alliance.run_folder("lab") / "checkpoints").glob("*.state"))
    data = bytearray(newest.read_bytes())
    data[-5] ^= 1
    newest.write_bytes(data)
    alliance.start("lab")
    same(calm, alliance)
    used = int(before.stem.rpartition("-")[2])
    assert f"{newest.stem} is damaged" in alliance.log("lab")
    assert f"the one of round {used} is used" in alliance.log("lab")
    assert f"goes on from the end of round {used}" in alliance.log("insurer")


def test_a_party_with_another_job_is_refused_and_may_come_again(calm, alliance):
    alliance.start(ACTIVE, "insurer")
    alliance.start("lab", sets=["train.batch_size=16"])
    alliance.codes_of("lab", 20)
    assert alliance.processes["lab"].poll() == 2, alliance.said()
    difference = "train.batch_size is 16 at lab and 32 at clinic"
    assert difference in alliance.output("lab").splitlines()[-1]
    alliance.wait_for(ACTIVE, f"refused lab: clinic has another job: {difference}")
    assert not alliance.ended(ACTIVE) and not alliance.ended("insurer")
    shutil.rmtree(alliance.run_folder("lab"))
    alliance.start("lab")
    same(calm, alliance)


def test_all_may_crash_at_once(calm, alliance):
    alliance.start()
    alliance.wait_for_round(30)
    for name in PARTIES:
        alliance.kill(name)
    alliance.start()
    same(calm, alliance)
    timelines = {}
    for name in PARTIES:
        timelines[name] = read_timeline(alliance.run_folder(name) / "timeline.parquet")
        spans = list(timelines[name])
        begun = [place for place, span in enumerate(spans) if span.kind == "begin"]
        assert len(begun) >= 2, f"{name} has lost what it did before"
        assert any(span.kind == "forward" for span in spans[: begun[-1]])
        rows = read_exchanges(alliance.run_folder(name) / "exchanges.parquet")[name]
        assert [row.round for row in rows] == list(range(1, 101))
        assert not list(alliance.run_folder(name).glob("*.part"))
    clocks = align(timelines, ACTIVE)
    assert clocks.keys() == set(PASSIVES)


def test_a_stop_while_others_are_awaited_is_heeded_at_once(alliance):
    alliance.start(ACTIVE, "lab")
    alliance.wait_for("lab", "connected with clinic")
    alliance.signal("lab", signal.SIGINT)
    alliance.codes_of("lab", 10)
    alliance.wait_for(ACTIVE, "lab left: stopped as planned")
    alliance.signal(ACTIVE, signal.SIGTERM)
    assert set(alliance.codes(10).values()) == {130}


def test_a_stop_is_heeded_while_somebody_is_away(alliance):
    alliance.start()
    alliance.wait_for_round(20)
    alliance.kill("lab")
    alliance.wait_for(ACTIVE, "the connection with lab is lost")
    alliance.signal(ACTIVE, signal.SIGTERM)
    alliance.codes_of(ACTIVE, 15)
    assert alliance.processes[ACTIVE].poll() == 130
    last = alliance.output(ACTIVE).splitlines()[-1]
    assert "stopped without a new checkpoint, because lab is away: colonnade stop" in last
