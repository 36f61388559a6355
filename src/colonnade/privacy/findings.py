"""What an audit has found, in figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from sklearn import metrics

from colonnade.formats import FORMATS
from colonnade.privacy.recorded import Array

FORMAT = FORMATS["audit"].version
Source = Literal["messages", "sum", "summand", "sealed"]
"""What an attacker looks at: what it was sent; the sum that it made of embeddings under masks; or,
as if it had come to know that, a party's part of such a sum, or what was encrypted."""


class Figures(msgspec.Struct, frozen=True):
    """How well something was told: classes by the first three, quantities by the last.

    >>> Figures(r2=0.9).leak(Figures(r2=0.0))
    0.9
    """

    accuracy: float | None = None
    """The share of rows whose label was told."""
    balanced: float | None = None
    """The mean of that share over the classes."""
    auc: float | None = None
    """How well rows are ordered, 0.5 by chance; of more than two classes the mean of each against
    the others."""
    r2: float | None = None
    """How much of the variance was told, of all columns together: 1 is all of it, 0 what the means
    tell."""

    @property
    def told(self) -> float | None:
        """The share of labels that was told, or else R²."""
        return self.r2 if self.accuracy is None else self.accuracy

    def leak(self, baseline: Figures) -> float:
        """How much more than the baseline tells, from 0 to all that it leaves, 1."""
        pairs = (self.auc, baseline.auc), (self.r2, baseline.r2)
        for found, before in pairs:
            if found is not None and before is not None:
                return max(0.0, (found - before) / max(1 - before, 1e-9))
        return 0.0


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One attack on what one party has sent to another."""

    party: str
    """Whose data it is about."""
    of: Literal["labels", "columns"]
    to: str
    """Who could do it; `*` for all others."""
    attack: str
    needs: str
    """What the attacker has to have beside what it received."""
    rows: int
    """How many rows were asked about."""
    releases: int
    """The most times that a row crossed."""
    one: Figures
    """With one release of each row."""
    pooled: Figures
    """With all that were recorded."""
    baseline: Figures
    baseline_is: str
    """What the attacker would know without having received anything."""
    control: Figures
    """The same attack, pooled, where the truth is shuffled: what it finds there is chance."""
    source: Source = "messages"
    split: str = "train"
    """Which rows were asked about."""

    @property
    def supposed(self) -> bool:
        """Whether the attacker is taken to know what nobody has told it in this run."""
        return self.source in ("summand", "sealed")

    @property
    def leak(self) -> float:
        """How much more than the baseline it tells, from 0 to 1."""
        return self.best.leak(self.baseline)

    @property
    def best(self) -> Figures:
        """With one release or with all, whichever tells more."""
        return max((self.pooled, self.one), key=lambda each: each.leak(self.baseline))


class Step(NamedTuple):
    """An attack that is still to be made."""

    title: str
    run: Callable[[], Finding]


class Covered(msgspec.Struct, frozen=True):
    """What one party has recorded."""

    party: str
    rounds: int
    sent: int
    """Rows that left, each as often as it did."""
    received: int
    kinds: dict[str, dict[str, int]] = {}
    """How many of them by `sent` and `received`, and by what they are."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What the recorded traffic of a run tells."""

    format: int = FORMAT
    known: int
    """How many rows an attacker was taken to know, where the attack needs some."""
    covered: list[Covered]
    findings: list[Finding]
    verdict: list[str]
    """In plain words."""
    not_tested: list[str]

    def told(self) -> dict[str, float | None]:
        """What the attacks that told most have told: the share of `labels` (of quantities R²), what
        is known of them anyway (`labels_known`), and the R² of `columns`; None where none were
        tried.

        >>> Audit(known=1, covered=[], findings=[], verdict=[], not_tested=[]).told()["labels"]
        """
        found: dict[str, float | None] = {"labels": None, "labels_known": None, "columns": None}
        for of in ("labels", "columns"):
            tried = [each for each in self.findings if each.of == of and not each.supposed]
            if tried:
                worst = max(tried, key=lambda each: each.leak)
                found[of] = worst.best.told
                if of == "labels":
                    found["labels_known"] = worst.baseline.told
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain values, as `privacy.json` has it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def class_figures(scores: Array, labels: Array) -> Figures:
    """How well scores, [rows, classes], tell the labels.

    >>> class_figures(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1])).auc
    1.0
    """
    told = scores.argmax(axis=1) == labels
    present = np.unique(labels)
    each = [float(told[labels == label].mean()) for label in present]
    return Figures(float(told.mean()), float(np.mean(each)), _auc(scores, labels, present))


def _auc(scores: Array, labels: Array, present: Array) -> float | None:
    if len(present) < 2:
        return None
    if scores.shape[1] == 2:
        return float(metrics.roc_auc_score(labels, scores[:, 1] - scores[:, 0]))
    curves = [metrics.roc_auc_score(labels == label, scores[:, label]) for label in present]
    return float(np.mean(curves))


def prior(labels: Array) -> Figures:
    """What the commonest class tells.

    >>> prior(np.array([0, 0, 0, 1])).accuracy
    0.75
    """
    counts = np.unique(labels, return_counts=True)[1]
    return Figures(float(counts.max() / counts.sum()), 1 / len(counts), 0.5)


def column_figures(found: Array, columns: Array) -> Figures:
    """How well columns were rebuilt, as they are scaled for the bottom model.

    >>> column_figures(np.array([[1.0], [2.0]]), np.array([[1.0], [2.0]])).r2
    1.0
    """
    columns = columns.astype(np.float64)
    spread = float(((columns - columns.mean(axis=0)) ** 2).sum())
    missed = float(((columns - found) ** 2).sum())
    return Figures(r2=1 - missed / spread) if spread > 0 else Figures()
