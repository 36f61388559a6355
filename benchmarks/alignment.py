"""How fast alignments are, against the multiplications that they cannot do without (`make bench`).

The limit is how many points this machine multiplies in a second on all cores, measured in the same
run, before and after. Parties are processes of this host that share its cores.

    python -m benchmarks.alignment            about four minutes
    python -m benchmarks.alignment --large    also a million ids each (ten minutes)
    python -m benchmarks.alignment --smoke    a few ids, to see that it runs
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks.figures import Figures
from benchmarks.parties import alliance, end_with_cleanup, load_average
from colonnade.align.group import BYTES, scalars_from
from colonnade.align.oprf import hash_to_group
from colonnade.align.work import evaluate_all
from colonnade.align.workers import Threads
from colonnade.run.processes import free_port

NAMES = ("bank", "telco", "shop", "clinic", "port")
Measured = dict[str, dict[str, Any]]


def multiplications_per_second(seconds: float = 2.0) -> float:
    """On all cores, of random points."""
    points = hash_to_group([number.to_bytes(8, "big") for number in range(2048)]).tobytes()
    seed, workers, done = scalars_from(bytes(32), 0, 1).tobytes(), Threads(), 0
    evaluate_all(workers, points, seed)
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        evaluate_all(workers, points, seed)
        done += len(points) // BYTES
    rate = done / (time.perf_counter() - began)
    workers.close()
    return rate


def aligned(folder: Path, sizes: Mapping[str, int], common: int) -> Measured:
    """What each party measured; the first one is active."""
    folder.mkdir()
    write_tables(folder, sizes, common)
    roles = {name: 'role = "active"\n' if not number else "" for number, name in enumerate(sizes)}
    entries = [
        f'[parties.{name}]\n{role}table = "{name}.parquet"\nid = "id"\n'
        for name, role in roles.items()
    ]
    (folder / "job.toml").write_text('name = "bench"\n' + "".join(entries))
    alliance(folder / "alliance", list(sizes))
    return measured(folder, list(sizes), common, 0)


def write_tables(folder: Path, sizes: Mapping[str, int], common: int) -> None:
    """Tables of these sizes that have so many ids in common; larger ones have those of smaller
    ones too."""
    for number, (name, size) in enumerate(sizes.items()):
        own = np.arange(size - common, dtype=np.int64) * len(NAMES) + number + 10**10
        ids = np.concatenate([np.arange(common, dtype=np.int64), own])
        np.random.default_rng(number).shuffle(ids)
        pq.write_table(pa.table({"id": ids}), folder / f"{name}.parquet")


def measured(folder: Path, names: Sequence[str], common: int, step: int) -> Measured:
    """What each party measures in a step of an alignment."""
    address = f"127.0.0.1:{free_port()}"
    running = {}
    for number, name in enumerate(names):
        end = ["--listen" if number == 0 else "--connect", address]
        words = [sys.executable, "-m", "benchmarks.align_party", str(folder / "job.toml")]
        words += ["--me", name, "--keys", str(folder / "alliance" / name), *end]
        running[name] = subprocess.Popen(
            [*words, "--out", str(folder / f"out-{name}"), "--step", str(step)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
    found = {name: json.loads(process.communicate()[0]) for name, process in running.items()}
    assert all(each["common"] == common for each in found.values()), found
    return found


def moved(found: Measured, lead: str, followers: Sequence[str]) -> int:
    """Bytes between the leading party and one other, where it is the active one."""
    return sum(
        entry["bytes"]
        for entry in found[lead]["bytes"]
        if entry["peer"] == followers[0] and entry["purpose"] == "alignment"
    )


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="also a million ids each")
    parser.add_argument("--smoke", action="store_true", help="one turn of a few ids")
    asked = parser.parse_args(words)
    turns, size = (1, 500) if asked.smoke else (asked.turns, 100_000)
    end_with_cleanup()
    figures = Figures("Alignment between processes over mTLS on one host", judged=not asked.smoke)
    with tempfile.TemporaryDirectory(prefix="colonnade-bench-") as name:
        folder = Path(name)
        _speed(folder, figures, turns, size)
        if not asked.smoke:
            _uneven(folder, figures)
        if asked.large or asked.smoke:
            _large(folder, figures, 2_000 if asked.smoke else 1_000_000)
    console = Console()
    figures.show(console)
    console.print(f"{turns} turns; {load_average()}")


def _speed(folder: Path, figures: Figures, turns: int, size: int) -> None:
    shares, ratios, rates, updates = [], [], [], []
    for turn in range(turns):
        before = multiplications_per_second(0.1 if size < 1000 else 2.0)
        two = aligned(folder / f"two-{turn}", dict.fromkeys(NAMES[:2], size), size // 2)
        rate = (before + multiplications_per_second(0.1 if size < 1000 else 2.0)) / 2
        # Each id is blinded, evaluated and unblinded at the one side, and evaluated at the other.
        limit_s = 4 * size / rate
        updates.append(_updated(folder / f"two-{turn}", two, size))
        three = aligned(folder / f"three-{turn}", dict.fromkeys(NAMES[:3], size), size // 2)
        shares.append(limit_s / two["bank"]["seconds"])
        ratios.append(three["telco"]["cpu_s"] / two["telco"]["cpu_s"])
        rates.append(rate)
    figures.add("multiplications a second, all cores", median(rates), f"{median(rates):,.0f}")
    figures.add(
        f"{size:,} × {size:,}: share of the limit", median(shares), f"{median(shares):.0%}",
        least=0.75,
    )  # fmt: skip
    figures.add(
        "CPU time of an update with 1 % new ids ÷ all", median(updates), f"{median(updates):.1%}",
        most=0.05,
    )  # fmt: skip
    figures.add(
        "CPU time of a passive party, three parties ÷ two", median(ratios),
        f"{median(ratios):.2f}", most=1.1,
    )  # fmt: skip


def _updated(folder: Path, first: Measured, size: int) -> float:
    """What an update takes, when each party has added one id in a hundred, half of them common."""
    more, common = size // 100, size // 2 + size // 200
    write_tables(folder, dict.fromkeys(first, size + more), common)
    again = measured(folder, list(first), common, 1)
    return sum(each["cpu_s"] for each in again.values()) / sum(
        each["cpu_s"] for each in first.values()
    )


def _uneven(folder: Path, figures: Figures, small: int = 10_000, large: int = 1_000_000) -> None:
    found = aligned(folder / "uneven", {"bank": small, "telco": large}, small // 2)
    seconds = found["bank"]["cpu_s"]
    what = f"{small:,} × {large:,}: CPU seconds of the small side"
    figures.add(what, seconds, f"{seconds:.1f}", most=5.0)


def _large(folder: Path, figures: Figures, size: int) -> None:
    found = aligned(folder / "large", dict.fromkeys(NAMES[:2], size), size // 2)
    most = max(each["rss_mib"] for each in found.values())
    figures.add(f"{size:,} × {size:,}: MiB a party, at most", most, f"{most:.0f}", most=400)
    each = moved(found, "bank", ["telco"]) / size
    figures.add("bytes for each id of the leading party", each, f"{each:.1f}", most=101)


if __name__ == "__main__":
    main()
