"""A party under torchrun, against the same party in one process, over the network."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from colonnade import load, simulate
from colonnade.run.processes import free_port
from colonnade.tls.authority import create_authority, issue
from tests.warm import python

SETS = [
    "train.rounds=6",
    "train.dtype=float64",
    "train.evaluate_every=never",
    "parties.*.seed=7",
]
LIMIT_S = 200
ENDING_S = 40


def command(me, *where):
    sets = [word for text in SETS for word in ("--set", text)]
    return ["-m", "colonnade", "join", "digits", "--me", me, *where, "--quiet", *sets]


def told(folder, codes):
    """How the parties ended (None: not yet), and the end of what each has said."""
    return {me: (code, (folder / f"{me}.said").read_text()[-2000:]) for me, code in codes.items()}


def test_a_party_of_two_processes_learns_the_same(tmp_path):
    from safetensors.torch import load_file

    create_authority(tmp_path / "keys", 10, "tests")
    issue(tmp_path / "keys", ("clinic", "lab", "insurer"), {}, 5, False)
    port, torchrun = free_port(), ["-m", "torch.distributed.run", "--standalone"]
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": python()}
    ends = {"clinic": ("--listen", f"127.0.0.1:{port}")}
    running = {}
    for me in ("clinic", "lab", "insurer"):
        where = ends.get(me, ("--connect", f"127.0.0.1:{port}"))
        own = command(me, *where, "--keys", str(tmp_path / "keys" / me), "--out", me)
        crew = [] if me == "insurer" else [*torchrun, "--nproc-per-node=2"]
        with (tmp_path / f"{me}.said").open("wb") as said:
            running[me] = subprocess.Popen(
                [python(), *crew, *own], cwd=tmp_path, env=environ, stderr=said
            )
    end = time.monotonic() + LIMIT_S
    try:
        while any(process.poll() is None for process in running.values()):
            if time.monotonic() > end or any(process.poll() for process in running.values()):
                break
            time.sleep(0.05)
        codes = {me: process.poll() for me, process in running.items()}
        assert set(codes.values()) == {0}, told(tmp_path, codes)
    finally:
        for process in running.values():
            # torchrun ends the processes it has started, unless it is killed.
            process.terminate()
            process.wait(ENDING_S)
    alone = simulate(load("digits", SETS))
    for me, weights in alone.weights.items():
        spread = load_file(tmp_path / me / "last.safetensors")
        for name, tensor in weights.items():
            assert (spread[name] - tensor).abs().max().item() == pytest.approx(0, abs=1e-10)
