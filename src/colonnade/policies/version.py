"""Axis *version*: with which weights does a reply go backward, when updates came between?"""

from __future__ import annotations

from dataclasses import dataclass


class VersionPolicy:
    """Decides whether a forward pass is made again before its backward pass."""

    def recomputes(self) -> bool:
        """Whether to go forward again with the current weights."""
        return False


@dataclass(frozen=True)
class Stash(VersionPolicy):
    """The weights that made the embedding."""


@dataclass(frozen=True)
class Recompute(VersionPolicy):
    """The current weights, at the price of one more forward pass where they are others."""

    def recomputes(self) -> bool:
        return True


def stash() -> Stash:
    """The neutral element: forward and backward of a batch see the same weights."""
    return Stash()


def recompute() -> Recompute:
    """Go forward again with the current weights before a reply goes backward."""
    return Recompute()
