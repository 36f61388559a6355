"""A whole job between hosts of an emulated WAN that loses packets, breaks and resets."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.parties import PORT, alliance, join_all
from colonnade import simulate
from colonnade.job.files import load
from tests.wan.net import Side

SETS = [
    *("train.rounds=120", "train.checkpoint_every=20", "train.evaluate_every='60 rounds'"),
    *("timeouts.silence='2s'", "parties.clinic.seed=1", "parties.lab.seed=2"),
    "parties.insurer.seed=3",
]


@pytest.mark.usefixtures("stood_in")
def test_a_bad_line_costs_time_only(wan, tmp_path):
    job = load("digits", SETS)
    expected = simulate(job)
    keys = alliance(tmp_path / "alliance", list(job.parties))
    sides = {
        job.active: Side(),
        "lab": Side(latency="10ms", rate="20mbit", loss=0.01),
        "insurer": Side(latency="5ms", rate="5mbit", jitter="3ms"),
    }
    with wan(sides) as net:

        def trouble() -> None:
            log = tmp_path / "out" / job.active / "log.txt"
            while not log.exists() or "checkpoint of round 20" not in log.read_text():
                if over.wait(0.05):
                    return
            net.partition("lab", 3)
            broken.append(net.reset("insurer"))

        over, broken = threading.Event(), []
        troubling = threading.Thread(target=trouble)
        troubling.start()
        began = time.monotonic()
        try:
            join_all(
                "digits",
                job,
                keys,
                tmp_path / "out",
                options=[word for text in SETS for word in ("--set", text)],
                starters={name: net.host(name).popen for name in job.parties},
                host=net.hub.address,
                port=PORT,
                timeout_s=90,
            )
        finally:
            over.set()
            troubling.join()
        assert broken == [1] and time.monotonic() - began > 3
        assert net.counts("lab")[0].cut + net.counts("lab")[1].cut > 0
    for name, weights in expected.weights.items():
        found = load_file(tmp_path / "out" / name / "last.safetensors")
        assert all(torch.equal(found[key], tensor) for key, tensor in weights.items())
