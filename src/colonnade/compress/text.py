"""Encodings as text, for job files and the command line.

    plain   half[:bfloat16]   scalar:BITS   lattice:BITS   topk:KEEP
    scalar:3:minmax:dither    topk:0.25:importance         topk:8:shared
    ef+ENCODING               ef21+ENCODING                diminishing+scalar:2
    steps:0=scalar:2,100=scalar:4                          by_link:3:16
    package.module:function   package.module:function:3    one from outside the package

Each encoding is read, and gives its text, in the file that defines it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from colonnade.compress.base import DECODERS, ENCODINGS, WRAPPERS, Encoding, plain
from colonnade.errors import JobError, RequestError, nearest
from colonnade.plugins import call, import_function

_OUTSIDE = re.compile(r"(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*)(:(?P<rest>.*))?")

DEPTH_MAX = 20
"""The most encodings within one another: a job file from a partner may nest them without end."""

Import = Callable[[str, list[str]], Encoding]
"""What to do with the name of an encoding from outside and the words that follow it."""


def parse(text: str, *, outside: bool = False) -> Encoding:
    """The encoding that a text names; the inverse of `describe`.

    Code from outside the package is imported only with `outside`, which is for whoever has made
    sure that it is allowed.

    >>> parse("lattice:4")
    Lattice(bits=4, scale='clipped', dither=False)
    >>> parse("ef+scalar:2")
    ErrorFeedback(inner=Scalar(bits=2, scale='clipped', dither=False))
    """
    return _parse(text, _imported if outside else _refused)


def describe(encoding: Encoding) -> str:
    """The text of an encoding; options that have their default value are left out.

    >>> describe(parse("scalar:3:clipped:dither")), describe(parse("topk:1.0"))
    ('scalar:3:dither', 'plain')
    """
    text: Any = getattr(encoding, "text", None)
    if not isinstance(text, str):
        raise RequestError(f"{encoding!r} has no text: it is not an encoding of colonnade.compress")
    return text


def outside_names(text: str) -> list[str]:
    """The code from outside that `parse` would import for a text, found without importing it.

    >>> outside_names("steps:0=mine.codecs:sparse:3,100=half:bfloat16")
    ['mine.codecs:sparse']
    """
    names: list[str] = []

    def note(name: str, words: list[str]) -> Encoding:
        names.append(name)
        return plain()

    # A mistake is told to whoever parses the text in earnest, and ends that at the same place.
    with suppress(RequestError):
        _parse(text, note)
    return names


def _parse(text: str, imported: Import, depth: int = 0) -> Encoding:
    if depth > DEPTH_MAX:
        raise RequestError(f"an encoding within {DEPTH_MAX} others: write it with fewer")

    def parse_inner(part: str) -> Encoding:
        return _parse(part, imported, depth + 1)

    text = text.strip()
    name, colon, rest = text.partition(":")
    prefix, plus, inner = name.partition("+")
    if plus:
        if prefix not in WRAPPERS:
            raise RequestError(f"nothing is called '{prefix}+': {nearest(prefix, WRAPPERS)}")
        return WRAPPERS[prefix](inner + colon + rest, parse_inner)
    if name in ENCODINGS:
        return ENCODINGS[name](rest, parse_inner)
    found, hint = _OUTSIDE.fullmatch(text), nearest(name, ENCODINGS)
    # A name that is nearly one of ours is a slip, and no module.
    if found is None or ("." not in name and hint.startswith("did")):
        raise RequestError(f"no encoding is called '{name}': {hint}")
    return imported(found["name"], [] if found["rest"] is None else found["rest"].split(":"))


def _imported(name: str, words: list[str]) -> Encoding:
    encoding = call(import_function(name, "encoding"), name, words)
    if not (hasattr(encoding, "encoder") and isinstance(getattr(encoding, "text", None), str)):
        raise JobError(
            f"{name} returned {type(encoding).__name__}: it must return an encoding, which has an "
            "encoder and a text"
        )
    if not (hasattr(encoding, "TAGS") or hasattr(encoding, "admits")):
        raise JobError(
            f"{name} returned an encoding that does not say which tags its tensors have, so that "
            "nobody could tell them from others: give it TAGS"
        )
    unread = sorted(set(getattr(encoding, "TAGS", ())) - DECODERS.keys())
    if unread:
        raise JobError(
            f"{name} writes tensors with the tag '{unread[0]}', which nobody can read: put its "
            "decoder into colonnade.compress.DECODERS"
        )
    return encoding  # type: ignore[no-any-return]


def _refused(name: str, words: list[str]) -> Encoding:
    raise RequestError(
        f"{name} is code from outside, which cannot be named here: name it for a tensor role, as "
        "in method.compress.embedding"
    )
