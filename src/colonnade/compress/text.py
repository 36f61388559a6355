"""Encodings as words, for job files and the command line.

plain   half[:bfloat16]   scalar:BITS   lattice:BITS   topk:KEEP
scalar:3:minmax:dither    topk:0.25:importance         topk:8:shared
ef+ENCODING               diminishing+scalar:2         steps:0=scalar:2,100=scalar:4
"""

from __future__ import annotations

from typing import Literal

from colonnade.compress.base import Encoding, Plain, plain
from colonnade.compress.feedback import ErrorFeedback, error_feedback
from colonnade.compress.half import Half, half
from colonnade.compress.lattice import Lattice, lattice
from colonnade.compress.scalar import Scalar, scalar
from colonnade.compress.scaling import Scale
from colonnade.compress.schedule import Diminishing, Steps, diminishing, steps
from colonnade.compress.topk import TopK, topk
from colonnade.errors import RequestError, nearest

NAMES = ("plain", "half", "scalar", "lattice", "topk", "steps")
PREFIXES = ("ef", "diminishing")
DIGITS_MAX = 15


def parse(text: str) -> Encoding:
    """The encoding that a text names; the inverse of `describe`.

    >>> parse("lattice:4")
    Lattice(bits=4, scale='clipped', dither=False)
    >>> parse("ef+scalar:2") == error_feedback(scalar(2))
    True
    """
    text = text.strip()
    prefix, plus, rest = text.partition("+")
    if plus and not text.startswith("steps:"):
        if prefix == "ef":
            return error_feedback(parse(rest))
        if prefix == "diminishing":
            return _diminishing(rest)
        raise RequestError(f"nothing is called '{prefix}+': {nearest(prefix, PREFIXES)}")
    name, _, rest = text.partition(":")
    if name == "steps":
        return steps([_step(part) for part in rest.split(",")])
    words = rest.split(":") if rest else []
    if name == "plain":
        _options(name, words, {})
        return plain()
    if name == "half":
        return half("bfloat16" if "bfloat16" in _options(name, words, HALF_WORDS) else "float16")
    if name in ("scalar", "lattice"):
        return _quantiser(name, words)
    if name == "topk":
        return _topk(words)
    raise RequestError(f"no encoding is called '{name}': {nearest(name, NAMES)}")


def describe(encoding: Encoding) -> str:
    """The text of an encoding; options that have their default value are left out.

    >>> describe(scalar(3, dither=True)), describe(topk(0.25))
    ('scalar:3:dither', 'topk:0.25')
    """
    match encoding:
        case Plain():
            return "plain"
        case Half(kind):
            return "half" if kind == "float16" else f"half:{kind}"
        case Scalar(bits, scale, dither) | Lattice(bits, scale, dither):
            name = "scalar" if isinstance(encoding, Scalar) else "lattice"
            words = [scale] * (scale != "clipped") + ["dither"] * dither
            return ":".join([name, str(bits), *words])
        case TopK(keep, by, shared):
            words = [by] if by == "importance" else ["shared"] * shared
            return ":".join(["topk", repr(keep), *words])
        case ErrorFeedback(inner):
            return f"ef+{describe(inner)}"
        case Diminishing(first):
            return f"diminishing+{describe(first)}"
        case Steps(parts):
            return "steps:" + ",".join(f"{start}={describe(part)}" for start, part in parts)
    raise RequestError(f"{encoding!r} has no text: it is not an encoding of colonnade.compress")


HALF_WORDS = {"float16": "kind", "bfloat16": "kind"}
QUANTISER_WORDS = {"minmax": "scale", "clipped": "scale", "dither": "dither"}
TOPK_WORDS = {"magnitude": "by", "importance": "by", "shared": "shared"}


def _options(name: str, words: list[str], known: dict[str, str]) -> set[str]:
    """The words after a name, each known and no two of them answers to one question."""
    for word in words:
        if word not in known:
            raise RequestError(f"{name} has no option '{word}': {nearest(word, known)}")
    if len({known[word] for word in words}) != len(words):
        raise RequestError(f"{name}:{':'.join(words)} says one thing twice: leave one word out")
    return set(words)


def _whole(name: str, word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) <= DIGITS_MAX):
        raise RequestError(
            f"'{word[:40]}' is not a whole number of up to {DIGITS_MAX} digits: write for example "
            f"{name}"
        )
    return int(word)


def _quantiser(name: str, words: list[str]) -> Scalar | Lattice:
    bits = _whole(f"{name}:4", words[0] if words else "")
    options = _options(name, words[1:], QUANTISER_WORDS)
    scale: Scale = "minmax" if "minmax" in options else "clipped"
    dither = "dither" in options
    return scalar(bits, scale, dither) if name == "scalar" else lattice(bits, scale, dither)


def _topk(words: list[str]) -> Encoding:
    keep = words[0] if words else ""
    options = _options("topk", words[1:], TOPK_WORDS)
    by: Literal["magnitude", "importance"] = (
        "importance" if "importance" in options else "magnitude"
    )
    try:
        number = float(keep)
    except ValueError:
        raise RequestError(
            f"'{keep}' is no number of columns: write for example topk:0.25 or topk:16"
        ) from None
    return topk(_whole("topk:16", keep) if keep.isdigit() else number, by, "shared" in options)


def _diminishing(text: str) -> Encoding:
    name, _, rest = text.partition(":")
    if name not in ("scalar", "lattice"):
        raise RequestError(
            f"'{text}' cannot be diminishing: write for example diminishing+scalar:2"
        )
    first = _quantiser(name, rest.split(":"))
    if isinstance(first, Scalar):
        return diminishing(scalar, first.bits, first.scale, first.dither)
    return diminishing(lattice, first.bits, first.scale, first.dither)


def _step(text: str) -> tuple[int, Encoding]:
    start, equals, encoding = text.partition("=")
    if not equals:
        raise RequestError(f"'{text}' is no step: write for example steps:0=scalar:2,100=scalar:4")
    return _whole("steps:0=scalar:2,100=scalar:4", start), parse(encoding)
