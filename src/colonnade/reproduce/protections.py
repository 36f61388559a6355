"""What defences cost and what they hold down: accuracy, leakage, bytes and time of each.

Each defence is a setting on top of the built-in job of a data set, trained with FedSGD. All that
crosses in the first epochs is recorded, and `colonnade privacy` attacks it: labels by whatever a
passive party could do with its gradients, columns by whatever the active party could do with the
embeddings, each with one release of every row and with all that were recorded. The best attack
counts. `--out` keeps every figure, and a second call computes only what is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from colonnade.data.named import load as load_data
from colonnade.job.files import load
from colonnade.job.records import Job
from colonnade.privacy.findings import Figures, Finding
from colonnade.privacy.labels import OWN_COLUMNS
from colonnade.record.table import spread
from colonnade.reproduce import Reproduction, Say
from colonnade.run.audit import audit
from colonnade.run.kept import measure_all
from colonnade.run.simulate import simulate
from colonnade.study.design import Claim
from colonnade.units import show_bytes

DATA = ("credit", "adult", "bank", "gmsc")
SEEDS = (0, 1, 2)
QUICK_DATA = ("breast-cancer",)
EPOCHS_RECORDED = 3
NARROW = "parties.{passive}.model.embedding=2"
FLIP = "method.protect.labels=flip:2"
DEFENCES: dict[str, tuple[str, ...]] = {
    "none": (),
    "narrow embedding (2)": (NARROW,),
    "labels flip:2": (FLIP,),
    "labels flip:1": ("method.protect.labels=flip:1",),
    "gradient max_norm": ("method.protect.gradient=max_norm",),
    "gradient marvell:0.3": ("method.protect.gradient=marvell:0.3",),
    "embedding gauss:1:0.5": ("method.protect.embedding=gauss:1:0.5",),
    "embedding dcor:0.5": ("method.protect.embedding=dcor:0.5",),
    "flip:2, narrow": (FLIP, NARROW),
    "flip:2, narrow, gauss:1:0.5": (FLIP, NARROW, "method.protect.embedding=gauss:1:0.5"),
}
FLIPS = {"labels flip:2": 2.0, "labels flip:1": 1.0}
"""Defences with a bound: with ε, of the labels no more than e^ε / (1 + e^ε) can be told."""
SLACK = 0.005
"""Of a share that is measured on some thousand rows."""
COLUMNS = (
    *("data", "defence", "test AUC", "labels, one round", "labels, pooled", "commonest class"),
    *("labels, with own columns", "own columns alone"),
    *("columns R², one round", "columns R², pooled", "bytes", "time"),
)


@dataclass(frozen=True)
class Cell:
    """One training, and the audit of it."""

    data: str
    seed: int
    defence: str

    @property
    def job(self) -> Job:
        """The built-in job of the data set with the settings of the defence."""
        passive = load(self.data).passives[0]
        sets = [each.format(passive=passive) for each in DEFENCES[self.defence]]
        return load(self.data, [*sets, f"seed={self.seed}"])

    @property
    def file(self) -> str:
        """Named after all that its figures depend on."""
        text = msgspec.json.encode([self, self.job, EPOCHS_RECORDED])
        return f"{self.data}-{self.seed}-{hashlib.sha256(text).hexdigest()[:16]}.json"

    @property
    def title(self) -> str:
        """For a person."""
        return f"{self.data}, seed {self.seed}, {self.defence}"


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """Every defence on every data set: what it costs, and what it leaves to tell.

    The quick form takes one seed and the data set `breast-cancer`, which needs no files.
    """
    data = QUICK_DATA if quick else DATA
    chosen = seeds or list(SEEDS[:1] if quick else SEEDS)
    for name in data:
        load_data(name)  # What is not on this computer is said before anything is trained.
    cells = [Cell(name, seed, defence) for name in data for defence in DEFENCES for seed in chosen]
    found = measure_all(cells, measure, out, say, workers=1 if quick else None)
    return _table(data, chosen, found, [] if quick else claims(data, chosen, found))


def claims(
    data: Sequence[str], seeds: Sequence[int], found: Mapping[Cell, Mapping[str, Any]]
) -> list[tuple[Claim, float | None]]:
    """On how many data sets a defence with a bound keeps it; ours, for no paper has them. Where the
    commonest class is more than the bound, to name it for every row tells nothing."""
    made: list[tuple[Claim, float | None]] = []
    for defence, epsilon in FLIPS.items():
        bound, kept = exp(epsilon) / (1 + exp(epsilon)), 0
        for name in data:
            own = [found[Cell(name, seed, defence)] for seed in seeds]
            told, prior = (
                fmean(each[f"labels_{of}"] for each in own) for of in ("pooled", "prior")
            )
            kept += told <= max(bound, prior) + SLACK
        text = (
            f"{defence}: data sets on which gradients tell at most {bound:.1%} of the labels, or "
            "the share of the commonest class"
        )
        claim = Claim(text, None, "fair", show="{:.0f}".format, least=len(data))
        made.append((claim, kept))
    return made


def measure(cell: Cell) -> dict[str, Any]:
    """Train as a cell says, and attack what crossed.

    >>> found = measure(Cell("breast-cancer", 0, "none"))
    >>> found["labels_pooled"] > 0.9 > found["labels_prior"]
    True
    """
    job = cell.job
    rows = len(load_data(cell.data).labels)
    run = simulate(job, record=EPOCHS_RECORDED * -(-rows // job.train.batch_size))
    summary, found = run.summary(), audit(run, known=min(1000, rows // 10))
    own = [each for each in found.findings if each.split == "train"]
    labels = [each for each in own if each.of == "labels"]
    columns = [each for each in own if each.of == "columns" and each.party in job.passives]
    alone = [each for each in labels if each.baseline_is != OWN_COLUMNS]
    joined = [each for each in labels if each.baseline_is == OWN_COLUMNS]
    return {
        "auc": run.tested(),
        **_best("labels", alone, "accuracy"),
        **_best("joined", joined, "accuracy"),
        **_best("columns", columns, "r2"),
        "attack": {each.attack: msgspec.to_builtins(each.pooled) for each in found.findings},
        "bytes": summary["bytes"]["total"],
        "time_s": summary["time_s"],
    }


def _best(name: str, attacks: Sequence[Finding], figure: str) -> dict[str, float]:
    """The best of some attacks, with one release and with all; and what is known without."""

    def most(figures: Iterable[Figures]) -> float:
        values = [getattr(each, figure) for each in figures]
        return max((value for value in values if value is not None), default=0.0)

    return {
        f"{name}_one": most(each.one for each in attacks),
        f"{name}_pooled": most(each.pooled for each in attacks),
        f"{name}_prior": most(each.baseline for each in attacks),
    }


def _table(
    data: Sequence[str],
    seeds: Sequence[int],
    found: Mapping[Cell, Mapping[str, Any]],
    claimed: list[tuple[Claim, float | None]],
) -> Reproduction:
    rows = []
    for name in data:
        for defence in DEFENCES:
            own = [found[Cell(name, seed, defence)] for seed in seeds]
            rows.append([name, defence, *_row(own)])
    return Reproduction(
        title="Defences: what they cost, and what they leave to tell",
        columns=list(COLUMNS),
        rows=rows,
        notes=[
            f"mean ± deviation over seeds {', '.join(map(str, seeds))}; FedSGD, the first "
            f"{EPOCHS_RECORDED} epochs recorded; of all attacks the best, by its share of labels "
            "told right, or by R² of all columns",
            "labels, one round and pooled: from the gradients alone; with own columns: the passive "
            "party adds its columns and 1,000 labels that it knows, as in the figure beside it",
            "the attacks on columns know 1,000 rows",
        ],
        data={"seeds": list(seeds), "cells": [_plain(each) for each in found.items()]},
        claims=claimed,
    )


def _plain(item: tuple[Cell, Mapping[str, Any]]) -> dict[str, Any]:
    cell, figures = item
    return {"data": cell.data, "seed": cell.seed, "defence": cell.defence, **figures}


def _row(own: Sequence[Mapping[str, Any]]) -> list[str]:
    def show(name: str) -> str:
        mean, deviation = spread([each[name] for each in own])
        return f"{mean:.3f}" + (f" ± {deviation:.3f}" if len(own) > 1 else "")

    shown = [show(name) for name in ("auc", "labels_one", "labels_pooled", "labels_prior")]
    shown += [show(name) for name in ("joined_pooled", "joined_prior")]
    shown += [show(name) for name in ("columns_one", "columns_pooled")]
    return [*shown, show_bytes(own[0]["bytes"]), f"{own[0]['time_s']:.0f} s"]
