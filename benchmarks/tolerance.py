"""What staleness and few bits cost in rounds: `python -m benchmarks.tolerance`.

Full pipe with a fixed window, as it is and without its compensation of delay, or with 4 in flight
and few bits, at each of some rates; the rounds to a target that is held, at the best of them. The
choices of `auto` rest on these tables. `--job NAME` measures one of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from colonnade.job.files import load
from colonnade.record.metrics import METRICS
from colonnade.run.pool import Task, train_all
from colonnade.run.steady import steady_from


@dataclass(frozen=True)
class Study:
    """A job, how long it is trained, what it must reach, and multiples of its rates."""

    job: str
    length: str
    target: float
    rates: tuple[int, ...]
    windows: tuple[int, ...] = (1, 2, 4, 8, 16)
    encodings: tuple[str, ...] = ("ef+scalar:8", "ef+scalar:4", "ef+scalar:3", "ef+scalar:2")

    def settings(self) -> dict[str, dict[str, Any]]:
        """By name, what full pipe is changed to."""
        found: dict[str, dict[str, Any]] = {
            f"{window} in flight": {"window": f"fixed:{window}"} if window > 1 else {"most": 1}
            for window in self.windows
        }
        for window in self.windows:
            if window > 1:
                plain = {"window": f"fixed:{window}", "weight": "uniform"}
                found[f"{window} in flight, not compensated"] = plain
        for text in self.encodings:
            compress = {"embedding": text, "gradient": text}
            found[f"4 in flight, {text}"] = {"window": "fixed:4", "compress": compress}
        return found


WAN = str(Path(__file__).with_name("wan-speedup.toml"))
STUDIES = {
    "digits": Study("digits", "train.epochs=60", 0.93, (1, 2, 4, 8)),
    "credit": Study("credit", "train.epochs=8", 0.765, (1, 3, 9)),
    "wan-speedup": Study(WAN, "train.rounds=300", 0.82, (3, 7), (1, 2, 5, 10), ()),
}
SMOKE = (Study("digits", "train.epochs=1", 0.05, (4,), (1, 2), ("ef+scalar:3",)),)


def measure(study: Study, console: Console) -> None:
    sets = [study.length, "train.evaluate_every=10 rounds", "train.stop=end"]
    base = load(study.job, sets)
    base = msgspec.structs.replace(
        base, train=msgspec.structs.replace(base.train, target=None, patience=None)
    )
    tasks: list[Task] = []
    for name, changed in study.settings().items():
        for rate in study.rates:
            parties = {
                party: msgspec.structs.replace(
                    own, optimizer=own.optimizer | {"lr": own.optimizer["lr"] * rate}
                )
                for party, own in base.parties.items()
            }
            method = {"name": "fullpipe", **changed}
            job = msgspec.structs.replace(base, method=method, parties=parties)
            tasks.append((f"{name}|{rate}", job, None))
    rounds: dict[str, dict[int, int | None]] = {name: {} for name in study.settings()}
    for trial in train_all(tasks):
        name, rate = trial.label.split("|")
        metric = base.train.metric
        rows = trial.history
        values = [row.get(metric) for row in rows]
        at = steady_from(values, study.target, METRICS[metric])
        rounds[name][int(rate)] = None if at is None else rows[at]["round"]
    table = Table(title=f"{base.name}: rounds to {base.train.metric} {study.target:g}, held")
    for heading in ("full pipe with", *(f"{rate}× the rate" for rate in study.rates), "best"):
        table.add_column(heading)
    for name, found in rounds.items():
        known = [count for count in found.values() if count is not None]
        cells = ["missed" if found[rate] is None else str(found[rate]) for rate in study.rates]
        table.add_row(name, *cells, str(min(known)) if known else "missed")
    console.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a short form, to see that it runs")
    parser.add_argument("--job", choices=STUDIES, help="this one only")
    asked = parser.parse_args()
    chosen = [STUDIES[asked.job]] if asked.job else list(STUDIES.values())
    for each in SMOKE if asked.smoke else chosen:
        measure(each, Console())
