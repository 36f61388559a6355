"""Numbers that are transformed by what they look like.

- `standard`: (value - mean) / deviation.
- `clip`: the same, with values cut off at the 0.5 % and 99.5 % of the training rows.
- `log`: the same of log(1 + value - smallest), for positive numbers with a long tail.
- `quantile`: the place of a value among the training rows, as a normal distribution has it there.
- `bins`: `quantile`, and beside it how far the value reaches into each of up to 96 bins, so that a
  model can treat each range by itself. It is for numbers of which one value has nine rows in ten,
  such as gains that most people do not have: of ranks, little is left for the others.
"""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.data.layout import EDGES_MAX, Input
from colonnade.data.values import Floats, numbers
from colonnade.errors import DataError

Transform = Literal["standard", "clip", "log", "quantile", "bins"]
_KNOTS = 512
_BINS = 96
_SPIKE = 0.9
"""Where one value has so large a share, its neighbours in rank are all that is left to the rest."""
_SPREAD = 20
_SKEWED = 1.0
_FAR = 8.0
"""Deviations from the mean beyond which a value is an outlier."""
_BOUND = 1e6


class Quantity(msgspec.Struct, frozen=True, tag="quantity", forbid_unknown_fields=True):
    """What is known of a column of numbers, and how it is transformed.

    >>> column = pa.chunked_array([[0.0, 1.0, 2.0, 3.0]])
    >>> fitted = Quantity.learn("x", column, "standard")
    >>> fitted.names, fitted.mean
    (['x'], 1.5)
    """

    name: str
    transform: Transform
    mean: float = 0.0
    """Of the transformed values, as is the next."""
    deviation: float = 0.0
    missing: bool = False
    """Whether it has a column that marks missing values."""
    low: float = 0.0
    """Values are cut off here, and at the next."""
    high: float = 0.0
    knots: list[float] = []
    """Values whose scores are known; between them lies a straight line."""
    scores: list[float] = []
    edges: list[float] = []
    """Of the bins, on the scale of what comes out."""

    def __post_init__(self) -> None:
        limits = (self.mean, self.deviation, self.low, self.high)
        if not all(map(math.isfinite, (*limits, *self.knots, *self.scores, *self.edges))):
            raise ValueError(f"a number of column '{self.name}' is not finite")
        if self.deviation < 0 or self.low > self.high:
            raise ValueError(f"the numbers of column '{self.name}' contradict each other")
        if len(self.knots) != len(self.scores) or max(len(self.knots), len(self.edges)) > EDGES_MAX:
            raise ValueError(f"column '{self.name}' has too many knots, or not as many scores")
        # Edges must differ in the 32 bits that a model computes with.
        for rising in (self.knots, np.array(self.edges, dtype=np.float32).tolist()):
            if any(a >= b for a, b in itertools.pairwise(rising)):
                raise ValueError(f"the knots of column '{self.name}' do not rise")

    @property
    def names(self) -> list[str]:
        """The names of the columns it becomes."""
        return [self.name, f"{self.name}?missing"] if self.missing else [self.name]

    @property
    def inputs(self) -> list[Input]:
        """What a model makes of them."""
        return [Input(edges=tuple(self.edges)), *(Input() for _ in self.names[1:])]

    @property
    def word(self) -> str:
        """How a person is told of it."""
        return self.transform

    @classmethod
    def learn(
        cls, name: str, column: pa.ChunkedArray, transform: Transform | None = None
    ) -> Quantity:
        """What there is to know of training rows; without a transform the fitting one is chosen."""
        values = numbers(column, name, bounded=False)
        present = np.sort(values[~np.isnan(values)])
        missing = 0 < present.size < values.size
        if present.size == 0 or present[0] == present[-1]:
            return cls(name, "standard", missing=missing)
        how = transform or choose(present)
        low, high = float(present[0]), float(present[-1])
        knots: list[float] = []
        scores: list[float] = []
        if how == "clip":
            low, high = (float(each) for each in np.quantile(present, (0.005, 0.995)))
            low, high = (low, high) if low < high else (float(present[0]), float(present[-1]))
        elif how in ("quantile", "bins"):
            knots, scores = _knots(present)
        bare = cls(name, how, 0.0, 1.0, missing, low, high, knots, scores)
        with np.errstate(over="ignore", invalid="ignore"):
            out = bare._transformed(present)
            mean, deviation = float(out.mean()), float(out.std())
        if not (math.isfinite(mean) and math.isfinite(deviation)):
            raise DataError(f"the numbers of column '{name}' are too large: scale the column down")
        if deviation == 0:
            return cls(name, "standard", missing=missing)
        fitted = msgspec.structs.replace(bare, mean=mean, deviation=deviation)
        if how != "bins":
            return fitted
        return msgspec.structs.replace(fitted, edges=_edges((out - mean) / deviation))

    def _transformed(self, values: Floats) -> Floats:
        if self.transform in ("quantile", "bins"):
            found: Floats = np.interp(values, self.knots, self.scores)
            return found
        if self.transform == "log":
            return np.log1p(np.maximum(values - self.low, 0.0))
        return np.clip(values, self.low, self.high) if self.transform == "clip" else values

    def fill(self, column: pa.ChunkedArray, out: npt.NDArray[np.floating]) -> None:
        """Write the encoded column into `out` [rows, len(names)]."""
        values = numbers(column, self.name, bounded=False)
        absent = np.isnan(values)
        if self.deviation:
            with np.errstate(over="ignore", invalid="ignore"):
                scaled = (self._transformed(values) - self.mean) / self.deviation
            # A value that nothing in training came near must not drown all others.
            out[:, 0] = np.where(absent, 0.0, np.clip(scaled, -_BOUND, _BOUND))
        if self.missing:
            out[:, 1] = absent


def choose(present: Floats) -> Transform:
    """The transform for numbers, of which some are given in ascending order.

    >>> choose(np.linspace(0, 1, 100)), choose(np.exp(np.linspace(0, 9, 100)))
    ('standard', 'log')
    >>> choose(np.sort(np.concatenate([np.zeros(999), np.arange(50.0) ** 4])))
    'bins'
    """
    known, counts = np.unique(present, return_counts=True)
    if len(known) <= 2:
        return "standard"
    if counts.max() > _SPIKE * len(present) and len(known) > _SPREAD:
        return "bins"
    if abs(_skew(present)) <= _SKEWED:
        return "standard" if _reach(present) <= _FAR else "clip"
    logs = np.log1p(present - present[0])
    if present[0] >= 0 and abs(_skew(logs)) <= _SKEWED and _reach(logs) <= _FAR:
        return "log"
    return "quantile"


def _skew(values: Floats) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = values.std()
        third = float(np.mean(((values - values.mean()) / deviation) ** 3)) if deviation else 0.0
    return third if math.isfinite(third) else math.inf


def _reach(values: Floats) -> float:
    """The farthest value from the mean, in deviations."""
    with np.errstate(over="ignore", invalid="ignore"):
        ends = np.abs(values[[0, -1]] - values.mean()) / values.std()
    return float(ends.max()) if np.isfinite(ends).all() else math.inf


def _knots(present: Floats) -> tuple[list[float], list[float]]:
    """Some values, and the normal scores of the middle of the places that each has."""
    known, counts = np.unique(present, return_counts=True)
    levels = (np.cumsum(counts) - counts / 2) / len(present)
    if len(known) > _KNOTS:
        wanted = np.linspace(levels[0], levels[-1], _KNOTS)
        places = np.unique(np.searchsorted(levels, wanted).clip(0, len(known) - 1))
        known, levels = known[places], levels[places]
    score = NormalDist().inv_cdf
    scores = [score(min(max(level, 1e-4), 1 - 1e-4)) for level in levels.tolist()]
    return known.tolist(), scores


def _edges(values: Floats) -> list[float]:
    """Edges of bins: a value with many rows has one of its own, the others share the rest."""
    known, counts = np.unique(values, return_counts=True)
    if len(known) <= 2:
        return []
    if len(known) > _BINS + 1:
        heavy = known[counts * _BINS > len(values)]
        rest = values[~np.isin(values, heavy)]
        shares = np.linspace(0, 1, max(2, _BINS - 2 * len(heavy)) + 1)
        ends = known[[0, -1]]
        known = np.unique(np.concatenate([heavy, np.quantile(rest, shares), ends]))
    # Rows reach a model as 32-bit numbers, in which edges must still differ.
    return [float(edge) for edge in np.unique(known.astype(np.float32))]
