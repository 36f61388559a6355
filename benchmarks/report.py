"""How large a report is, and how soon a person can use it (`make bench`).

Three reports: of a run with the rounds of thirty epochs of Fashion-MNIST, of a run of a million
spans, and of ten runs of one comparison. The runs are made up, with timelines as long and as
irregular as those of a network; their folders are otherwise those that a simulation writes. A page
can be used when its charts are drawn and the browser has nothing left to do.

    python -m benchmarks.report            about a minute
    python -m benchmarks.report --smoke    a few rounds, to see that it runs

Without Debian's chromium, sizes and times of writing only.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks.figures import Figures
from colonnade.job import dumps, load
from colonnade.page.html import report_html
from colonnade.page.report import report_of
from colonnade.record.timeline_file import EXCHANGES, SPANS
from tests.browser import browser, opened, why_not

FMNIST_ROUNDS = 30 * 211
"""Thirty epochs of 54,000 rows in batches of 256."""
REPORT_MB = 6
KINDS = ("wait", "forward", "send", "receive", "backward", "local")
SPANS_A_ROUND = 2 * len(KINDS)
"""Of two parties."""


def spans_table(rounds: int, seed: int = 0) -> pa.Table:
    """The timeline of two parties, in which everything takes a little longer or shorter."""
    random = np.random.default_rng(seed)
    parts = []
    for party, peer in (("right", "left"), ("left", "right")):
        took = random.gamma(4.0, 2e6, size=(rounds, len(KINDS))).astype(np.int64) + 1
        ends = took.cumsum().reshape(took.shape)
        numbers = np.tile(np.arange(len(KINDS)), rounds)
        crosses = np.isin(numbers, (2, 3))
        words = {"kind": (numbers, list(KINDS)), "party": (np.zeros_like(numbers), [party]),
                 "peer": (np.where(crosses, 1, 0), ["", peer]),
                 "message": (np.where(crosses, 1, 0), ["", "Embedding"])}  # fmt: skip
        columns = {
            name: pa.DictionaryArray.from_arrays(codes.astype(np.int32), pa.array(names))
            for name, (codes, names) in words.items()
        }
        columns["start_ns"] = pa.array((ends - took).ravel())
        columns["end_ns"] = pa.array(ends.ravel())
        columns["round"] = pa.array(np.repeat(np.arange(1, rounds + 1), len(KINDS)))
        columns["bytes"] = pa.array(np.where(crosses, 65_600, 0))
        parts.append(pa.table({name: columns[name] for name in SPANS.names}).cast(SPANS))
    return pa.concat_tables(parts).unify_dictionaries()


def exchanges_table(rounds: int, seed: int = 0) -> pa.Table:
    """What became of the exchanges of the passive party."""
    random = np.random.default_rng(seed)
    used = np.arange(1, rounds + 1) * 48_000_000
    columns = {"party": pa.array(["left"] * rounds).dictionary_encode(),
               "round": np.arange(1, rounds + 1), "sent_ns": used - 40_000_000,
               "replied_ns": used - 2_000_000, "used_ns": used,
               "window": random.integers(1, 4, rounds), "in_flight": random.integers(1, 4, rounds),
               "staleness": random.integers(0, 3, rounds), "updates": random.integers(1, 5, rounds),
               "weight_p10": random.uniform(0.1, 0.4, rounds),
               "weight_p50": random.uniform(0.4, 0.7, rounds),
               "weight_p90": random.uniform(0.7, 1.0, rounds)}  # fmt: skip
    return pa.table({name: columns[name] for name in EXCHANGES.names}).cast(EXCHANGES)


def made_up(folder: Path, rounds: int, method: str = "pasta", seed: int = 0) -> Path:
    """The folder of a run that never was."""
    folder.mkdir(parents=True)
    job = load("fmnist", ["train.epochs=30"], method=method, seed=seed)
    (folder / "job.toml").write_text(dumps(job))
    pq.write_table(spans_table(rounds, seed), folder / "timeline.parquet")
    pq.write_table(exchanges_table(rounds, seed), folder / "exchanges.parquet")
    done = np.linspace(rounds / 30, rounds, 30)
    accuracy = 0.9 - 0.5 * np.exp(-np.arange(30) / (3 + seed % 3))
    history = {"round": done, "epoch": np.arange(1.0, 31.0), "time_s": done * 0.048,
               "bytes_up": done * 65_600, "bytes_down": done * 65_600, "accuracy": accuracy,
               "loss": 1 - accuracy}  # fmt: skip
    pq.write_table(pa.table(history), folder / "history.parquet")
    summary = {"job": job.name, "method": job.method, "seed": seed, "status": "end",
               "rounds": rounds, "epochs": 30.0, "clock": "virtual", "time_s": rounds * 0.048,
               "bytes": {"up": rounds * 65_600, "down": rounds * 65_600, "total": rounds * 131_200},
               "metric": {"name": "accuracy", "final": 0.89, "best": 0.9, "test": 0.89,
                          "chosen_on": "validation"}, "target": 0.85}  # fmt: skip
    (folder / "summary.json").write_text(json.dumps(summary))
    entry = {"kind": "Embedding", "purpose": "training", "messages": rounds,
             "bytes": rounds * 65_600}  # fmt: skip
    ledger = {"left": [entry | {"peer": "right", "direction": "sent"}],
              "right": [entry | {"peer": "left", "direction": "received"}]}  # fmt: skip
    (folder / "ledger.json").write_text(json.dumps(ledger))
    (folder / "parties" / "left").mkdir(parents=True)
    (folder / "parties" / "right").mkdir()
    return folder


READY = """() => new Promise(done => {
  const look = () => {
    const timeline = document.querySelector('#timeline [data-detail]');
    if (document.querySelector('[data-ready]') && timeline)
      requestAnimationFrame(() => setTimeout(() => done(performance.now() / 1000), 0));
    else requestAnimationFrame(look);
  };
  look();
})"""
"""Seconds from when the page was asked for until its timeline is drawn."""
ZOOM = """() => new Promise(done => {
  const began = performance.now(), button = document.querySelector('[aria-label="Zoom in"]');
  let times = 0;
  const again = () => {
    if (times++ === 20) return done((performance.now() - began) / 20000);
    button.click();
    requestAnimationFrame(again);
  };
  again();
})"""
"""Seconds for one step of a zoom, drawn, of twenty."""


def measure(
    title: str, folders: list[Path], figures: Figures, usable_s: float, chromium: Any
) -> None:
    """Write a report, open it, and add what that took."""
    began = time.perf_counter()
    page = report_html(report_of(folders))
    wrote_s = time.perf_counter() - began
    size = len(page.encode()) / 1e6
    figures.add(f"{title}: size", size, f"{size:.2f} MB", most=REPORT_MB)
    figures.add(f"{title}: to write", wrote_s, f"{wrote_s:.1f} s")
    if chromium is None:
        return
    file = folders[0].parent / "report.html"
    file.write_text(page)
    with opened(chromium, file.as_uri(), ready="[data-ready]") as shown:
        seconds = shown.evaluate(READY)
        zoomed = shown.evaluate(ZOOM)
    figures.add(f"{title}: usable after", seconds, f"{seconds:.2f} s", most=usable_s)
    figures.add(f"{title}: one step of a zoom", zoomed, f"{zoomed * 1000:.0f} ms", most=0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="a few rounds, not judged")
    smoke = parser.parse_args().smoke
    figures = Figures("A report", judged=not smoke)
    rounds, many, runs = (20, 50, 2) if smoke else (FMNIST_ROUNDS, 1_000_000 // SPANS_A_ROUND, 10)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        out = Path(place)
        chromium = None if why_not() else stack.enter_context(browser())
        one = made_up(out / "one" / "run", rounds)
        measure("30 epochs of Fashion-MNIST", [one], figures, 2.0, chromium)
        million = made_up(out / "million" / "run", many)
        measure("a million spans", [million], figures, 3.0, chromium)
        methods = ("fedsgd", "pasta")
        ten = [
            made_up(out / "ten" / f"run-{place}", rounds, methods[place % 2], place // 2)
            for place in range(runs)
        ]
        measure(f"{runs} runs", ten, figures, 3.0, chromium)
    figures.show(Console())


if __name__ == "__main__":
    main()
