"""The digest of the parts of a job on which all parties must agree.

In it: the seed, the parties' names and roles, the method's composition, the whole `[train]` table
(with the checkpoint interval), the `[top]` table but for its optimizer, and the width of every
party's embedding. Not in it, because they are a party's own business: columns, tables, bottom
models, optimizers, devices, secret seeds; and what only the simulator assumes of network and
compute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from colonnade.job.records import Job


def digest(job: Job, composition: Mapping[str, str], widths: Mapping[str, int]) -> str:
    """A hexadecimal SHA-256 over the common parts.

    >>> from colonnade.job import load
    >>> job = load("digits")
    >>> digest(job, {}, {"lab": 16}) == digest(job, {}, {"lab": 8})
    False
    """
    top = msgspec.structs.replace(job.top, optimizer=None)
    common = {
        "version": 1,
        "seed": job.seed,
        "roles": {name: party.role for name, party in job.parties.items()},
        "method": dict(composition),
        "train": msgspec.to_builtins(job.train),
        "top": msgspec.to_builtins(top),
        "widths": dict(widths),
    }
    return hashlib.sha256(msgspec.json.encode(common, order="deterministic")).hexdigest()
