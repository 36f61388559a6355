"""The terms of a job: all that its parties must agree on, field by field.

In them: the seed, how rows are aligned, the parties' names in their order, their roles, what the
job says of their widths, steps and compression, the method's composition, and the tables `[train]`
(with the checkpoint interval), `[top]` but for its optimizer, `[timeouts]` and `[recovery]`; and
the version of the model that all go on from, where they do (`--from`), which no job says. Not in
them, because they are a party's own business: data, columns, bottom models, optimizers, devices,
secret seeds and limits; nor what only the simulator assumes of network and compute.

Parties compare a digest of their terms first, and the terms themselves only where it differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from colonnade.job.records import PUBLIC, Job
from colonnade.job.train import Record

_LINES_MAX = 12
"""The most fields that are named where two jobs differ; the rest is counted."""
_FIELD_CHARS_MAX = 80
_VALUE_CHARS_MAX = 60
SENTENCE_CHARS_MAX = 1000
"""The most that is shown of a sentence of a peer."""
_ANEW = ("timeouts.", "recovery.")


def terms(job: Job, composition: Mapping[str, str], parent: str = "") -> dict[str, str]:
    """The common part of a job, from the path of a field to its value as JSON; `parent` is the
    version of a model that all begin with, which no job file says.

    Fields that are not set are left out.

    >>> from colonnade.job import load
    >>> found = terms(load("digits"), {"local": "repeat(updates=5)"})
    >>> found["train.batch_size"], found["parties.lab.role"], found["method.local"]
    ('64', '"passive"', '"repeat(updates=5)"')
    """
    common: dict[str, Any] = {
        "seed": job.seed,
        "alignment": job.alignment,
        "parties": list(job.parties),
    }
    for name, party in job.parties.items():
        common |= {f"parties.{name}.{field}": getattr(party, field) for field in PUBLIC}
    for name in ("train", "top", "timeouts", "recovery"):
        common[name] = _values(getattr(job, name))
    common["top"].pop("optimizer")
    common["top"]["hidden"] = job.top.layers
    common["method"] = dict(composition)
    common["from"] = parent or None
    return {path: _json(value) for path, value in _flat(common)}


def _values(record: Record) -> dict[str, Any]:
    """The fields of a record as a file would give them: a record built in Python may hold 1 where
    a file gives 1.0, and both are the same job."""
    plain = msgspec.to_builtins(record)
    values: dict[str, Any] = msgspec.to_builtins(msgspec.convert(plain, type(record)))
    return values


def _flat(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += [(f"{key}.{path}", below) for path, below in _flat(value)]
        elif value is not None:
            found.append((key, value))
    return found


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()


def digest(terms: Mapping[str, str]) -> str:
    """A hexadecimal SHA-256 over the terms.

    >>> digest({"seed": "0"}) == digest({"seed": "1"})
    False
    """
    return hashlib.sha256(_json(dict(terms)).encode()).hexdigest()


def identity(terms: Mapping[str, str]) -> str:
    """A digest of what makes a run the same run, as which it may go on after a pause.

    How long the parties wait and how they recover is agreed on anew at each start, and may then be
    other than before.

    >>> identity({"seed": "0", "timeouts.join": '"1h"'}) == identity({"seed": "0"})
    True
    """
    return digest({path: value for path, value in terms.items() if not path.startswith(_ANEW)})


def differences(
    mine: Mapping[str, str], theirs: Mapping[str, str], me: str, peer: str
) -> list[str]:
    """One line for each field that differs; `theirs` came over the wire and may be anything.

    >>> differences({"train.batch_size": "256"}, {"train.batch_size": "128"}, "bank", "telco")
    ['train.batch_size is 256 at bank and 128 at telco']
    >>> differences({"train.target": "0.9"}, {}, "bank", "telco")
    ['train.target is 0.9 at bank and not set at telco']
    """
    paths = [path for path in mine if mine[path] != theirs.get(path)]
    paths += sorted(path for path in theirs if path not in mine)
    lines = [
        f"{shown(path, _FIELD_CHARS_MAX)} is {_value(mine, path)} at {me} "
        f"and {_value(theirs, path)} at {peer}"
        for path in paths[:_LINES_MAX]
    ]
    more = len(paths) - len(lines)
    return [*lines, f"and {more} more fields differ"] if more else lines


def _value(terms: Mapping[str, str], path: str) -> str:
    return shown(terms[path], _VALUE_CHARS_MAX) if path in terms else "not set"


def shown(text: str, most: int = SENTENCE_CHARS_MAX) -> str:
    """Text of a peer for an error, a log or a terminal: short, on one line, and without control
    characters.

    >>> shown("a\\x1b[2Jb", 60)
    'a\\\\x1b[2Jb'
    """
    cut = text[: most + 1]
    safe = cut if cut.isprintable() else ascii(cut)[1:-1]
    return safe if len(safe) <= most else f"{safe[: most - 1]}…"
