"""The command as people start it: a process of its own, its output and its exit code."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import colonnade
from colonnade.cli import main
from tests.processes import alive, begin, children
from tests.warm import behind, python

PATIENCE_S = 250
SHORT = ["--set", "train.epochs=2"]
FIELDS = {
    "method", "composition", "seed", "rounds", "epochs", "time_s", "bytes", "metric", "target",
    "time_to_target_s", "rounds_to_target", "bytes_to_target", "updates", "evaluation_bytes",
    "busy_s", "idle_s", "max_in_flight",
}  # fmt: skip


LEAN = """
import dis, sys
from importlib.machinery import SourceFileLoader

def get_code(self, name, plain=SourceFileLoader.get_code):
    if name.partition(".")[0] != "colonnade":
        return plain(self, name)
    path = self.get_filename(name)
    return compile(self.get_data(path), path, "exec", dont_inherit=True, optimize=1)

SourceFileLoader.get_code = get_code
from colonnade.cli import main
from colonnade.wire.codec import Codec

for step in dis.get_instructions(Codec.encode):
    assert step.opname != "LOAD_ASSERTION_ERROR", "the assertions are still there"
sys.exit(main(sys.argv[1:]))
"""
"""The command without assertions, as under `python -O`, which would compile all of torch anew."""


def call(*words, cwd=None, program=("-m", "colonnade"), interpreter=None):
    command = [interpreter or python(), *program, *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S)


def start(*words):
    return begin([python(), "-m", "colonnade", *map(str, words)])


def interrupt(process, after):
    """Ctrl-C once a line that begins so has come; what the process still says, and its code."""
    for line in process.stderr:
        if line.startswith(after):
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, err


def test_a_job_is_the_same_in_two_processes_and_needs_no_assertions(tmp_path):
    words = ["simulate", "digits", "--method", "fedbcd:updates=2", *SHORT, "--json", "--out"]
    first = call(*words, tmp_path / "a")
    second = call(*words, tmp_path / "b", program=["-c", LEAN], interpreter=sys.executable)
    assert second.returncode == 0, second.stderr
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    summary = json.loads(first.stdout)
    assert summary.keys() >= FIELDS
    assert summary["bytes"].keys() == {"up", "down", "total"}
    assert summary["metric"].keys() == {"name", "final", "best", "test", "chosen_on"}
    assert json.loads((tmp_path / "a" / "summary.json").read_text()) == summary
    for name in ("history", "rounds", "timeline"):
        tables = [pq.read_table(tmp_path / run / f"{name}.parquet") for run in ("a", "b")]
        assert tables[0].equals(tables[1])
        assert tables[0].num_rows > 0


def test_ctrl_c_ends_a_run_and_leaves_a_folder_that_can_be_read(tmp_path):
    out = tmp_path / "run"
    process = start("simulate", "digits", "--set", "train.epochs=100000", "--set",
                    "train.evaluate_every=1 round", "--out", out)  # fmt: skip
    code, err = interrupt(process, after="round 1 ")
    assert code == 130
    assert err.splitlines()[-1].startswith("colonnade: interrupted after ")
    assert str(out) in err
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert pq.read_table(out / "history.parquet").num_rows > 0
    assert colonnade.load(out / "job.toml").train.epochs == 100000


def test_ctrl_c_ends_a_comparison_and_keeps_the_finished_runs(tmp_path):
    # So many updates that the second run takes minutes, at a rate with which none diverges.
    process = start("compare", "digits", "--methods", "fedsgd,fedbcd:updates=900", "--seeds", "0",
                    "--workers", 2, "--set", "train.epochs=10", "--out", tmp_path,
                    "--set", "parties.*.optimizer.lr=1e-5")  # fmt: skip
    code, err = interrupt(process, after="run 1 of 2")
    assert code == 130
    assert err.splitlines()[-1].startswith("colonnade: interrupted; the finished runs are in ")
    assert "Traceback" not in err
    saved = [path.parent.relative_to(tmp_path) for path in tmp_path.rglob("summary.json")]
    assert saved == [Path("runs/fedsgd/seed-0")]


WRONG = {
    "missing job file": (["simulate", "nowhere.toml"], "nowhere.toml"),
    "unknown built-in job": (["simulate", "digitz"], "digits"),
    "unknown data set": (["simulate", "digits", "--set", "data=nothing"], "nothing"),
    "unknown method": (["simulate", "digits", "--method", "fedsdg"], "fedsgd"),
    "unknown option of a method": (["simulate", "digits", "--method", "fedbcd:q=2"], "updates"),
    "unknown key": (["simulate", "digits", "--set", "train.epoch=2"], "epochs"),
    "negative latency": (["simulate", "digits", "--set", "network.latency=-1ms"], "negative"),
    "batch too large": (["simulate", "digits", "--set", "train.batch_size=99999"], "batch_size"),
    "metric does not fit": (["simulate", "digits", "--set", "train.metric=mae"], "mae"),
    "bad set": (["simulate", "digits", "--set", "nonsense"], "--set"),
    "unknown command": (["simulat", "digits"], "'simulate'"),
    "unknown option": (["simulate", "digits", "--sede", "1"], "--seed"),
    "missing argument": (["simulate"], "JOB"),
    "not a number": (["simulate", "digits", "--seed", "one"], "--seed"),
    "out is a file": (["simulate", "digits", "--out", __file__], "is a file"),
    "missing methods": (["compare", "digits"], "--methods"),
    "unknown method among several": (["compare", "digits", "--methods", "fedsgd,x"], "'x'"),
    "bad seeds": (["compare", "digits", "--methods", "fedsgd", "--seeds", "a"], "seeds"),
    "no such sweep": (["compare", "digits", "--methods", "fedsgd", "--tuned", "none"], "none"),
    "bad grid": (["sweep", "digits", "--grid", "train.batch_size"], "--grid"),
}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_comparison_that_is_killed(how):
    process = start(
        "compare", "digits", "--methods", "fedsgd", "--seeds", "0,1,2,3", "--workers", "2",
        "--set", "train.epochs=1000", "--set", "train.stop=end",
    )  # fmt: skip
    until = time.monotonic() + PATIENCE_S
    try:
        while len(workers := children(behind(process.pid))) < 3 and time.monotonic() < until:
            time.sleep(0.2)
        assert len(workers) >= 3, "two workers and multiprocessing's resource tracker"
        process.send_signal(how)
    except BaseException:
        process.kill()
        raise
    finally:
        process.communicate(timeout=PATIENCE_S)
    until = time.monotonic() + PATIENCE_S
    while any(map(alive, workers)) and time.monotonic() < until:
        time.sleep(0.2)
    assert not any(map(alive, workers))


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_one_sentence_and_exit_code_2(case, capfd, monkeypatch, tmp_path):
    from colonnade.cli import main

    # In this process, for speed; the first case is the proof that a process does the same.
    monkeypatch.chdir(tmp_path)
    words, key_word = WRONG[case]
    code = main(words)
    out, err = capfd.readouterr()
    if case == "missing job file":
        result = call(*words, cwd=tmp_path, interpreter=sys.executable)
        assert (result.returncode, result.stdout, result.stderr) == (code, out, err)
    assert (code, out) == (2, "")
    assert err.startswith("colonnade: ") and err.count("\n") == 1
    assert key_word in err
    assert list(tmp_path.iterdir()) == []


def test_a_missing_table_is_one_sentence_and_exit_code_2(tmp_path):
    parties = "".join(
        f'[parties.{name}]\nrole = "{role}"\nid = "id"\ntable = "{name}.csv"\n'
        for name, role in (("bank", "active"), ("telco", "passive"))
    )
    (tmp_path / "job.toml").write_text(parties.replace('id = "id"', 'id = "id"\nlabel = "y"', 1))
    result = call("simulate", "job.toml", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("colonnade: ") and result.stderr.count("\n") == 1
    assert "bank.csv" in result.stderr


def test_compare_shows_misses_as_misses():
    result = call("compare", "digits", "--methods", "fedsgd,fedbcd:updates=2", "--seeds", "0,1",
                  *SHORT, "--set", "train.target=0.9999", "--workers", 1)  # fmt: skip
    assert result.returncode == 0, result.stderr
    rows = [line for line in result.stdout.splitlines() if line.startswith("fed")]
    assert [row.count("missed") for row in rows] == [3, 3]
    assert "run 4 of 4" in result.stderr


def test_sweep_resumes_and_compare_uses_it(tmp_path, monkeypatch, capsys):
    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    words = ["sweep", "digits", *SHORT, "--workers", 1, "--grid",
             "parties.*.optimizer.lr=0.1,0.4"]  # fmt: skip
    first = call(*words, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "run 2 of 2" in first.stderr
    code, out, err = run(*words, "--json")
    assert (code, err) == (0, "2 of 2 runs are in runs/sweep-digits already\n")
    best = json.loads(out)["points"][0]["settings"]
    code, out, err = run("compare", "digits", "--methods", "fedsgd,fedbcd:updates=2", "--seeds",
                         "0", *SHORT, "--tuned", "runs/sweep-digits", "--out", "cmp",
                         "--workers", 1, "--json")  # fmt: skip
    assert code == 0, err
    assert [run["seed"] for run in json.loads(out)["runs"]] == [0, 0]
    job = colonnade.load(tmp_path / "cmp" / "runs" / "fedbcd-updates=2" / "seed-0" / "job.toml")
    assert job.parties["lab"].optimizer["lr"] == best["parties.*.optimizer.lr"]


def test_a_method_from_outside(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import colonnade as cn\n"
        "from colonnade.policies.local import repeat\n"
        '@cn.extension("method")\n'
        "def often(updates: int = 2) -> cn.Method:\n"
        "    return cn.Method(local=repeat(updates))\n"
    )
    result = call("compare", "digits", "--methods", "mine:often,mine:often:updates=3", *SHORT,
                  "--seeds", "0", "--workers", 2, "--json", cwd=tmp_path)  # fmt: skip
    assert result.returncode == 0, result.stderr
    compositions = [run["composition"]["local"] for run in json.loads(result.stdout)["runs"]]
    assert compositions == ["repeat(updates=2)", "repeat(updates=3)"]
