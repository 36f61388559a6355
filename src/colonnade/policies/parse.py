"""Policies as text: `pipelined:3`, `workset:5:5`, `cosine:threshold=0.5`.

A policy is named like its constructor in the file of its axis; arguments follow between colons,
in order or by name.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from colonnade.errors import JobError, nearest

AXES = (
    "exchange",
    "window",
    "quorum",
    "local",
    "version",
    "weight",
    "rate",
    "step",
    "order",
)


def constructors(axis: str) -> dict[str, Callable[..., Any]]:
    """The constructors of an axis, by name.

    >>> sorted(constructors("window"))
    ['lockstep', 'pipelined']
    """
    module = importlib.import_module(f"colonnade.policies.{axis}")
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }


def parse(axis: str, text: str) -> Any:
    """The policy of a text.

    >>> parse("local", "repeat:3")
    Repeat(updates=3)
    """
    name, *pieces = text.split(":")
    known = constructors(axis)
    if name not in known:
        raise JobError(f"there is no {axis} policy '{name}': {nearest(name, known)}")
    function = known[name]
    hints = get_type_hints(function)
    names = list(inspect.signature(function).parameters)
    values: dict[str, Any] = {}
    for position, piece in enumerate(pieces):
        key, equals, value = piece.partition("=")
        if not equals:
            key, value = (names[position] if position < len(names) else ""), piece
        if key not in names:
            hint = f"its arguments are {', '.join(names)}" if names else "it takes none"
            raise JobError(f"'{text}' gives {name} an argument it does not know: {hint}")
        values[key] = _read(value, hints.get(key), f"the argument {key} of '{text}'")
    try:
        return function(**values)
    except TypeError:
        needed = [n for n in names if n not in values]
        raise JobError(f"'{text}' lacks an argument: give {', '.join(needed)}") from None


def _read(value: str, hint: Any, what: str) -> Any:
    readers: dict[Any, Callable[[str], Any]] = {int: int, float: float, bool: _truth}
    try:
        return readers.get(hint, str)(value)
    except (ValueError, KeyError):
        raise JobError(f"{what} is '{value}': it must be of type {hint.__name__}") from None


def _truth(value: str) -> bool:
    return {"true": True, "false": False}[value]
