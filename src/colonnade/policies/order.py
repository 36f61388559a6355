"""Axis *order*: when does the reply leave the active party, and at which weights is it taken?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from colonnade.errors import RequestError


class OrderPolicy:
    """Places the reply among the active party's updates; by itself first."""

    at_once = True
    """Whether replies leave with the first update, before the active party's backward."""

    @property
    def recomputes(self) -> bool:
        """Whether a late reply is taken at the updated weights, or from the last update."""
        return False


@dataclass(frozen=True)
class Parallel(OrderPolicy):
    """All parties update at the same time."""


@dataclass(frozen=True)
class Sequential(OrderPolicy):
    """The active party first, then the passives (in parallel with each other)."""

    reply: Literal["after", "last"] = "after"
    at_once = False

    @property
    def recomputes(self) -> bool:
        return self.reply == "after"


def parallel() -> Parallel:
    """The neutral element: the reply leaves with the active party's first update."""
    return Parallel()


def sequential(reply: Literal["after", "last"] = "after") -> Sequential:
    """The reply leaves after the active party's last update."""
    if reply not in ("after", "last"):
        raise RequestError(
            f"reply is '{reply}': the gradient is taken after the last update, or is that of the "
            "last one"
        )
    return Sequential(reply)
