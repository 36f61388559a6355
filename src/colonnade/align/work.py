"""The heavy work of an alignment: functions of nothing but their arguments, to be done anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from colonnade.align.garbled import Words
from colonnade.align.group import BYTES, Batch, batch, multiply, scalars_from
from colonnade.align.oprf import OUTPUT_BYTES, blind, derive_key, evaluate_own, finalize, unblind
from colonnade.align.workers import Workers

MASK, TAG, PREDICTION_TAG, MARK = (slice(at, at + 16) for at in range(0, OUTPUT_BYTES, 16))
"""The parts of an output: what hides a value in the table, what names an id in the result, what
names it in a prediction, and where in the table it stands. They are independent of each other."""
_INFO = b"colonnade alignment"


def blinded(ids: Sequence[bytes], secret: bytes, first: int) -> bytes:
    """Points for ids, of which the first has this number; the blinds follow from secret and
    number, so that points that are sent again are the same."""
    return blind(ids, scalars_from(secret, first, len(ids))).tobytes()


def evaluated(points: bytes, seed: bytes) -> bytes:
    """Points multiplied by the key that belongs to a seed."""
    return multiply(batch(points), derive_key(seed, _INFO)).tobytes()


def outputs(ids: Sequence[bytes], points: bytes, secret: bytes, first: int) -> Batch:
    """The outputs for ids, from the points that came back."""
    return finalize(ids, unblind(batch(points), scalars_from(secret, first, len(ids))))


def own_outputs(ids: Sequence[bytes], seed: bytes) -> Batch:
    """The outputs for ids of one's own, by who has the key."""
    return evaluate_own(ids, derive_key(seed, _INFO))


def zero_shares(ids: Sequence[bytes], seeds: Sequence[bytes]) -> Words:
    """A share for each id: those of all followers add up to zero, and fewer are random.

    Each pair of followers has a seed, and both add what it gives for the id (Kolesnikov et al.,
    2017).

    >>> pair = [bytes(32)]
    >>> bool((zero_shares([b"x"], pair) ^ zero_shares([b"x"], pair)).any())
    False
    """
    total = np.zeros((len(ids), 2), dtype=np.uint64)
    for seed in seeds:
        drawn = b"".join(
            hashlib.blake2b(each, digest_size=16, key=seed, person=b"zero share").digest()
            for each in ids
        )
        total ^= words(np.frombuffer(drawn, dtype=np.uint8).reshape(-1, 16))
    return total


def labelled(secret: bytes, label: bytes) -> bytes:
    """Another secret of 32 bytes for each label; the secret itself where there is none.

    >>> secret = bytes(32)
    >>> labelled(secret, b"1") == labelled(secret, b"2"), labelled(secret, b"") == secret
    (False, True)
    """
    if not label:
        return secret
    return hashlib.blake2b(label, digest_size=32, key=secret, person=b"colonnade label").digest()


def relabelled(masks: Batch, marks: Batch, label: bytes) -> tuple[Words, Words]:
    """The masks and marks of outputs for the tables of an update: others than those of the tables
    before, so that tables tell nothing when they are laid side by side.

    >>> one = np.zeros((2, 16), dtype=np.uint8)
    >>> [part.shape for part in relabelled(one, one, b"1")]
    [(2, 2), (2, 2)]
    >>> bool(relabelled(one, one, b"")[0].any())
    False
    """
    if not label:
        return words(masks), words(marks)
    flat = np.concatenate([masks, marks], axis=1).tobytes()
    drawn = b"".join(labelled(flat[at : at + 32], label) for at in range(0, len(flat), 32))
    both = np.frombuffer(drawn, dtype=np.uint8).reshape(-1, 32)
    return words(both[:, :16]), words(both[:, 16:])


def words(part: Batch) -> Words:
    """Rows of 16 bytes as two words each."""
    return np.ascontiguousarray(part).view(np.uint64).reshape(-1, 2)


def divided(count: int, workers: Workers) -> list[tuple[int, int]]:
    """From where to where the pieces of so many ids go.

    >>> from colonnade.align.workers import Threads
    >>> divided(200, Threads(1))
    [(0, 128), (128, 200)]
    """
    step = workers.slice
    return [(at, min(at + step, count)) for at in range(0, count, step)]


def blind_all(workers: Workers, ids: Sequence[bytes], secret: bytes, first: int) -> bytes:
    """As `blinded`, over all workers."""
    pieces = [(ids[a:b], secret, first + a) for a, b in divided(len(ids), workers)]
    return b"".join(workers.map(blinded, pieces))


def evaluate_all(workers: Workers, points: bytes, seed: bytes) -> bytes:
    """As `evaluated`, over all workers."""
    count = len(points) // BYTES
    pieces = [(points[a * BYTES : b * BYTES], seed) for a, b in divided(count, workers)]
    return b"".join(workers.map(evaluated, pieces))


def outputs_all(
    workers: Workers, ids: Sequence[bytes], points: bytes, secret: bytes, first: int
) -> Batch:
    """As `outputs`, over all workers."""
    pieces = [
        (ids[a:b], points[a * BYTES : b * BYTES], secret, first + a)
        for a, b in divided(len(ids), workers)
    ]
    return _joined(workers.map(outputs, pieces))


def own_outputs_all(workers: Workers, ids: Sequence[bytes], seed: bytes) -> Batch:
    """As `own_outputs`, over all workers."""
    pieces = [(ids[a:b], seed) for a, b in divided(len(ids), workers)]
    return _joined(workers.map(own_outputs, pieces))


def _joined(parts: list[Batch]) -> Batch:
    return np.concatenate([np.empty((0, OUTPUT_BYTES), dtype=np.uint8), *parts])
