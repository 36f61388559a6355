"""What a command line says in one word: a value, or a method with its options."""

from __future__ import annotations

import tomllib
from typing import Any

from colonnade.errors import JobError


def parse_value(text: str) -> Any:
    """A `--set` value: a TOML value where it is one, else the text itself.

    >>> parse_value("5"), parse_value("50ms"), parse_value("[1, 2]")
    (5, '50ms', [1, 2])
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def parse_method(text: str) -> dict[str, Any]:
    """A method as a command line names it: its name, then options, between colons.

    A piece without `=` belongs to what stands before it, as in `package.module:function`.

    >>> parse_method("fedbcd:updates=5:order=sequential")
    {'name': 'fedbcd', 'updates': 5, 'order': 'sequential'}
    >>> parse_method("mine.methods:twice:updates=2")
    {'name': 'mine.methods:twice', 'updates': 2}
    """
    pieces: list[str] = []
    for piece in text.split(":"):
        if pieces and "=" not in piece:
            pieces[-1] += f":{piece}"
        else:
            pieces.append(piece)
    name, *options = pieces
    first, colon, rest = name.partition(":")
    if colon and first in _known():
        raise JobError(f"'{text}' gives {rest} no value: write {first}:{rest or 'option'}=value")
    table: dict[str, Any] = {"name": name}
    for option in options:
        key, _, value = option.partition("=")
        table[key.strip()] = parse_value(value.strip())
    return table


def _known() -> set[str]:
    from colonnade import methods

    return set(methods.known())
