"""The words after an encoding's name: what the encodings' readers share."""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.errors import RequestError, nearest

DIGITS_MAX = 15


def split(rest: str) -> list[str]:
    """The words of what follows a name and its colon.

    >>> split("3:minmax"), split("")
    (['3', 'minmax'], [])
    """
    return rest.split(":") if rest else []


def options(name: str, words: list[str], known: Mapping[str, str]) -> set[str]:
    """The options of an encoding, each known and no two of them answers to one question; `known`
    has the question of each.

    >>> options("topk", ["shared"], {"shared": "shared", "magnitude": "by", "importance": "by"})
    {'shared'}
    """
    for word in words:
        if word not in known:
            raise RequestError(f"{name} has no option '{word}': {nearest(word, known)}")
    if len({known[word] for word in words}) != len(words):
        raise RequestError(f"{name}:{':'.join(words)} says one thing twice: leave one word out")
    return set(words)


def whole(example: str, word: str) -> int:
    """The integer of a word; `example` shows where such a number stands.

    >>> whole("scalar:4", "12")
    12
    """
    if not (word.isascii() and word.isdigit() and len(word) <= DIGITS_MAX):
        raise RequestError(
            f"'{word[:40]}' is not a whole number of up to {DIGITS_MAX} digits: write for example "
            f"{example}"
        )
    return int(word)
