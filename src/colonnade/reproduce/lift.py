"""Lift: what a partner's columns bring, beside the active party alone and the pooled table.

Rows are customers. The active party has all training customers, the partner 30, 60 or 100 % of
them, and some others. Held against each other, on the same test customers, whom both have:

- *alone*: the active party's columns of all its customers, with its bottom model and the top;
- *Colonnade*: a job that says nothing but who holds what, on the common customers;
- *pooled*: the same bottom models and top as one network, on the common customers in one table,
  from other initial weights and in another order (from the same ones it is equal to rounding);
- *boosting*: scikit-learn's gradient boosting on either table.

All choose their epoch, or their number of trees, by validation customers. A seed decides who is in
which part, whom the partner has, and the initial weights. `--out` keeps every figure, and a second
call computes only what is missing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from colonnade.data.named import Dataset
from colonnade.data.named import load as load_data
from colonnade.data.overlap import draw_customers
from colonnade.data.party import from_named, together
from colonnade.data.splits import Parts
from colonnade.data.tables import select
from colonnade.job.files import load, with_sets
from colonnade.job.records import Job, Party, Train
from colonnade.record.table import spread
from colonnade.reproduce import Reproduction, Say
from colonnade.run.baselines import BOOSTING, Score, boost, train_joint
from colonnade.run.kept import measure_all
from colonnade.run.simulate import simulate
from colonnade.study.design import Claim

DATA = ("bank", "adult", "gmsc", "credit")
OVERLAPS = (0.3, 0.6, 1.0)
SEEDS = (0, 1, 2, 3, 4)
QUICK_DATA = ("breast-cancer",)
QUICK_OVERLAPS = (0.6, 1.0)
SMALL_BATCH = 32
"""Of data sets with a few hundred rows."""
ALONE = ("alone", "boosting alone")
COMMON = ("Colonnade", "pooled", "boosting")
WAYS = ("alone", "boosting alone", "Colonnade", "pooled", "boosting")
ELSEWHERE = 1000
"""Added to the seed of the pooled network."""
AGAINST = ("alone", "pooled", "boosting")
BOUNDS = {"pooled": 0.5, "boosting": 1.0}
"""How many points behind Colonnade may be."""


@dataclass(frozen=True)
class Cell:
    """One training: who learns from what."""

    data: str
    seed: int
    way: str
    overlap: float
    """Those who learn alone do not depend on it; theirs is 1."""
    batch_size: int

    @property
    def job(self) -> Job:
        """Its parties and columns, as the built-in job has them, and nothing else of that."""
        source = load(self.data)
        parties = {
            name: Party(role=entry.role, columns=entry.columns, categorical=entry.categorical)
            for name, entry in source.parties.items()
        }
        seed = self.seed + (ELSEWHERE if self.way == "pooled" else 0)
        train = Train(metric="auc", batch_size=self.batch_size)
        return Job(name="lift", data=self.data, parties=parties, train=train, seed=seed)

    @property
    def file(self) -> str:
        """Named after all that its figures depend on."""
        settings = BOOSTING if self.way.startswith("boosting") else self.job
        text = msgspec.json.encode([self, settings])
        return f"{self.data}-{self.seed}-{hashlib.sha256(text).hexdigest()[:16]}.json"

    @property
    def title(self) -> str:
        """For a person."""
        return f"{self.data}, seed {self.seed}, {self.way}, overlap {self.overlap:.0%}"


def reproduce(out: Path | None, seeds: list[int] | None, quick: bool, say: Say) -> Reproduction:
    """AUC on test customers of every way to learn, at every overlap.

    The quick form takes one seed, two overlaps and the data set `breast-cancer`, which needs no
    files. Networks compute on a GPU if there is one.
    """
    data, overlaps = (QUICK_DATA, QUICK_OVERLAPS) if quick else (DATA, OVERLAPS)
    chosen = seeds or list(SEEDS[:1] if quick else SEEDS)
    cells = plan(data, overlaps, chosen, SMALL_BATCH if quick else Train().batch_size)
    for name in data:
        load_data(name)  # What is not on this computer is said before anything is trained.
    found = measure_all(cells, _figures, out, say, workers=1 if quick else None)
    scores = {cell: Score(**figures) for cell, figures in found.items()}
    return _table(data, overlaps, chosen, scores)


def _figures(cell: Cell) -> dict[str, Any]:
    return measure(cell)._asdict()


def plan(
    data: Sequence[str], overlaps: Sequence[float], seeds: Sequence[int], batch_size: int
) -> list[Cell]:
    """Every training there is.

    >>> len(plan(["bank"], [0.3, 1.0], [0, 1], 256))
    16
    """
    return [
        Cell(name, seed, way, overlap, batch_size)
        for name in data
        for seed in seeds
        for way, overlap in (
            *((way, 1.0) for way in ALONE),
            *((way, overlap) for overlap in overlaps for way in COMMON),
        )
    ]


def measure(cell: Cell) -> Score:
    """Train as a cell says.

    >>> measure(Cell("breast-cancer", 0, "boosting", 1.0, 32)).test > 0.9
    True
    """
    dataset = load_data(cell.data)
    customers = draw_customers(len(dataset.labels), cell.overlap, cell.seed)
    alone = cell.way in ALONE
    names = [cell.job.active] if alone else list(cell.job.parties)
    return train(cell.way, cell.job, names, dataset, customers.own if alone else customers.common)


def train(way: str, job: Job, names: Sequence[str], dataset: Dataset, parts: Parts) -> Score:
    """Train one way, on the columns of some parties and on some customers.

    >>> dataset, cell = load_data("breast-cancer"), Cell("breast-cancer", 0, "pooled", 1.0, 32)
    >>> parts = draw_customers(569, 1.0, 0).own
    >>> 1 <= train("pooled", cell.job, ["hospital"], dataset, parts).at <= 10
    True
    """
    if way.startswith("boosting"):
        assert dataset.table is not None, "images are no table"
        parties = [job.parties[name] for name in names]
        wanted = [pattern for party in parties for pattern in party.columns]
        columns = select(wanted, dataset.table.column_names, dataset.name)
        coded = [name for party in parties for name in party.categorical]
        return boost(dataset.table.select(columns), dataset.labels, parts, coded, job.seed)
    job = _on_gpu(job)
    data = together(job, {name: from_named(job, name, dataset, parts) for name in names})
    if way != "Colonnade":
        return train_joint(job, data)
    run = simulate(job, data)
    best, tested = run.best(), run.tested()
    assert best is not None and tested is not None
    return Score(best, tested, round([row["epoch"] for row in run.history if row["best"]][-1]))


def _on_gpu(job: Job) -> Job:
    import torch

    return with_sets(job, "parties.*.device=cuda") if torch.cuda.is_available() else job


def _table(
    data: Sequence[str],
    overlaps: Sequence[float],
    seeds: Sequence[int],
    scores: Mapping[Cell, Score],
) -> Reproduction:
    points: dict[tuple[str, str, float], list[float]] = {}
    for cell, score in scores.items():
        points.setdefault((cell.data, cell.way, cell.overlap), []).append(100 * score.test)
    found = [_case(points, name, overlap) for name in data for overlap in overlaps]
    return Reproduction(
        title="Lift: AUC on test customers, in per cent",
        columns=["data", "overlap", *WAYS, *(f"− {way}" for way in AGAINST)],
        rows=[_row(case) for case in found],
        notes=[
            f"mean ± deviation over seeds {', '.join(map(str, seeds))}; the last three columns are "
            "Colonnade less another, seed by seed",
            *(_kept(found, way, bound) for way, bound in BOUNDS.items()),
        ],
        data={"seeds": list(seeds), "cases": found},
        claims=[
            (
                Claim(
                    f"cases {_within(way, bound)}",
                    None,
                    "fair",
                    show="{:.0f}".format,
                    least=len(found),
                ),
                _near(found, way, bound),
            )
            for way, bound in BOUNDS.items()
        ],
    )


def _case(
    points: Mapping[tuple[str, str, float], list[float]], data: str, overlap: float
) -> dict[str, Any]:
    """The figures of one line, by seed."""
    auc = {way: points[data, way, 1.0 if way in ALONE else overlap] for way in WAYS}
    less = {
        way: [ours - other for ours, other in zip(auc["Colonnade"], auc[way], strict=True)]
        for way in AGAINST
    }
    return {"data": data, "overlap": overlap, "auc": auc, "less": less}


def _row(case: Mapping[str, Any]) -> list[str]:
    return [
        case["data"],
        f"{case['overlap']:.0%}",
        *(_show(each) for each in case["auc"].values()),
        *(_show(each, "+") for each in case["less"].values()),
    ]


def _kept(found: Sequence[Mapping[str, Any]], way: str, bound: float) -> str:
    """How often Colonnade is as near as it should be."""
    return f"{_within(way, bound)}: {_near(found, way, bound)} of {len(found)}"


def _within(way: str, bound: float) -> str:
    return f"at most {bound:g} points behind {way}"


def _near(found: Sequence[Mapping[str, Any]], way: str, bound: float) -> int:
    return sum(fmean(case["less"][way]) >= -bound for case in found)


def _show(values: Sequence[float], sign: str = "") -> str:
    mean, deviation = spread(values)
    return f"{mean:{sign}.2f}" + (f" ± {deviation:.2f}" if len(values) > 1 else "")
