"""How fast rows are scored in a batch, and that memory does not grow with them (`make bench`).

A bank and a telco have tables of a million rows each and a model that was trained on them; they are
processes of this host, over mTLS. Once a fifth of the rows is scored, once all: what that takes
more of memory is what the rows that are scored take, beside the table.

    python -m benchmarks.predict            about two minutes
    python -m benchmarks.predict --smoke    a few rows, to see that it runs
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import colonnade as cn
from benchmarks.figures import Figures
from benchmarks.parties import alliance, end_with_cleanup, load_average
from colonnade.job import dumps
from colonnade.run.processes import free_port

COLUMNS = 8
MORE_MIB = 64
"""How much more memory a party may take for five times as many rows."""
PARTY = """
import sys
from pathlib import Path
from colonnade.cli import main
code = main(sys.argv[1:])
print(next(line for line in Path("/proc/self/status").open() if line.startswith("VmHWM")))
sys.exit(code)
"""
"""A party that says at the end how much memory it had at the most."""


def trained(folder: Path, rows: int) -> None:
    """Tables, job, party files and a run that was trained on them for a few rounds."""
    random = np.random.default_rng(0)
    names = [f"c{number:07d}" for number in range(rows)]
    bank = {f"a{number}": random.normal(size=rows).astype(np.float32) for number in range(COLUMNS)}
    telco = {f"b{number}": random.normal(size=rows).astype(np.float32) for number in range(COLUMNS)}
    good = np.where(bank["a0"] + telco["b0"] > 0, "yes", "no")
    pq.write_table(pa.table({"id": names, **bank, "good": good}), folder / "bank.parquet")
    pq.write_table(pa.table({"id": names, **telco}), folder / "telco.parquet")
    common = {"id": "id", "preprocessing": "plain"}
    job = cn.Job(
        name="scores",
        parties={
            "bank": cn.Party(
                role="active", table="bank.parquet", label="good", columns=["a*"], **common
            ),
            "telco": cn.Party(table="telco.parquet", **common),
        },
        train=cn.Train(rounds=20, batch_size=256, evaluate_every="20 rounds"),
    )
    (folder / "job.toml").write_text(dumps(job))
    before = Path.cwd()
    os.chdir(folder)
    try:
        cn.simulate(job).save(folder / "run")
    finally:
        os.chdir(before)


def scored(folder: Path, keys: Path, which: str) -> tuple[float, dict[str, int]]:
    """How long it took to score the rows of a split, and the most memory of each party, in KiB."""
    place = f"127.0.0.1:{free_port()}"
    ends = {"bank": ["--listen", place, "--rows", which, "--to", f"{which}.parquet"],
            "telco": ["--connect", place]}  # fmt: skip
    began, started, most = time.perf_counter(), {}, {}
    for name, words in ends.items():
        command = [sys.executable, "-c", PARTY, "predict", "job.toml", "--me", name, *words]
        command += ["--run", "run", "--trust-job", "--quiet", "--keys", str(keys / name)]
        started[name] = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        for name, process in started.items():
            said, _ = process.communicate()
            if process.returncode:
                raise SystemExit(f"{name} ended with {process.returncode}")
            most[name] = int(said.split()[-2])
    finally:
        for process in started.values():
            process.kill()
    return time.perf_counter() - began, most


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    chosen = parser.parse_args()
    rows, console = 2_000 if chosen.smoke else chosen.rows, Console()
    end_with_cleanup()
    figures = Figures(f"Predictions, {load_average()}", judged=not chosen.smoke)
    with tempfile.TemporaryDirectory(prefix="colonnade-bench-") as folder:
        home = Path(folder)
        keys = alliance(home / "keys", ("bank", "telco"))
        trained(home, rows)
        few_s, few = scored(home, keys, "test")
        all_s, most = scored(home, keys, "all")
        count = pq.read_metadata(home / "all.parquet").num_rows
        assert count == rows, count
    more = rows - rows // 5
    figures.add(f"rows a second, of {more:,} more", more / max(1e-9, all_s - few_s),
                f"{more / max(1e-9, all_s - few_s):,.0f}")  # fmt: skip
    for name in most:
        mib, extra = most[name] / 1024, (most[name] - few[name]) / 1024
        figures.add(f"memory of {name}, MiB", mib, f"{mib:,.0f}")
        figures.add(f"more for five times the rows, {name}, MiB", extra, f"{extra:,.0f}",
                    most=MORE_MIB)  # fmt: skip
    figures.show(console)


if __name__ == "__main__":
    main()
