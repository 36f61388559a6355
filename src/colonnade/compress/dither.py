"""Dither that both ends can make: 16-bit numbers from a 64-bit key.

The key is derived from what names a message (job seed, sender, role, receiver, round) and travels
with it, so a receiver needs no configuration. The stream is the raw output of SFC64, which numpy
keeps equal over its versions; the methods of its Generator, and torch's generators, are not.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from colonnade.compress.base import Key

STEPS = 65_536
"""Dither takes the values 0, 1, … STEPS - 1, in parts of one quantisation step."""


def dither_key(key: Key, round: int) -> int:
    """The 64-bit key of one message's dither.

    >>> dither_key(Key(0, "a", "embedding"), 1) == dither_key(Key(0, "a", "embedding"), 2)
    False
    """
    named = repr((key.seed, key.sender, key.role, key.receiver, round))
    return int.from_bytes(blake2b(named.encode(), digest_size=8).digest(), "little")


class Dither:
    """The stream of one key, taken piece by piece.

    >>> Dither(7).take(4).tolist() == Dither(7).take(8).tolist()[:4]
    True
    """

    def __init__(self, key: int) -> None:
        self._source = np.random.SFC64(key)

    def take(self, count: int) -> NDArray[np.uint16]:
        """The next numbers; only the last piece may have a length that is no multiple of four."""
        words = self._source.random_raw(-(-count // 4))
        return words.astype("<u8", copy=False).view("<u2")[:count]
