"""Successive halving: all settings are trained briefly, and only the best of them at length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from colonnade.errors import RequestError

T = TypeVar("T")
FACTOR = 3
EVALUATIONS_MIN = 10
"""Evaluations that a rung must have: from fewer nobody can tell whether a target is held."""
RUNGS_MAX = 3
KEPT_MIN = 2
"""Settings of a method that go on at least: the best of a short rung may not be that of a long
one."""


def check_factor(factor: int | None) -> None:
    """Refuse what nothing can be divided by; None is no halving."""
    if factor is not None and (isinstance(factor, bool) or factor < 2):
        raise RequestError(
            f"halving is {factor}: give 2 or more, as in --halving 3, or --no-halving to train "
            "everything at full length"
        )


def rungs(rounds: int, period: int, factor: int | None = FACTOR) -> list[int]:
    """How many rounds each rung trains, the last one all of them.

    Each is a whole number of evaluation periods, shorter than the next by the factor, as long as
    it has enough evaluations to judge by.

    >>> rungs(rounds=1680, period=21), rungs(rounds=4000, period=10), rungs(1680, 21, None)
    ([567, 1680], [450, 1340, 4000], [1680])
    >>> rungs(rounds=100, period=10)
    [100]
    """
    found = [rounds]
    while factor is not None and len(found) < RUNGS_MAX:
        evaluations = -(-found[0] // (factor * period))
        if evaluations < EVALUATIONS_MIN or evaluations * period >= found[0]:
            break
        found.insert(0, evaluations * period)
    return found


def survivors(ranked: Sequence[T], factor: int = FACTOR) -> list[T]:
    """Who goes on to the next rung, of one method's settings, best first: a part of them, and
    never none, so that no method is ever halved away.

    >>> survivors("abcdefghij"), survivors("abc"), survivors("a")
    (['a', 'b', 'c', 'd'], ['a', 'b'], ['a'])
    """
    return list(ranked[: max(KEPT_MIN, -(-len(ranked) // factor))])
