"""Policies as text: `pipelined:3`, `workset:5:5`, `cosine:threshold=0.5`.

A policy is named like its constructor in the file of its axis; arguments follow between colons,
in order or by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from colonnade.errors import JobError, nearest
from colonnade.plugins import call, own_functions


def constructors(axis: str) -> dict[str, Callable[..., Any]]:
    """The constructors of an axis, by name.

    >>> sorted(constructors("window"))
    ['bandwidth_delay', 'fixed', 'lockstep', 'pipelined']
    """
    return own_functions(importlib.import_module(f"colonnade.policies.{axis}"))


def parse(axis: str, text: str) -> Any:
    """The policy of a text.

    >>> parse("local", "repeat:3")
    Repeat(updates=3)
    """
    name, *words = text.split(":")
    known = constructors(axis)
    if name not in known:
        raise JobError(f"there is no {axis} policy '{name}': {nearest(name, known)}")
    return call(known[name], name, words)
