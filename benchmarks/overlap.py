"""Other settings than the defaults where customers are few: what the lift study would have gained.

    python -m benchmarks.overlap          four data sets, four seeds: hours on two cores
    python -m benchmarks.overlap --smoke  one small data set, two settings

Figures are the AUC less that of gradient boosting, in points, mean over the seeds. They are
measured on customers who are neither training nor test customers of the seed: those whom only the
partner has, and the active party's validation customers whom the partner lacks. The epoch is chosen
on the other validation customers, as in the study; its test customers play no part.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from statistics import fmean
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from colonnade.data.named import load as load_data
from colonnade.data.overlap import draw_customers
from colonnade.data.splits import Parts
from colonnade.job.files import with_sets
from colonnade.reproduce.lift import DATA, Cell, train
from colonnade.run.pool import side_by_side

SEEDS = (0, 1, 2, 3)
OVERLAPS = (0.3, 1.0)
RATE = "parties.*.optimizer.lr="
DROPOUT = ("parties.*.model.dropout=0.2", "top.dropout=0.2")
DECAY = "parties.*.optimizer={{ name = 'adamw', lr = {}, weight_decay = {} }}"
COSINE = "parties.*.schedule={{ name = 'cosineannealinglr', T_max = {} }}"
CANDIDATES: dict[str, tuple[str, ...]] = {
    "the defaults": (),
    "rate 0.002": (f"{RATE}0.002",),
    "rate 0.002, 20 epochs": (f"{RATE}0.002", "train.epochs=20"),
    "rate 0.001, 20 epochs": (f"{RATE}0.001", "train.epochs=20"),
    "weight decay 0.1": (DECAY.format(0.005, 0.1),),
    "weight decay 1": (DECAY.format(0.005, 1.0),),
    "weight decay 0.1, rate 0.002, 20 epochs": (DECAY.format(0.002, 0.1), "train.epochs=20"),
    "weight decay 1, rate 0.002, 20 epochs": (DECAY.format(0.002, 1.0), "train.epochs=20"),
    "dropout 0.1": ("parties.*.model.dropout=0.1", "top.dropout=0.1"),
    "dropout 0.2, 20 epochs": (*DROPOUT, "train.epochs=20"),
    "dropout 0.2, rate 0.002, 20 epochs": (*DROPOUT, f"{RATE}0.002", "train.epochs=20"),
    "batch 512": ("train.batch_size=512",),
    "batch 128, rate 0.002": ("train.batch_size=128", f"{RATE}0.002"),
    "cosine": (COSINE.format(10),),
    "cosine, 20 epochs": (COSINE.format(20), "train.epochs=20"),
    "hidden 128, embedding 32": ("parties.*.model.hidden=[128]", "parties.*.model.embedding=32"),
    "hidden 256, embedding 32, dropout 0.2, rate 0.002, 20 epochs": (
        "parties.*.model.hidden=[256]",
        "parties.*.model.embedding=32",
        *DROPOUT,
        f"{RATE}0.002",
        "train.epochs=20",
    ),
    "linear top": ("top.hidden=[]",),
}


class Trial(NamedTuple):
    """One training; without settings it is gradient boosting."""

    cell: Cell
    sets: tuple[str, ...] | None


def held_out(trial: Trial) -> float:
    """The AUC on customers who play no part in the study, in per cent."""
    cell, dataset = trial.cell, load_data(trial.cell.data)
    own, common, elsewhere = draw_customers(len(dataset.labels), cell.overlap, cell.seed)
    rest = np.setdiff1d(own.validation, common.validation)
    parts = Parts(common.train, common.validation, np.union1d(elsewhere, rest))
    job = with_sets(cell.job, *(trial.sets or ()))
    way = "boosting" if trial.sets is None else "pooled"
    return 100 * train(way, job, list(job.parties), dataset, parts).test


def compare(
    cases: Sequence[tuple[str, float]],
    seeds: Sequence[int],
    names: Sequence[str],
    batch_size: int = 256,
    workers: int | None = None,
) -> list[list[str]]:
    """A row for each candidate: how far it is from boosting, by data set and overlap."""
    trials = [
        Trial(Cell(data, seed, "Colonnade", overlap, batch_size), sets)
        for sets in (None, *(CANDIDATES[name] for name in names))
        for data, overlap in cases
        for seed in seeds
    ]
    with closing(side_by_side(held_out, trials, workers)) as answers:
        found = {trials[place]: auc for place, auc in answers}

    def mean(data: str, overlap: float, sets: tuple[str, ...] | None) -> float:
        cells = [Cell(data, seed, "Colonnade", overlap, batch_size) for seed in seeds]
        return fmean(found[Trial(cell, sets)] for cell in cells)

    rows = []
    for name in names:
        gaps = [mean(*case, CANDIDATES[name]) - mean(*case, None) for case in cases]
        rows.append([name, *(f"{gap:+.2f}" for gap in [*gaps, fmean(gaps)])])
    return rows


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true")
    if parser.parse_args(words).smoke:
        cases = [("breast-cancer", 1.0)]
        rows = compare(cases, [0], list(CANDIDATES)[:2], batch_size=32, workers=1)
    else:
        cases = [(data, overlap) for data in DATA for overlap in OVERLAPS]
        rows = compare(cases, SEEDS, list(CANDIDATES))
    table = Table(title="AUC less that of gradient boosting, in points")
    table.add_column("settings")
    for heading in [*(f"{data} {overlap:.0%}" for data, overlap in cases), "mean"]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
