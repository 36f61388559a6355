"""How light the network is: two processes over mTLS against a plain loop in one (`make bench`).

60,000 rows, 392 + 392 features, bottom models 392-32-10, one linear layer on top, batch 256, one
thread each. The two are measured in turns, so that a noisy neighbour slows both; seconds per epoch
come from within (`rounds.parquet`), without the start of processes and without the first epoch.

    python -m benchmarks.network            about a minute
    python -m benchmarks.network --smoke    a few batches, to see that it runs
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow.parquet as pq
import torch
from rich.console import Console
from torch import nn
from torch.nn import functional as F

from benchmarks.figures import Figures
from benchmarks.parties import alliance, end_with_cleanup, join_all, load_average, zero_ns
from colonnade.job.files import load

ROWS, COLUMNS, HIDDEN, EMBEDDING, CLASSES, BATCH = 60_000, 392, 32, 10, 10, 256
SMOKE_ROWS = 1000
TORCH = ("forward", "backward", "aggregate", "top", "local")
JOB = """
name = "light"
method = {{ name = "fedsgd" }}

[train]
epochs = {epochs}
batch_size = {batch}
evaluate_every = "never"
test = 0.0
validation = 0.0

[top]
kind = "split"
hidden = []

[parties.bank]
role = "active"
table = "bank.npy"
label = "labels.npy"
model = {{ name = "mlp", hidden = [{hidden}], embedding = {embedding} }}
optimizer = {{ name = "sgd", lr = 0.01 }}

[parties.telco]
table = "telco.npy"
model = {{ name = "mlp", hidden = [{hidden}], embedding = {embedding} }}
optimizer = {{ name = "sgd", lr = 0.01 }}
"""


@dataclass(frozen=True)
class Bench:
    """Made-up rows in a folder, the job on them, and the same rows as tensors."""

    folder: Path
    features: list[torch.Tensor]
    labels: torch.Tensor
    epochs: int

    @classmethod
    def make(cls, folder: Path, epochs: int, rows: int = ROWS) -> Bench:
        draw = np.random.default_rng(0)
        features = [draw.standard_normal((rows, COLUMNS), dtype=np.float32) for _ in range(2)]
        labels = draw.integers(CLASSES, size=rows)
        for name, array in (("bank", features[0]), ("telco", features[1]), ("labels", labels)):
            np.save(folder / f"{name}.npy", array)
        job = JOB.format(epochs=epochs + 1, batch=BATCH, hidden=HIDDEN, embedding=EMBEDDING)
        (folder / "job.toml").write_text(job)
        alliance(folder / "alliance", ["bank", "telco"])
        return cls(folder, list(map(torch.from_numpy, features)), torch.from_numpy(labels), epochs)

    def network(self, turn: int) -> list[tuple[float, float]]:
        """Each epoch of two processes: its seconds, and the share in which nobody computed."""
        out = self.folder / f"turn-{turn}"
        file = self.folder / "job.toml"
        join_all(file, load(file), self.folder / "alliance", out, options=["--trust-job"])
        seconds = pq.read_table(out / "bank" / "rounds.parquet")["time_s"].to_numpy()
        per_epoch = -(-len(self.labels) // BATCH)
        ends = zero_ns(out / "bank") + (seconds[per_epoch - 1 :: per_epoch] * 1e9).astype(int)
        spans = np.concatenate([torch_spans(out / name) for name in ("bank", "telco")])
        return [
            ((end - begin) / 1e9, 1 - covered_ns(spans, begin, end) / (end - begin))
            for begin, end in pairwise(ends)
        ]

    def plain(self) -> list[float]:
        """Seconds of each epoch of one model, one optimizer, plain autograd."""
        bottoms = [
            nn.Sequential(
                nn.Linear(COLUMNS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, EMBEDDING)
            ) for _ in self.features
        ]  # fmt: skip
        top = nn.Linear(2 * EMBEDDING, CLASSES)
        parameters = [p for module in (*bottoms, top) for p in module.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.01)
        seconds = []
        for _ in range(self.epochs + 1):
            began = time.perf_counter()
            for rows in torch.randperm(len(self.labels)).split(BATCH):
                h = [
                    bottom(x.index_select(0, rows))
                    for bottom, x in zip(bottoms, self.features, strict=True)
                ]
                prediction = top(torch.cat(h, dim=1))
                loss = F.cross_entropy(prediction, self.labels.index_select(0, rows))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                loss.item()
            seconds.append(time.perf_counter() - began)
        return seconds[1:]


def torch_spans(folder: Path) -> np.ndarray:
    """When a party computed: rows of two instants, by the clock of the day."""
    spans = pq.read_table(folder / "timeline.parquet").to_pydict()
    chosen = [i for i, kind in enumerate(spans["kind"]) if kind in TORCH]
    edges = [(spans["start_ns"][i], spans["end_ns"][i]) for i in chosen]
    return np.array(edges) + zero_ns(folder)


def covered_ns(spans: np.ndarray, begin: int, end: int) -> int:
    """How much of a time lies within at least one span.

    >>> covered_ns(np.array([[0, 4], [2, 6], [9, 12]]), 1, 10)
    6
    """
    clipped = np.clip(spans[np.argsort(spans[:, 0])], begin, end)
    reached = np.concatenate([[begin], np.maximum.accumulate(clipped[:, 1])[:-1]])
    return int(np.maximum(clipped[:, 1] - np.maximum(clipped[:, 0], reached), 0).sum())


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument(
        "--smoke", action="store_true", help="one turn of one epoch of a few batches"
    )
    asked = parser.parse_args(words)
    turns, epochs, rows = (1, 1, SMOKE_ROWS) if asked.smoke else (asked.turns, asked.epochs, ROWS)
    torch.set_num_threads(1)
    end_with_cleanup()
    network: list[tuple[float, float]] = []
    plain: list[float] = []
    ratios = []
    with tempfile.TemporaryDirectory(prefix="colonnade-bench-") as folder:
        bench = Bench.make(Path(folder), epochs, rows)
        for turn in range(turns):
            network += bench.network(turn)
            plain += bench.plain()
            last = slice(-epochs, None)
            ratios.append(median(s for s, _ in network[last]) / median(plain[last]))
    seconds, ratio = [each for each, _ in network], median(ratios)
    share = median(share for _, share in network)
    figures = Figures(
        "Two processes over mTLS on one host, one thread each, FedSGD", judged=not asked.smoke
    )
    for what, figure, shown in (
        ("seconds per epoch, over the network", median(seconds), f"{median(seconds):.3f}"),
        ("share of it in which neither party is in torch", share, f"{share:.0%}"),
        ("seconds per epoch, plain PyTorch in one process", median(plain), f"{median(plain):.3f}"),
    ):
        figures.add(what, figure, shown)
    figures.add("network ÷ plain, median of turns", ratio, f"{ratio:.2f}", most=1.9)
    console = Console()
    figures.show(console)
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    console.print(
        f"{turns} turns of {epochs} epochs each; best epochs {min(seconds):.3f} and "
        f"{min(plain):.3f} s; ratio by turn: {each}; {load_average()}"
    )


if __name__ == "__main__":
    main()
