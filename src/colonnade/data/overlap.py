"""Which customers two organisations have, where they have only some in common.

Every row of a data set is a customer. The active party has its training customers, all with their
outcomes; the partner has a share of them, the *overlap*, and some whom the active party does not
have, of whom nobody knows the outcome. Both have the test customers, on whom models are compared.
A larger overlap of the same seed has all customers of a smaller one, and the same test customers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from colonnade.data.batches import Rows
from colonnade.data.splits import Parts
from colonnade.errors import DataError

TEST = 0.2
"""Of all customers."""
ELSEWHERE = 0.1
"""Of the others, the share that only the partner has."""
VALIDATION = 0.1
"""Of the active party's, the share by which choices are made."""


class Customers(NamedTuple):
    """Row numbers of customers, in ascending order."""

    own: Parts
    """The active party's."""
    common: Parts
    """Those of them whom the partner has too."""
    elsewhere: Rows
    """Those whom only the partner has."""


def draw_customers(count: int, overlap: float, seed: int) -> Customers:
    """Deal customers out to both parties.

    >>> customers = draw_customers(1000, overlap=0.3, seed=0)
    >>> [len(rows) for rows in customers.own], [len(rows) for rows in customers.common]
    ([648, 72, 200], [194, 22, 200])
    >>> len(customers.elsewhere)
    80
    """
    if not 0 < overlap <= 1:
        raise DataError(f"the overlap is {overlap!r}: give a share above 0, up to 1")
    order = np.random.default_rng(seed).permutation(count)
    test, rest = _cut(order, TEST)
    elsewhere, mine = _cut(rest, ELSEWHERE)
    validation, train = _cut(mine, VALIDATION)
    # The order is a random one, so its beginning is a random share, and a larger one includes it.
    common = Parts(_first(train, overlap), _first(validation, overlap), np.sort(test))
    own = Parts(np.sort(train), np.sort(validation), np.sort(test))
    return Customers(own, common, np.sort(elsewhere))


def _cut(rows: Rows, share: float) -> tuple[Rows, Rows]:
    size = int(len(rows) * share + 0.5)
    return rows[:size], rows[size:]


def _first(rows: Rows, share: float) -> Rows:
    return np.sort(_cut(rows, share)[0])
