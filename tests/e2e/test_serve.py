"""`colonnade serve` between real processes over mTLS: scores, a crash, a return, and the end."""

from __future__ import annotations

import csv
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from colonnade.cli import main
from colonnade.record.chain import verify
from colonnade.run.processes import free_port
from colonnade.serve.listening import CONNECTIONS_MAX
from tests.e2e.test_align import keys  # noqa: F401 - a fixture
from tests.e2e.test_predict import RUNS, house, score  # noqa: F401 - a fixture
from tests.warm import behind, python

PATIENCE_S = 120


class Served:
    """A bank that answers over HTTP, and a telco."""

    def __init__(self, house):  # noqa: F811 - the fixture
        self.house, self.port = house, free_port()
        self.client = self.connected()

    def connected(self):
        client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=100)
        return self.house.stack.enter_context(client)

    def start(self, name, *more):
        ends = {
            "bank": ["--listen", self.house.listen, "--http", f"127.0.0.1:{self.port}"],
            "telco": ["--connect", self.house.listen],
        }
        words = [python(), "-m", "colonnade", "serve", "job.toml", "--me", name, *ends[name]]
        words += ["--run", RUNS[name], "--keys", str(self.house.keys / name), *more]
        log = (self.house.folder / f"{name}.log").open("a")
        with log:
            process = subprocess.Popen(
                words,
                cwd=self.house.folder,
                stdout=log,
                stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        self.house.stack.enter_context(process)
        self.house.stack.callback(process.kill)
        return process

    def log(self, name):
        return (self.house.folder / f"{name}.log").read_text()

    def ask(self, *ids, **more):
        return self.client.post("/predict", json={"ids": list(ids), **more})

    def until(self, status, path="/health"):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                if self.client.get(path).status_code == status:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        pytest.fail(f"no {status}: {self.log('bank')} {self.log('telco')}")


def predicted(house, ids):  # noqa: F811 - the fixture
    with (house.folder / "asked.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["customer"], *[[each] for each in ids]])
    ends = score(house, "--ids", "asked.csv", "--to", "expected.csv")
    assert [code for code, _, _ in ends.values()] == [0, 0], ends
    with (house.folder / "expected.csv").open() as file:
        return {row["customer"]: row for row in csv.DictReader(file)}


def test_a_service_scores_like_a_batch_and_outlives_its_parties(house):  # noqa: F811
    ids = [f"c{number:05d}" for number in range(295, 345)]
    expected = predicted(house, ids)
    served = Served(house)
    bank, telco = served.start("bank", "--deadline", "5s"), served.start("telco")
    served.until(200)

    reply = served.ask(*ids).json()
    assert len(reply["rows"]) == 50
    for row in reply["rows"]:
        batch = expected[row["id"]]
        assert (row["missing"] or []) == [name for name in batch["missing"].split(", ") if name]
        if row["missing"] is None:
            assert row["prediction"] == batch["prediction"]
            assert abs(row["probabilities"]["1"] - float(batch["probability_1"])) < 1e-6
    assert reply["model"]["version"] == expected[ids[-1]]["model"]

    own = {"rows": [{"customer": ids[-1], "income": 0.5}]}
    assert served.client.post("/predict", json=own).json()["rows"][0]["prediction"] in ("0", "1")
    assert served.ask("c00310", missing="mean").json()["missing"] == "mean"
    assert served.client.post("/predict", content=b"{" * 99).status_code == 415
    assert served.ask(None).status_code == 422
    assert crowd(served).status_code == 200

    os.kill(behind(telco.pid), signal.SIGKILL)
    telco.wait(PATIENCE_S)
    late = served.ask("c00310", deadline_ms=100)
    assert late.status_code == 504 and late.json()["late"] == ["telco"]
    assert served.client.get("/health").status_code == 503
    telco = served.start("telco")
    served.until(200)
    assert served.ask("c00310").status_code == 200

    # A planned stop of the bank leaves the telco waiting for it.
    bank.send_signal(signal.SIGINT)
    assert bank.wait(PATIENCE_S) == 0
    bank = served.start("bank", "--deadline", "5s")
    served.until(200)
    assert served.ask("c00310").status_code == 200 and telco.poll() is None
    for process in (telco, bank):
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    for name in ("bank", "telco"):
        said = served.log(name)
        assert "Traceback" not in said and "gives up" not in said and "round" not in said, said
        chain = verify(house.folder / f"predictions/credit-{name}/ledger.chain")
        assert not chain.fault and chain.entries > 5


def crowd(served):
    """Many connections that say nothing, and headers that never end: others are still answered."""
    open_ones = []
    for number in range(2 * CONNECTIONS_MAX):
        one = socket.create_connection(("127.0.0.1", served.port))
        open_ones.append(one)
        if number % 50 == 0:
            with suppress(OSError):
                one.send(b"POST /predict HTTP/1.1\r\nx: ")
    fresh, end = served.connected(), time.monotonic() + PATIENCE_S
    while True:
        try:
            answer = fresh.post("/predict", json={"ids": ["c00310"]})
            break
        except httpx.TransportError:
            assert time.monotonic() < end, "silent connections are closed after a while"
            time.sleep(0.1)
    for one in open_ones:
        one.close()
    return answer


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--deadline", "2h"], "is not from 1ms to 1min"),
        (["--http", "nonsense"], "--http nonsense is no address"),
        (["--token-file", "nothing"], "nothing cannot be read"),
        (["--run", "nowhere"], "holds no model of bank"),
        (["--connect", "bank:1"], "is the active party and listens"),
    ],
)
def test_a_wrong_command_is_one_sentence(house, capsys, monkeypatch, words, sentence):  # noqa: F811
    monkeypatch.chdir(house.folder)
    common = ["job.toml", "--me", "bank", "--keys", str(house.keys / "bank")]
    run = [] if "--run" in words else ["--run", RUNS["bank"]]
    assert main(["serve", *common, *run, *words]) == 2
    said = capsys.readouterr().err.splitlines()
    assert sentence in said[-1], said


def test_without_the_extra_the_command_says_what_to_install(capsys, monkeypatch, tmp_path):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text('[parties.bank]\nrole = "active"\n[parties.telco]\n')
    assert main(["serve", "job.toml", "--me", "bank", "--run", "x"]) == 2
    assert "pip install 'colonnade[serve]'" in capsys.readouterr().err
