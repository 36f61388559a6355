"""Rows that cross again and again: what of them is looked at together, and which of them an
attacker is taken to know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from colonnade.privacy.recorded import Array, Rows, Stream

RELEASES_MAX = 8
"""The last so many releases of a row are put side by side."""
WIDTH_MAX = 1024
"""Of wider tensors so many columns are looked at, evenly spread."""


class Guess(NamedTuple):
    """What is guessed of each row, and which rows were known before."""

    scores: Array
    known: NDArray[np.bool_]


def common(streams: Sequence[Stream]) -> tuple[Rows, list[Stream]]:
    """The rows that are in all of some streams, and the streams with no others."""
    ids = streams[0].ids if streams else np.empty(0, np.int64)
    for each in streams[1:]:
        ids = np.intersect1d(ids, each.ids)
    return ids, [each.within(ids) for each in streams]


def features(stream: Stream, one: bool) -> Array:
    """What is known of each row, [rows, …]: its last release, or the last few of them beside each
    other, as many as nearly all rows have; a row that has fewer has its first one repeated.

    >>> crossed = Stream.of([(0, np.array([3, 5]), np.array([[1.0], [2.0]])),
    ...                      (1, np.array([3, 5]), np.array([[7.0], [8.0]]))])
    >>> features(crossed, one=False)
    array([[7., 1.],
           [8., 2.]])
    """
    most = 1 if one else max(1, min(RELEASES_MAX, int(np.quantile(stream.counts, 0.1))))
    # The lines of a row one after the other, in the order in which they crossed.
    lines = np.argsort(stream.place, kind="stable")
    ends = np.cumsum(stream.counts)
    numbers = np.maximum(ends[:, None] - 1 - np.arange(most), (ends - stream.counts)[:, None])
    values = narrow(stream.values, WIDTH_MAX)
    return np.asarray(values[lines[numbers]]).reshape(len(stream.ids), -1)


def narrow(values: Array, most: int) -> Array:
    """No more than so many columns, evenly spread.

    >>> narrow(np.arange(10).reshape(2, 5), 3)
    array([[0, 2, 4],
           [5, 7, 9]])
    """
    width = values.shape[1]
    return values if width <= most else values[:, np.linspace(0, width - 1, most).astype(np.int64)]


def draw(rows: int, known: int) -> NDArray[np.bool_]:
    """The rows that an attacker knows: so many, but no more than half.

    >>> int(draw(10, 1000).sum())
    5
    """
    taken = np.zeros(rows, bool)
    taken[np.random.default_rng(1).permutation(rows)[: min(known, rows // 2)]] = True
    return taken


def shuffled(truth: Array) -> Array:
    """The same values in the places of others."""
    return truth[np.random.default_rng(2).permutation(len(truth))]
