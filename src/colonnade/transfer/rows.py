"""The rows of both parties: the credit data, as many of each class, standardised.

The guest has the labels and what is known of the person (15 columns, of which 13 are the categories
of three), the host the payments (18 columns).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from colonnade.data import named
from colonnade.transfer.bottom import Floats
from colonnade.transfer.setting import Setting

CATEGORIES = ("SEX", "EDUCATION", "MARRIAGE")
QUANTITIES = ("LIMIT_BAL", "AGE")
PAYMENTS = ("PAY_", "BILL_")


@dataclass(frozen=True)
class Rows:
    """What both parties have; the first rows are those that both have."""

    guest: Floats
    labels: Floats
    """Of the guest's rows: 1 or −1."""
    host: Floats
    """Of the rows that both have."""
    host_only: Floats
    """The rows that the guest lacks: on them AUC is measured."""
    test_labels: Floats
    """Of the rows that only the host has; the guest has them to measure, and does not train with
    them."""
    overlap: int
    """How many rows both have."""
    guest_rows: int

    def of(self, guest: bool) -> Rows:
        """What one party has."""
        nothing = np.zeros((0, 0))
        if guest:
            return replace(self, host=nothing, host_only=nothing)
        return replace(self, guest=nothing, labels=nothing, test_labels=nothing)


def credit_rows(setting: Setting, most: int | None = None) -> Rows:
    """Both parties' rows, in an order that the setting's seed gives; `most` of them at most."""
    found = named.load("credit")
    assert found.table is not None
    random = np.random.default_rng(setting.seed)
    ones, zeros = (np.flatnonzero(found.labels == value) for value in (1, 0))
    chosen = np.concatenate([ones, random.permutation(zeros)[: len(ones)]])
    order = random.permutation(chosen)[:most]
    labels = np.where(found.labels[order] == 1, 1.0, -1.0)
    table = found.table
    person = [_indicators(_column(table, name)) for name in CATEGORIES]
    person += [_column(table, name)[:, None] for name in QUANTITIES]
    payments = [n for n in table.column_names if n.startswith(PAYMENTS)]
    guest = _standard(np.concatenate(person, axis=1)[order])
    host = _standard(np.stack([_column(table, name) for name in payments], axis=1)[order])
    both = int(len(order) * setting.overlap)
    end = both + int((len(order) - both) * setting.guest_share)
    columns = guest[:end], labels[:end], host[:both], host[end:], labels[end:]
    return Rows(*columns, overlap=both, guest_rows=end)


def _column(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), np.float64)


def _indicators(values: Floats) -> Floats:
    """A column for each of its values."""
    return np.asarray(values[:, None] == np.unique(values), np.float64)


def _standard(values: Floats) -> Floats:
    spread = values.std(axis=0)
    standard: Floats = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return standard
