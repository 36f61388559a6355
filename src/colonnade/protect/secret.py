"""A party's secret randomness, for noise and masks."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

KEY_BYTES = 32

Draws = NDArray[np.float64]
"""[rows, 2]: numbers from the open interval (0, 1)."""
Randomness = Callable[[int], bytes]
"""So many bytes that nobody else knows, such as `os.urandom`."""


class Secret:
    """A key of 256 bits. What is drawn from it nobody else can foresee or repeat, unlike the dither
    of an encoding, whose key travels with the message.

    >>> one, again = (Secret(bytes(32)).stream("noise", 3).normal(9) for _ in range(2))
    >>> bool((one == again).all())
    True
    """

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES
        self._key = key

    def key(self, *use: str | int) -> bytes:
        """A key of its own for each use."""
        text = repr(use).encode()
        return hashlib.blake2b(text, key=self._key, digest_size=KEY_BYTES).digest()

    def stream(self, *use: str | int) -> Stream:
        """A stream of its own for each use."""
        return Stream(self.key(*use))


def _uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


class Stream:
    """Numbers from AES in counter mode, so that those seen tell nothing of those to come.

    >>> Stream(bytes(32)).words(2).tolist() != Stream(bytes([1]) * 32).words(2).tolist()
    True
    """

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int, dtype: Any = np.uint64) -> NDArray[Any]:
        """So many random words, of 64 bits unless told otherwise."""
        kind = np.dtype(dtype)
        return np.frombuffer(self._cipher.update(bytes(kind.itemsize * count)), kind)

    def uniform(self, *shape: int) -> NDArray[np.float64]:
        """Numbers from the open interval (0, 1): odd multiples of 2⁻⁵⁴."""
        return _uniform(self.words(math.prod(shape))).reshape(shape)

    def normal(self, *shape: int) -> NDArray[np.float64]:
        """Numbers from the standard normal distribution (Box and Muller)."""
        count = math.prod(shape)
        half = -(-count // 2)
        radius = np.sqrt(-2 * np.log(self.uniform(half)))
        angle = 2 * np.pi * self.uniform(half)
        both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        return both[:count].reshape(shape)


def row_draws(key: bytes, use: str, rows: Iterable[str], labels: Iterable[str]) -> Draws:
    """What decides over each row's label: the same whenever the same row with the same label comes
    again, in whichever order, and nothing that could be foreseen without the key.

    >>> one = row_draws(bytes(32), "flip:2", ["ann", "bob"], ["yes", "no"])
    >>> again = row_draws(bytes(32), "flip:2", ["bob", "ann"], ["no", "yes"])
    >>> bool((one == again[::-1]).all())
    True
    """
    assert len(key) == KEY_BYTES
    texts = (repr((use, row, label)).encode() for row, label in zip(rows, labels, strict=True))
    hashed = b"".join(hashlib.blake2b(text, key=key, digest_size=16).digest() for text in texts)
    return _uniform(np.frombuffer(hashed, np.uint64)).reshape(-1, 2)


class Derived:
    """Randomness that follows from a seed, so that a simulation can be repeated: of no use against
    anybody who knows the seed.

    >>> Derived(7)(4) == Derived(7)(4)
    True
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._drawn = seed, 0

    def __call__(self, count: int) -> bytes:
        text = repr((self._seed, self._drawn)).encode()
        self._drawn += 1
        return hashlib.shake_256(text).digest(count)
