"""Claims that experiments have in common: what an arm saves of another's costs, how many times less
it takes, and by how many points it differs. A run that misses the target fails the claim."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypedDict, Unpack

from colonnade.study.design import Claim, Cost
from colonnade.study.findings import Findings

Cell = tuple[str, str, str]
"""A rule, a setting and an arm, by their names."""


class Against(TypedDict, total=False):
    """What a claim is held against."""

    paper: float | None
    least: float | None
    than: str | None
    """Another arm, in the place of the baseline."""
    measure: Cost | None
    """Another cost than the study's own."""


def saves(text: str, cell: Cell, **against: Unpack[Against]) -> Claim:
    """The share of another arm's costs, else the baseline's, that one saves.

    >>> saves("fewer bytes", ("fair", "", "2 bits"), least=0.9).verdict(0.93)
    'reproduced'
    """
    return _compared(text, cell, Findings.saved_of_all, share_text, against)


def cheaper(text: str, cell: Cell, **against: Unpack[Against]) -> Claim:
    """How many times less an arm takes than another, else than the baseline.

    >>> cheaper("less time", ("fair", "", "Q=10"), paper=5.0).verdict(4.6)
    'reproduced'
    """
    return _compared(text, cell, Findings.times_of_all, times_text, against)


def _compared(
    text: str,
    cell: Cell,
    found_of: Callable[..., float | None],
    show: Callable[[float], str],
    against: Against,
) -> Claim:
    than, measure = against.get("than"), against.get("measure")

    def ours(found: Findings) -> float | None:
        return found_of(found, *cell, than, measure)

    return Claim(text, against.get("paper"), cell[0], ours, show, against.get("least"))


def ahead(
    text: str,
    cell: Cell,
    figure: str,
    *,
    paper: float | None = None,
    least: float | None = None,
    than: str | None = None,
) -> Claim:
    """By how many hundredths a figure such as `best` or `final` exceeds another arm's, else the
    baseline's, paired by seed; minus infinity where a run of its own has none.

    >>> ahead("accuracy", ("fair", "", "2 bits"), "final", least=-0.5).verdict(-0.7)
    'not reproduced'
    """

    def ours(found: Findings) -> float | None:
        own = found.figure(*cell, figure)
        if own.count < own.of:
            return -math.inf
        gain = found.gain(*cell, figure, than)
        return None if gain is None else 100 * gain[0]

    return Claim(text, paper, cell[0], ours, "{:+.2f}".format, least)


def share_text(share: float) -> str:
    """A share of costs that is saved, for a claim.

    >>> share_text(0.5952), share_text(-math.inf)
    ('59.5%', 'missed')
    """
    return "missed" if share == -math.inf else f"{share:.1%}"


def times_text(ratio: float) -> str:
    """How many times less, for a claim.

    >>> times_text(5.752), times_text(21.3), times_text(0)
    ('5.75×', '21.3×', 'missed')
    """
    return f"{ratio:.{2 if ratio < 10 else 1}f}×" if ratio else "missed"
