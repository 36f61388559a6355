"""All parties of a job as processes on this computer: the same result as a simulation, the same
words and exit codes, and nothing left behind."""

import json
import signal
import stat
import sys
import tempfile
import time
import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

import colonnade as cn
from colonnade.cli import main
from colonnade.job.files import builtin_text
from colonnade.job.party_file import load_party
from colonnade.run.processes import Children
from colonnade.run.provision import new_keys, provide
from tests.processes import alive, begin, children
from tests.warm import behind, python

TWO = "breast-cancer"
"""A job of two parties, which start sooner than three."""
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def run(capfd, *words):
    code = main([str(word) for word in words])
    captured = capfd.readouterr()
    return code, captured.out, captured.err


def start(*words, interpreter=None):
    return begin([interpreter or python(), "-m", "colonnade", "launch", *map(str, words)])


def wait_until(condition, process):
    until = time.monotonic() + 200
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)


def same_weights(one, other, parties):
    for party in parties:
        for name in ("last", "best"):
            mine, theirs = (
                load_file(folder / "parties" / party / f"{name}.safetensors")
                for folder in (one, other)
            )
            assert mine.keys() == theirs.keys() and len(mine) > 0
            assert all(torch.equal(mine[key], theirs[key]) for key in mine)


@pytest.mark.usefixtures("stood_in")
def test_a_launch_learns_what_a_simulation_learns_to_the_bit(tmp_path, capfd, monkeypatch):
    words = ["digits", "--set", "train.epochs=2", "--json", "--out"]
    code, out, err = run(capfd, "launch", *words, tmp_path / "launched")
    assert code == 0, err
    assert "lab: connected with clinic" in err
    launched = json.loads(out)
    simulated = json.loads(run(capfd, "simulate", *words, tmp_path / "simulated", "-q")[1])
    assert list(launched) == list(simulated)
    for key in launched.keys() - {"clock", "time_s", "busy_s", "idle_s"}:
        assert launched[key] == simulated[key], key
    assert 0 < launched["time_s"] < simulated["time_s"]

    one, other = tmp_path / "launched", tmp_path / "simulated"
    assert {path.name for path in one.iterdir()} == {path.name for path in other.iterdir()} | {
        "clocks.json"
    }
    assert json.loads((one / "summary.json").read_text()) == launched
    same_weights(one, other, ["clinic", "lab", "insurer"])
    for name in ("history", "rounds"):
        mine, theirs = (pq.read_table(folder / f"{name}.parquet") for folder in (one, other))
        assert mine.drop("time_s").equals(theirs.drop("time_s"))
        for table, told in ((mine, launched), (theirs, simulated)):
            assert table["time_s"][-1].as_py() <= told["time_s"], "no target comes after the end"
    mine, theirs = (json.loads((folder / "ledger.json").read_text()) for folder in (one, other))
    assert {name: sorted(map(str, rows)) for name, rows in mine.items()} == {
        name: sorted(map(str, rows)) for name, rows in theirs.items()
    }
    spans = pq.read_table(one / "timeline.parquet").to_pandas()
    assert set(spans.party) == {"clinic", "lab", "insurer"}
    # By the active party's clock: nothing came before it was sent, give or take what is stated.
    clocks = json.loads((one / "clocks.json").read_text())
    assert clocks.keys() == {"lab", "insurer"}
    for name, clock in clocks.items():
        for sender, to in (("clinic", name), (name, "clinic")):
            sent = spans[(spans.party == sender) & (spans.kind == "send") & (spans.peer == to)]
            came = spans[(spans.party == to) & (spans.kind == "receive") & (spans.peer == sender)]
            assert sent.message.tolist() == came.message.tolist()
            flights = came.start_ns.to_numpy() - sent.start_ns.to_numpy()
            assert flights.min() >= -clock["uncertainty_ns"]

    # What is complete is shown again, and no other job takes its folder.
    monkeypatch.setattr(Children, "start", None)
    code, out, err = run(capfd, "launch", *words, one)
    assert (code, err) == (0, f"this job is complete; its result is in {one}\n")
    assert json.loads(out) == launched
    code, out, err = run(capfd, "launch", *words, one, "--seed", 1)
    assert (code, out) == (2, "")
    assert "holds a run of another job" in err


WRONG = {
    "unknown job": (["digitz"], "digits"),
    "unknown method": (["digits", "--method", "fedsdg"], "fedsgd"),
    "no line": (["digits", "--emulate", "speed=1"], "latency=50ms"),
    "no certificates": (["digits", "--keys", "none"], "keys issue none --party clinic"),
    "no threads": (["digits", "--threads", "0"], "--threads"),
    "unknown option": (["digits", "--emulated", "x"], "--emulate"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_refused_before_a_process_starts(case, capfd, monkeypatch, tmp_path):
    monkeypatch.setattr(Children, "start", None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    words, key_word = WRONG[case]
    code, out, err = run(capfd, "launch", *words)
    assert (code, out) == (2, "")
    assert err.startswith("colonnade: ") and err.count("\n") == 1 and key_word in err
    assert not list(tmp_path.iterdir())


@needs_proc
def test_a_party_that_fails_is_named_and_the_others_are_ended(tmp_path):
    (tmp_path / "lab.toml").write_text('columns = ["no such column"]')
    (tmp_path / "job.toml").write_text(builtin_text(TWO))
    process = start(tmp_path / "job.toml", "--quiet")
    launcher = behind(process.pid)
    wait_until(lambda: len(children(launcher)) == 2, process)
    parties = children(launcher)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 2
    assert err.startswith("colonnade: lab: ") and err.count("\n") == 1
    assert "no such column" in err
    assert not any(map(alive, parties))


@needs_proc
def test_parties_do_not_outlive_a_launcher_that_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out = tmp_path / "run"
    words = [TWO, "--set", "train.epochs=100000", "--out", out]
    process = start(*words, interpreter=sys.executable)
    log = out / "parties" / "lab" / "log.txt"
    wait_until(lambda: log.exists() and "connected" in log.read_text(), process)
    parties = children(process.pid)
    assert len(parties) == 2
    process.kill()
    process.communicate(timeout=200)
    until = time.monotonic() + 100
    while any(map(alive, parties)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(alive, parties))


@needs_proc
@pytest.mark.usefixtures("stood_in")
def test_ctrl_c_stops_all_as_planned_and_the_job_goes_on_even_with_other_timeouts(tmp_path, capfd):
    out = tmp_path / "run"
    words = [TWO, "--set", "train.epochs=8", "--emulate", "latency=10ms", "--out", out]
    process = start(*words)
    log = out / "parties" / "hospital" / "log.txt"
    wait_until(lambda: log.exists() and ", auc " in log.read_text(), process)
    parties = children(behind(process.pid))
    assert len(parties) == 2
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith("colonnade: interrupted; the same command goes on")
    assert not any(map(alive, parties))
    assert not (out / "summary.json").exists()

    sets = ("timeouts.stall=2h", "recovery.keep=4", "limits.queue_messages=512")
    code, text, err = run(capfd, "launch", *words, "--json", *(f"--set={each}" for each in sets))
    assert code == 0, err
    assert "goes on from the end of round" in err
    assert cn.load(out / "job.toml").timeouts.stall == "2h"
    assert json.loads(text)["rounds"] == 104
    run(capfd, "simulate", TWO, "--set", "train.epochs=8", "--out", tmp_path / "other", "-q")
    same_weights(out, tmp_path / "other", ["hospital", "lab"])


@pytest.mark.usefixtures("stood_in")
def test_a_demo_compares_runs_between_processes(tmp_path, capfd, monkeypatch):
    demo = sys.modules["colonnade.cli.demo"]
    monkeypatch.setattr(demo, "DEMO_METHODS", ("fedbcd:updates=2",))
    monkeypatch.setattr(demo, "DEMO_SETS", [*demo.DEMO_SETS, "train.target=0.01"])
    code, out, err = run(capfd, "demo", "--json", "--out", tmp_path)
    assert code == 0, err
    assert err.startswith("run 1 of 1: fedbcd:updates=2, seed 0, accuracy ")
    (row,) = json.loads(out)["methods"]
    assert (row["method"], row["reached"], row["rounds_mean"]) == ("fedbcd:updates=2", 1, 21)
    assert (tmp_path / "runs" / "fedbcd-updates=2" / "seed-0" / "parties" / "lab").is_dir()
    assert "fedbcd:updates=2" in (tmp_path / "table.txt").read_text()


def test_every_party_is_given_its_own_secrets_and_no_others(tmp_path):
    sets = ["train.labels=shared", "parties.clinic.seed=7"]
    job = cn.load("digits", sets, method="cvfl")
    options = provide(job, {}, tmp_path, new_keys(job, tmp_path))
    public = tomllib.loads((tmp_path / "job.toml").read_text())
    assert public["parties"] == {"clinic": {"role": "active"}, "lab": {}, "insurer": {}}
    files = {}
    for name, words in options.items():
        path = Path(words[words.index("--party") + 1])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        files[name] = load_party(path)
        assert [other for other in job.parties if f"{other}.toml" in " ".join(words)] == [name]
    assert files["clinic"].seed == 7
    assert len({file.seed for file in files.values()}) == 3
    assert files["lab"].view == "strip 2/3" and files["clinic"].policy.shares_labels
    ports = {words[words.index("--connect") + 1] for name, words in options.items()
             if name != "clinic"}  # fmt: skip
    assert ports == {options["clinic"][options["clinic"].index("--listen") + 1]}
    assert {path.name for path in (tmp_path / "keys" / "lab").iterdir()} == {
        "ca.pem", "cert.pem", "key.pem",
    }  # fmt: skip


@pytest.mark.usefixtures("stood_in")
def test_secret_seeds_are_drawn_and_kept_and_the_default_says_that_it_derives_them(tmp_path, capfd):
    words = ["launch", TWO, "--set", "train.rounds=3", "--out"]
    weights = []
    for name, options, said in (
        ("drawn", ["--secret-seeds"], "parties without a secret seed draw one from the operating"),
        ("derived", [], "derived from the job's seed, as in a simulation (--secret-seeds"),
    ):
        code, _, err = run(capfd, *words, tmp_path / name, *options)
        assert code == 0 and said in err and err.count("what others can learn:") == 1, err
        own = sorted((tmp_path / name / "parties").iterdir())
        drawn = ["seed" in json.loads((each / "start.json").read_text()) for each in own]
        assert drawn == [bool(options)] * 2
        weights.append(load_file(own[0] / "last.safetensors"))
    assert any(not torch.equal(weight, weights[1][key]) for key, weight in weights[0].items())
    code, _, err = run(capfd, *words, tmp_path / "drawn")
    assert code == 2 and "began with seeds that were drawn: give --secret-seeds" in err
    code, _, err = run(capfd, *words, tmp_path / "derived", "--secret-seeds")
    assert code == 2 and "derived from the job's: leave --secret-seeds out" in err
