"""A garbled table: a map from keys to values that tells nothing of which keys are in it.

Each key has three slots, one in each third of the table, and its value is the XOR of what stands in
them. Slots that no key needs are filled at random, and a value is as good as random to whoever
does not know the key's mask: so the table looks the same whatever it holds, and every other key
gives a random value too. It is filled by peeling: a slot that only one key uses is set last, so
that key can be put aside, and so on. One slot in five stays free.

Two tables of the same keys with other random fillings would give their keys away: their XOR is
zero at these keys. So the filling comes from a secret, and is the same each time.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
"""Two words, 16 bytes, a row."""
SLOT_BYTES = 16
_WAYS = 3
_FACTOR, _THIRD_MIN = 1.25, 1024
BUCKET = 65_536
"""About how many keys stand in one table."""
ATTEMPTS = 64
_DEVIATIONS = 8.0
_GOLDEN, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


@dataclass(frozen=True)
class Shape:
    """How a set of so many keys is laid out in tables; it follows from the size alone.

    >>> Shape.of(10), Shape.of(1_000_000)
    (Shape(buckets=1, capacity=10), Shape(buckets=16, capacity=64500))
    """

    buckets: int
    capacity: int
    """The most keys of a bucket; all tables have the room for it, however many they hold."""

    @classmethod
    def of(cls, size: int) -> Shape:
        """For a set of a size."""
        buckets = max(1, -(-size // BUCKET))
        mean = size / buckets
        # Keys fall into buckets by their digest. More than eight standard deviations above the mean
        # come up less often than once in 10^14 buckets.
        spread = _DEVIATIONS * math.sqrt(mean) if buckets > 1 else 0.0
        return cls(buckets, min(size, math.ceil(mean + spread)))

    @property
    def third(self) -> int:
        """The slots of a third of a table."""
        return max(_THIRD_MIN, math.ceil(_FACTOR * self.capacity / _WAYS))

    @property
    def table_bytes(self) -> int:
        """Of each table."""
        return _WAYS * self.third * SLOT_BYTES


def slots(marks: Words, third: int, attempt: int) -> npt.NDArray[np.int64]:
    """The three slots of each key, from 16 bytes that are as good as random."""
    found = []
    for way in range(_WAYS):
        step = np.uint64((1 + way + _WAYS * attempt) * int(_GOLDEN) % 2**64)
        mixed = _mix(marks[:, 0] ^ _mix(marks[:, 1] + step))
        found.append((mixed % np.uint64(third)).astype(np.int64) + way * third)
    return np.stack(found, axis=1)


def _mix(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    mixed: npt.NDArray[np.uint64] = words ^ (words >> np.uint64(31))
    return mixed


def garble(marks: Words, values: Words, third: int, secret: bytes) -> tuple[Words, int]:
    """A table that gives each key its value, and the number of the attempt that could be filled.

    >>> marks = np.arange(20, dtype=np.uint64).reshape(10, 2)
    >>> table, attempt = garble(marks, marks + np.uint64(1), 1024, b"secret")
    >>> bool((look_up(table, marks, attempt) == marks + np.uint64(1)).all())
    True
    """
    for attempt in range(ATTEMPTS):
        where = slots(marks, third, attempt)
        layers = _peel(where, _WAYS * third)
        if layers is not None:
            return _fill(where, values, layers, _filling(secret, attempt, _WAYS * third)), attempt
    raise AssertionError("no attempt could be filled: two keys of the table are the same")


def look_up(table: Words, marks: Words, attempt: int) -> Words:
    """What the table gives for each key; random for a key that is not in it."""
    where = slots(marks, len(table) // _WAYS, attempt)
    found: Words = table[where[:, 0]] ^ table[where[:, 1]] ^ table[where[:, 2]]
    return found


def _filling(secret: bytes, attempt: int, count: int) -> Words:
    stream = hashlib.shake_256(b"filling" + attempt.to_bytes(2, "little") + secret)
    drawn = np.frombuffer(bytearray(stream.digest(count * SLOT_BYTES)), dtype=np.uint64)
    return drawn.reshape(count, 2)


Layers = list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
"""Keys that can be put aside at the same time, each with the slot that is left to it."""


def _peel(where: npt.NDArray[np.int64], count: int) -> Layers | None:
    flat = where.ravel()
    keys = np.repeat(np.arange(len(where)), _WAYS)
    uses = np.bincount(flat, minlength=count)
    # The sum of the keys that use a slot: of the only one, when there is one.
    sums = np.bincount(flat, weights=keys, minlength=count).astype(np.int64)
    layers: Layers = []
    left, single = len(where), np.flatnonzero(uses == 1)
    while len(single):
        peeled, first = np.unique(sums[single], return_index=True)
        layers.append((peeled, single[first]))
        left -= len(peeled)
        touched = where[peeled].ravel()
        np.subtract.at(uses, touched, 1)
        np.subtract.at(sums, touched, np.repeat(peeled, _WAYS))
        touched = np.unique(touched)
        single = touched[uses[touched] == 1]
    return None if left else layers


def _fill(where: npt.NDArray[np.int64], values: Words, layers: Layers, table: Words) -> Words:
    for peeled, slot in reversed(layers):
        own = where[peeled]
        others = table[own[:, 0]] ^ table[own[:, 1]] ^ table[own[:, 2]] ^ table[slot]
        table[slot] = values[peeled] ^ others
    return table
