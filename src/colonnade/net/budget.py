"""A rate limit on what a peer can make a party log, so that nobody can fill its disk."""

from __future__ import annotations

BURST = 20
"""How many lines about one peer may be logged at once."""
PER_LINE_NS = 10 * 10**9
"""After that, one line in this time."""


class Budget:
    """A token bucket for each peer.

    >>> budget = Budget()
    >>> [budget.spend("b", now_ns=0) for _ in range(BURST + 1)][-2:]
    ['', None]
    >>> budget.spend("b", now_ns=PER_LINE_NS)
    ' (and 1 like it before that was not told)'
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[int, int]] = {}
        """By peer: the tokens left, as nanoseconds, and when that was."""
        self._untold: dict[str, int] = {}

    def spend(self, peer: str, now_ns: int) -> str | None:
        """What to append to the next line about a peer; None if it must not be logged."""
        left_ns, at_ns = self._left.get(peer, (BURST * PER_LINE_NS, now_ns))
        left_ns = min(left_ns + now_ns - at_ns, BURST * PER_LINE_NS)
        if left_ns < PER_LINE_NS:
            self._left[peer] = left_ns, now_ns
            self._untold[peer] = self._untold.get(peer, 0) + 1
            return None
        self._left[peer] = left_ns - PER_LINE_NS, now_ns
        untold = self._untold.pop(peer, 0)
        were = "was" if untold == 1 else "were"
        return f" (and {untold} like it before that {were} not told)" if untold else ""
