"""Which rows each batch holds: decided by one shared seed, without a stored order.

All parties work out the same batches on their own, so that no row numbers travel between them.
The order of an epoch is a keyed shuffle that is *computed* for the positions asked for instead
of being written down, so a hundred million rows cost no more memory than a hundred.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from colonnade.errors import DataError

Rows = npt.NDArray[np.int64]
Shuffle = Literal["epoch", "once", "never"]

_MASK = 2**64 - 1
_STEPS = 8
"""Mixing steps of a shuffle. Four are the textbook minimum; small domains need some more."""
_MIX_A = np.uint32(0x7FEB352D)
_MIX_B = np.uint32(0x846CA68B)
_HALF_BITS_MAX = 31
"""Halves of a position fit 32 bits, which the processor multiplies several at a time."""
_CHUNK = 32_768
"""Positions computed at one time; a plan keeps at most two such chunks."""


def splitmix64(value: int) -> int:
    """Scatter a whole number over 64 bits, always in the same way.

    >>> hex(splitmix64(0))
    '0xe220a8397b1dcdaf'
    """
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Permutation:
    """A shuffle of `range(rows)` that is computed, not stored.

    A Feistel network: the bits of a position are cut into two halves, and each half in turn is
    XORed with a keyed hash of the other, which could be undone step by step, so that no two
    positions get the same row. Its domain is the next power of two; a position that lands outside
    the rows is mapped again until it lands inside.

    >>> shuffle = Permutation(5, key=1)
    >>> sorted(shuffle(np.arange(5)).tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, rows: int, key: int) -> None:
        assert 1 <= rows <= 2 ** (2 * _HALF_BITS_MAX), "a permutation needs at least one row"
        self.rows = rows
        bits = (rows - 1).bit_length()
        self._low_bits = (bits + 1) // 2
        self._high_bits = bits - self._low_bits
        seeds = [splitmix64(key & _MASK)]
        while len(seeds) < _STEPS:
            seeds.append(splitmix64(seeds[-1]))
        self._keys = [np.uint32(seed >> 32) for seed in seeds]

    def __call__(self, positions: npt.ArrayLike) -> Rows:
        """Return the row at each position."""
        start = np.asarray(positions, dtype=np.int64)
        assert start.size == 0 or (start.min() >= 0 and start.max() < self.rows)
        values = self._map(start.astype(np.uint64).ravel())
        limit = np.uint64(self.rows)
        outside = np.flatnonzero(values >= limit)
        while outside.size:
            moved = self._map(values[outside])
            values[outside] = moved
            outside = outside[moved >= limit]
        return values.astype(np.int64).reshape(start.shape)

    def _map(self, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        if self._low_bits == 0:
            return values
        low = (values & np.uint64((1 << self._low_bits) - 1)).astype(np.uint32)
        high = (values >> np.uint64(self._low_bits)).astype(np.uint32)
        for step, key in enumerate(self._keys):
            if step % 2 == 0:
                low ^= _hash(high, key, self._low_bits)
            elif self._high_bits:
                high ^= _hash(low, key, self._high_bits)
        return (high.astype(np.uint64) << np.uint64(self._low_bits)) | low


def _hash(values: npt.NDArray[np.uint32], key: np.uint32, bits: int) -> npt.NDArray[np.uint32]:
    mixed = values + key
    mixed *= _MIX_A
    mixed ^= mixed >> np.uint32(15)
    mixed *= _MIX_B
    # The upper bits of a product depend on all bits below them, so those are the ones to keep.
    mixed >>= np.uint32(32 - bits)
    return mixed


def check_batch_size(batch_size: int, rows: int) -> None:
    """Refuse batches that are larger than the training rows.

    >>> check_batch_size(256, rows=1797)
    """
    if batch_size > rows:
        raise DataError(
            f"batch_size is {batch_size} but there are only {rows} training rows: "
            f"set train.batch_size to {max(rows, 1)} or less, or hold out fewer rows"
        )


class BatchPlan:
    """The rows of every batch of a training, the same at every party.

    >>> plan = BatchPlan(rows=10, batch_size=4, seed=7)
    >>> plan.per_epoch
    3
    >>> [len(plan.batch(round)) for round in range(4)]
    [4, 4, 2, 4]
    """

    def __init__(
        self,
        rows: int,
        batch_size: int,
        seed: int,
        shuffle: Shuffle = "epoch",
        drop_last: bool = False,
    ) -> None:
        assert batch_size >= 1
        check_batch_size(batch_size, rows)
        self.rows = rows
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.per_epoch = rows // batch_size if drop_last else -(-rows // batch_size)
        """Batches in one epoch."""
        self._per_chunk = max(1, _CHUNK // batch_size)
        # Two chunks, because a party that answers an older round goes back and forth between
        # two neighbours. A tuple replaced as a whole needs no lock.
        self._recent: tuple[tuple[tuple[int, int], Rows], ...] = ()
        self._latest: tuple[int, Rows] = (-1, np.arange(0))

    def batch(self, round: int) -> Rows:
        """Return the rows of a round; rounds count on from epoch to epoch.

        The result may be a view of the plan's own memory: do not write into it.
        """
        known, rows = self._latest
        if known == round:
            return rows
        assert round >= 0
        epoch, index = divmod(round, self.per_epoch)
        chunk, index = divmod(index, self._per_chunk)
        start = index * self.batch_size
        rows = self._chunk(epoch, chunk)[start : start + self.batch_size]
        self._latest = (round, rows)
        return rows

    def _chunk(self, epoch: int, chunk: int) -> Rows:
        key = (epoch, chunk)
        for known, rows in self._recent:
            if known == key:
                return rows
        start = chunk * self._per_chunk * self.batch_size
        stop = min(start + self._per_chunk * self.batch_size, self.rows)
        rows = np.arange(start, stop, dtype=np.int64)
        if self.shuffle != "never":
            drawn = epoch if self.shuffle == "epoch" else 0
            rows = Permutation(self.rows, splitmix64(self.seed) + drawn)(rows)
        self._recent = ((key, rows), *self._recent[:1])
        return rows


def held_out(rows: int, share: float, seed: int) -> tuple[Rows, Rows]:
    """Choose which rows to train on and which to hold out, both in ascending order.

    >>> train, test = held_out(10, share=0.2, seed=0)
    >>> len(train), len(test)
    (8, 2)
    """
    count = int(rows * share + 0.5)
    held = np.zeros(rows, dtype=np.bool_)
    if count:
        # The key differs from those of the batches, so that equal seeds do not tie the two.
        order = Permutation(rows, splitmix64(splitmix64(seed) ^ 0x7E57))
        for start in range(0, count, _CHUNK):
            held[order(np.arange(start, min(start + _CHUNK, count)))] = True
    return np.flatnonzero(~held), np.flatnonzero(held)
