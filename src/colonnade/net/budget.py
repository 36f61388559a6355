"""How much a peer can make a party say: its log and its ledger are not for others to fill."""

from __future__ import annotations

BURST = 20
"""So many lines of one peer are told at once."""
PER_LINE_NS = 10 * 10**9
"""After that, one in so much time."""


class Budget:
    """Lines that may be told of each peer.

    >>> budget = Budget()
    >>> [budget.spend("b", now_ns=0) for _ in range(BURST + 1)][-2:]
    ['', None]
    >>> budget.spend("b", now_ns=PER_LINE_NS)
    ' (and 1 like it before that was not told)'
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[int, int]] = {}
        """What was left, in nanoseconds' worth of lines, and when."""
        self._untold: dict[str, int] = {}

    def spend(self, peer: str, now_ns: int) -> str | None:
        """What to add to the next line of a peer; None where it is not to be told."""
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
