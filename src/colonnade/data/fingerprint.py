"""A fingerprint of the rows that a party holds, to tell whether two parties hold the same.

It is a SHA-256 that begins with the terms of the job, so that the fingerprint of one job says
nothing to another, and is only ever compared for equality. Who holds a whole list of ids can check
whether it is the other's list; single ids cannot be looked up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from colonnade.job import terms
from colonnade.job.records import Job


def fingerprint(job: Job, about: dict[str, Any], arrays: Iterable[Any] = ()) -> str:
    """A hexadecimal fingerprint of what is said `about` the rows, and of ids or numbers of rows.

    >>> from colonnade.job.files import load
    >>> job, ids = load("digits"), pa.array(["c1", "c2"], pa.large_string())
    >>> fingerprint(job, {"train": 2}, [ids]) == fingerprint(job, {"train": 2}, [ids[:1]])
    False
    """
    salt = terms.digest(terms.terms(job, {}))
    mixed = hashlib.sha256(msgspec.json.encode([salt, about], order="deterministic"))
    for array in arrays:
        for part in buffers(array):
            # Lengths keep two parts from running into each other.
            mixed.update(part.nbytes.to_bytes(8, "little"))
            mixed.update(part)
    return mixed.hexdigest()


def buffers(array: Any) -> Iterator[memoryview]:
    """What an array holds, in bytes that do not depend on how it lies in memory."""
    if not isinstance(array, pa.Array):
        yield _bytes(array)
        return
    assert pa.types.is_large_string(array.type) and array.null_count == 0
    _, offsets, text = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    yield _bytes(np.diff(ends))
    yield memoryview(text or b"")[ends[0] : ends[-1]]


def _bytes(numbers: npt.ArrayLike) -> memoryview:
    return np.ascontiguousarray(numbers, dtype="<i8").view(np.uint8).data
