"""How fast a service answers: three parties over mTLS, and a load tool over HTTP (`make bench`).

20,000 rows; the bank, which listens, and two passive parties have ten columns each and bottom
models 10-32-8, one thread each. Every request asks for one row by its id. The load comes from wrk
(https://github.com/wg/wrk, `apt install wrk`), in one thread, over kept connections. The bounds
hold on two quiet cores, which the three parties and wrk share.

    python -m benchmarks.serve              about two minutes
    python -m benchmarks.serve --smoke      a second of each load, to see that it runs
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from rich.console import Console

from benchmarks.figures import Figures
from benchmarks.parties import ROOT, alliance, end_with_cleanup, load_average
from colonnade import simulate
from colonnade.job.files import load
from colonnade.run.processes import free_port

ROWS, COLUMNS = 20_000, 10
PARTIES = ("bank", "telco", "shop")
DEADLINE_MS = 200
START_S = 120
JOB = """
name = "served"
method = {{ name = "fedsgd" }}

[train]
rounds = 40
batch_size = 256
metric = "auc"

[top]
kind = "split"
hidden = [16]

[parties.bank]
role = "active"
label = "good"
table = "{folder}/bank.csv"
id = "id"
model = {{ name = "mlp", hidden = [32], embedding = 8 }}
"""
PASSIVE = """
[parties.{name}]
table = "{folder}/{name}.csv"
id = "id"
model = {{ name = "mlp", hidden = [32], embedding = 8 }}
"""
LUA = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local n = 0
request = function()
  n = (n + 7919) % {rows}
  return wrk.format(nil, "/predict", nil, string.format('{{"ids":["c%06d"]}}', n))
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT %f %f %f %d\\n", latency:percentile(50) / 1000,
    latency:percentile(99) / 1000, summary.requests / summary.duration * 1e6,
    e.status + e.connect + e.read + e.write + e.timeout))
end
"""


@dataclass(frozen=True)
class Load:
    """What wrk has measured."""

    p50_ms: float
    p99_ms: float
    per_s: float
    faults: int


class Bench:
    """Three parties with a trained model, in processes of their own."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rows = folder, rows
        self.started: dict[str, subprocess.Popen[Any]] = {}
        draw = np.random.default_rng(0)
        x = {name: draw.standard_normal((rows, COLUMNS)).round(4) for name in PARTIES}
        good = sum(each[:, 0] for each in x.values()) > 0
        for name, numbers in x.items():
            names = [f"{name}_{column}" for column in range(COLUMNS)]
            head = ["id", *names, *(["good"] if name == "bank" else [])]
            with (folder / f"{name}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(head)
                for row in draw.permutation(rows):
                    label = [int(good[row])] if name == "bank" else []
                    writer.writerow([f"c{row:06d}", *numbers[row], *label])
        job = JOB.format(folder=folder)
        for name in PARTIES[1:]:
            job += PASSIVE.format(name=name, folder=folder)
        (folder / "job.toml").write_text(job)
        (folder / "load.lua").write_text(LUA.format(rows=rows))
        simulate(load(folder / "job.toml")).save(folder / "run")
        alliance(folder / "keys", PARTIES)
        self.port, self.http = free_port(), free_port()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.http}", timeout=30)

    def start(self, name: str, *more: str) -> None:
        ends = ["--connect", f"127.0.0.1:{self.port}"]
        if name == "bank":
            ends = ["--listen", f"127.0.0.1:{self.port}", "--http", f"127.0.0.1:{self.http}"]
        command = [sys.executable, "-m", "colonnade", "serve", str(self.folder / "job.toml")]
        command += ["--me", name, "--run", str(self.folder / "run"), *ends, "--trust-job"]
        command += ["--keys", str(self.folder / "keys" / name), *more]
        command += ["--out", str(self.folder / "served" / name)]
        with (self.folder / f"{name}.log").open("a") as log:
            self.started[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)

    def start_all(self, *more: str) -> None:
        self.start("bank", "--deadline", f"{DEADLINE_MS}ms", *more)
        for name in PARTIES[1:]:
            self.start(name)
        self.wait()
        self.load(8, 1.0)  # warms up what is compiled and cached

    def wait(self) -> None:
        """Until the bank says that everybody is there."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            try:
                if self.client.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
            if self.started["bank"].poll() is not None:
                break
        raise SystemExit((self.folder / "bank.log").read_text())

    def stop_all(self) -> None:
        for process in self.started.values():
            process.send_signal(signal.SIGTERM)
        for process in self.started.values():
            process.wait(30)
        self.started.clear()

    def kill_all(self) -> None:
        for process in self.started.values():
            process.kill()
            process.wait()

    def load(self, connections: int, seconds: float) -> Load:
        url = f"http://127.0.0.1:{self.http}"
        duration = f"{max(1, round(seconds))}s"
        if shutil.which("wrk") is None:
            return self._gentle_load(seconds)
        words = ["wrk", "-t1", f"-c{connections}", f"-d{duration}", "-s"]
        said = subprocess.run(
            [*words, str(self.folder / "load.lua"), url], capture_output=True, text=True, check=True
        ).stdout
        found = re.search(r"RESULT (\S+) (\S+) (\S+) (\d+)", said)
        assert found is not None, said
        return Load(*(float(each) for each in found.groups()[:3]), int(found[4]))

    def _gentle_load(self, seconds: float) -> Load:
        """Without wrk, for the smoke form: one request after the other."""
        took, late, end = [], 0, time.monotonic() + seconds
        while time.monotonic() < end or not took:
            began = time.perf_counter()
            reply = self.ask()
            # On a machine that does much else, a party may miss the deadline.
            assert reply.status_code in (200, 504), reply.text
            late += reply.status_code == 504
            took.append((time.perf_counter() - began) * 1e3)
        rate = (len(took) - late) / seconds
        return Load(float(np.median(took)), float(np.percentile(took, 99)), rate, late)

    def ask(self, *ids: str) -> httpx.Response:
        return self.client.post("/predict", json={"ids": list(ids or ["c000001"])})

    def absence(self) -> tuple[float, float, float]:
        """Kill a passive party: after how many milliseconds it is named at the latest, and how many
        seconds after its return, by its start and by its connection, rows are scored again."""
        self.started["telco"].kill()
        self.started["telco"].wait()
        named = []
        for _ in range(10):
            began = time.perf_counter()
            reply = self.ask()
            named.append((time.perf_counter() - began) * 1e3)
            assert reply.status_code == 504 and reply.json()["late"] == ["telco"], reply.text
        log = self.folder / "telco.log"
        before = log.stat().st_size
        began = time.monotonic()
        self.start("telco")
        connected = began
        while self.ask().status_code != 200:
            # Whoever is not connected now connects later: at the earliest from here on.
            if b"connected with" not in log.read_bytes()[before:]:
                connected = time.monotonic()
        now = time.monotonic()
        return max(named), now - began, now - connected

    def difference(self) -> float:
        """The largest difference of a probability from that of `colonnade predict`."""
        ids = [f"c{row:06d}" for row in range(0, self.rows, self.rows // 400)]
        with (self.folder / "asked.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["id"], *[[each] for each in ids]])
        words = ["predict", str(self.folder / "job.toml"), "--run", str(self.folder / "run")]
        words += ["--ids", str(self.folder / "asked.csv"), "--to", str(self.folder / "out.csv")]
        subprocess.run(
            [sys.executable, "-m", "colonnade", *words, "--quiet"], check=True, cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        with (self.folder / "out.csv").open() as file:
            batch = {row["id"]: float(row["probability_1"]) for row in csv.DictReader(file)}
        rows = self.ask(*ids).json()["rows"] + self.ask(ids[3]).json()["rows"]
        return max(abs(row["probabilities"]["1"] - batch[row["id"]]) for row in rows)

    def together(self) -> float:
        """How many requests went together, in the mean."""
        text = self.client.get("/metrics").text
        found = dict(re.findall(r"colonnade_batch_requests_(sum|count) (\S+)", text))
        return float(found["sum"]) / float(found["count"])


def measure(bench: Bench, seconds: float, figures: Figures) -> None:
    bench.start_all()
    one, eight, many = (bench.load(count, seconds) for count in (1, 8, 32))
    together = bench.together()
    figures.add("p50 at 1 connection, ms", one.p50_ms, f"{one.p50_ms:.2f}", most=4)
    figures.add("p99 at 8 connections, ms", eight.p99_ms, f"{eight.p99_ms:.1f}", most=40)
    figures.add("requests a second at 32", many.per_s, f"{many.per_s:,.0f}", least=1500)
    figures.add("p99 at 32 connections, ms", many.p99_ms, f"{many.p99_ms:.1f}")
    figures.add("requests that went together, mean", together, f"{together:.1f}")
    faults = one.faults + eight.faults + many.faults
    figures.add("requests that failed under load", faults, f"{faults}")
    if not figures.judged:
        # The rest starts more processes, and is in tests/e2e/test_serve.py too.
        bench.stop_all()
        return
    named_ms, again_s, after_s = bench.absence()
    difference = bench.difference()
    bench.stop_all()
    bench.start_all("--no-batch")
    apart = bench.load(32, seconds)
    bench.stop_all()
    figures.add("requests a second at 32, one by one", apart.per_s, f"{apart.per_s:,.0f}")
    ratio = many.per_s / apart.per_s
    figures.add("together ÷ one by one", ratio, f"{ratio:.2f}", least=2.5)
    most_ms = DEADLINE_MS + 50
    figures.add("a killed party is named within, ms", named_ms, f"{named_ms:.0f}", most=most_ms)
    figures.add("scores again after its start, s", again_s, f"{again_s:.1f}")
    figures.add("scores again after it connects, s", after_s, f"{after_s:.2f}", most=5)
    figures.add("serve − predict, probability", difference, f"{difference:.1e}", most=1e-6)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10, help="of each load")
    parser.add_argument("--smoke", action="store_true", help="a second of each, of fewer rows")
    asked = parser.parse_args(words)
    if shutil.which("wrk") is None and not asked.smoke:
        raise SystemExit("the load comes from wrk, which is not installed: apt install wrk")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    end_with_cleanup()
    figures = Figures("A service of three parties over mTLS, on one host", judged=not asked.smoke)
    with tempfile.TemporaryDirectory(prefix="colonnade-bench-") as folder:
        bench = Bench(Path(folder), 800 if asked.smoke else ROWS)
        before = load_average()
        try:
            measure(bench, 1.0 if asked.smoke else asked.seconds, figures)
        finally:
            bench.kill_all()
            bench.client.close()
        sizes = {
            name: (Path(folder) / "served" / name / "ledger.chain").stat().st_size
            for name in PARTIES
        }
    console = Console()
    figures.show(console)
    console.print(f"before: {before}; after: {load_average()}; ledgers, bytes: {json.dumps(sizes)}")


if __name__ == "__main__":
    main()
