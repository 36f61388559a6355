"""Tables larger than memory should hold: as fast as small ones, in bounded memory (`make
bench-large`).

Two parties with tables of their own, each a process, train the same number of rounds on 200,000
rows and on 20 million. Of every process the largest RssAnon is taken, which is the memory that is
its own; pages of files, which the system drops when it needs room, are not in it.

    python -m benchmarks.large                      about 20 minutes and 15 GB of disk
    python -m benchmarks.large --rows 2000000       a tenth of that
    python -m benchmarks.large --smoke              tiny, to see that it runs

Where page cache is scarce a training goes on, more slowly: `docs/tables.md` has a run with each
party in a cgroup of 2 GiB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks.figures import Figures

SMALL, LARGE, COLUMNS, BATCH, ROUNDS = 200_000, 20_000_000, 40, 256, 6_000
PIECE = 500_000
ANON_GIB_MAX = 3.0
JOB = """\
name = "large"
[train]
rounds = {rounds}
batch_size = {batch}
test = 0.0
validation = 0.0
evaluate_every = "never"
[parties.bank]
role = "active"
[parties.telco]
"""


def write_tables(folder: Path, rows: int, columns: int) -> None:
    """A folder of Parquet for each party, written piece by piece."""
    draw = np.random.default_rng(0)
    for party in ("bank", "telco"):
        (folder / party).mkdir(parents=True)
        for number, start in enumerate(range(0, rows, PIECE)):
            count = min(PIECE, rows - start)
            values = draw.standard_normal((columns, count), dtype=np.float32)
            table = {"id": np.arange(start, start + count) + 10**9}
            table |= {f"x{place}": values[place] for place in range(columns)}
            if party == "bank":
                table["bought"] = (values[0] + values[1] > 0).astype(np.int8)
            path = folder / party / f"{number:05}.parquet"
            pq.write_table(pa.table(table), path, compression="none")
    own = 'id = "id"\nmodel = { name = "mlp", hidden = [64], embedding = 16 }\ncolumns = ["*"]\n'
    (folder / "bank.toml").write_text(f'table = "bank"\nlabel = "bought"\n{own}')
    (folder / "telco.toml").write_text(f'table = "telco"\n{own}')


class Watch:
    """The largest RssAnon of each process below this one, while it is open."""

    def __init__(self, root: int) -> None:
        self.largest: dict[int, int] = {}
        self._root = root
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.wait(0.1):
            for pid, anon in _anonymous(self._root).items():
                self.largest[pid] = max(anon, self.largest.get(pid, 0))


def _anonymous(root: int) -> dict[int, int]:
    """RssAnon of the processes whose parent is `root`, in bytes."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            status = dict(
                line.split(":", 1) for line in (entry / "status").read_text().splitlines()
            )
        except (OSError, ValueError):
            continue
        if int(status.get("PPid", "0")) == root and "RssAnon" in status:
            found[int(entry.name)] = int(status["RssAnon"].split()[0]) << 10
    return found


def train(folder: Path, rounds: int) -> tuple[float, float, int]:
    """Launch the job of a folder: rows a second, seconds before the training, and bytes."""
    (folder / "job.toml").write_text(JOB.format(rounds=rounds, batch=BATCH))
    command = [
        sys.executable,
        "-m",
        "colonnade",
        "launch",
        str(folder / "job.toml"),
        "--json",
        "-q",
    ]
    environment = os.environ | {"COLONNADE_CACHE": str(folder / "cache")}
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    with process, Watch(process.pid) as watch:
        out, _ = process.communicate()
    whole = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"the training failed with exit code {process.returncode}")
    seconds = json.loads(out)["time_s"]
    return rounds * BATCH / seconds, whole - seconds, max(watch.largest.values())


def measure(small: int, large: int, columns: int, rounds: int, smoke: bool) -> Figures:
    """Both trainings, one after the other, twice; of each the best speed and the most memory."""
    figures = Figures(f"{large:,} rows × {columns} columns a party", judged=not smoke)
    speeds: dict[int, list[float]] = {small: [], large: []}
    most: dict[int, int] = {small: 0, large: 0}
    starts: dict[int, float] = {}
    place = os.environ.get("COLONNADE_CACHE")
    with TemporaryDirectory(prefix="colonnade-large-", dir=place) as name:
        for rows in speeds:
            write_tables(Path(name) / str(rows), rows, columns)
        for rows in [*speeds] if smoke else [*speeds, *speeds]:
            speed, starts[rows], anonymous = train(Path(name) / str(rows), rounds)
            speeds[rows].append(speed)
            most[rows] = max(most[rows], anonymous)
    for rows in speeds:
        what = f"{rows:,} rows"
        figures.add(f"{what}: rows per second", max(speeds[rows]), f"{max(speeds[rows]):,.0f}")
        figures.add(f"{what}: seconds before the training", starts[rows], f"{starts[rows]:.0f}")
        gib = most[rows] / 2**30
        bound = ANON_GIB_MAX if rows == large else None
        figures.add(f"{what}: GiB RssAnon of a party, at most", gib, f"{gib:.2f}", most=bound)
    ratio = max(speeds[large]) / max(speeds[small])
    figures.add("speed, large ÷ small", ratio, f"{ratio:.2f}", least=0.8, most=1.2)
    return figures


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print the figures beside their bounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rows", type=int, default=LARGE, help="of the large tables")
    parser.add_argument("--smoke", action="store_true", help="everything once and tiny")
    options = parser.parse_args(words)
    sizes = (1_000, 4_000, 4, 20) if options.smoke else (SMALL, options.rows, COLUMNS, ROUNDS)
    measure(*sizes, options.smoke).show(Console())


if __name__ == "__main__":
    main()
