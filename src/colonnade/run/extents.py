"""How wide an embedding another party may announce: its width decides how much is allocated."""

from __future__ import annotations

from colonnade.job.bounds import WIDTH_MAX
from colonnade.job.records import Job
from colonnade.learn.participant import DTYPES
from colonnade.learn.passive import EVALUATION_ROWS
from colonnade.methods.method import Method


def widest(job: Job, method: Method, rows: int, test_rows: int) -> int:
    """The widest embedding of which a tensor still fits into a message, and a table of all training
    rows into its limit where the method remembers them.

    >>> from colonnade import methods
    >>> from colonnade.job import load
    >>> job = load("digits")
    >>> widest(job, methods.build(job.method), 1438, 359)
    186932
    """
    item = DTYPES[job.train.dtype].itemsize
    at_once = max(job.train.batch_size, min(EVALUATION_ROWS, test_rows), *job.top.layers, 1)
    found = job.limits.message_bytes // (at_once * item)
    if method.quorum.remembers:
        found = min(found, job.limits.table_bytes // (rows * item))
    return max(1, min(found, WIDTH_MAX))
