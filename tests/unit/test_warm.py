"""Processes that begin with the libraries loaded behave as those of an interpreter."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests import warm
from tests.processes import alive

COMPARED = [
    ["-c", "import sys; print(sys.argv, __name__, sys.path[0]); sys.exit(3)", "a", "b"],
    ["-P", "-m", "colonnade", "--version"],
    ["-m", "colonnade", "simulate", "nowhere.toml"],
    ["script.py", "x"],
    ["-c", "import os; os.kill(os.getpid(), 15)"],
    ["-c", "import sys; print(sys.stdin.read() * 2)"],
    ["-c", "import os, tests.processes; print(os.environ['SOME'], os.getcwd())"],
    ["-c", "import atexit, sys; atexit.register(print, 'over'); sys.exit('why')"],
]


@pytest.mark.parametrize("words", COMPARED, ids=" ".join)
def test_it_ends_and_speaks_as_an_interpreter_does(words, tmp_path):
    (tmp_path / "script.py").write_text("import sys; print(sys.argv, sys.path[0], __name__)\n")
    environ = os.environ | {"SOME": "ü", "PYTHONPATH": f"{warm.ROOT}/src:{warm.ROOT}"}

    def run(python):
        done = subprocess.run([python, *words], cwd=tmp_path, env=environ, input="ab",
                              capture_output=True, text=True, timeout=100)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    assert run(warm.python()) == run(sys.executable)


SLEEPS = """
import os, time
try:
    print(os.getpid(), flush=True)
    time.sleep(100)
except KeyboardInterrupt:
    print("heard")
"""


def begun():
    """A stand-in, and the process it stands for."""
    words = [warm.python(), "-c", SLEEPS]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


def test_it_is_killed_with_what_stands_for_it():
    process, pid = begun()
    process.kill()
    process.communicate()
    until = time.monotonic() + 60
    while alive(pid):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_signals_are_handed_on():
    process, pid = begun()
    assert warm.behind(process.pid) == pid
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("heard\n", None)
    assert process.returncode == 0


def test_a_test_has_the_process_itself(tmp_path):
    with (tmp_path / "out").open("w") as out:
        process = warm.Warm(["-c", "import os; print(os.getpid()); os._exit(7)"], {1: out.fileno()})
    while process.poll() is None:
        time.sleep(0.01)
    assert process.poll() == 7
    assert int((tmp_path / "out").read_text()) == process.pid


def test_multiprocessing_starts_its_processes_so():
    code = "import colonnade.run.pool as p; print(dict(p.side_by_side(len, ['a', 'bc'], 2)))"
    with warm.stood_in():
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("{0: 1, 1: 2}\n", "")


def test_the_server_outlives_whoever_does_not_listen():
    for _ in range(20):
        process = subprocess.Popen([warm.python(), "-c", "pass"])
        process.kill()
        process.wait()
        with warm._connected() as rude:
            rude.sendall(
                b'{"words": ["-c", "pass"], "folder": "/", "environment": {}, "fds": []}\n'
            )
    assert subprocess.run([warm.python(), "-c", "pass"]).returncode == 0
