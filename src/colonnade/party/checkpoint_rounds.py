"""When a party comes to rest, so that what it has can be saved: nothing is in flight then.

All parties rest at the same rounds. Those of the checkpoint interval everybody knows; one that is
ordered on the way, because a party wants to leave, the active party names far enough ahead that
nobody can have passed it.
"""

from __future__ import annotations

NEVER = 1 << 62


class CheckpointRounds:
    """The rounds to rest at.

    >>> rounds = CheckpointRounds(every=10)
    >>> rounds.order(13, leaving="telco")
    >>> rounds.next
    10
    >>> rounds.passed(), rounds.next
    ('', 13)
    >>> rounds.passed(), rounds.next
    ('telco', 20)
    """

    def __init__(self, every: int | None, start: int = 0) -> None:
        self._every = every or NEVER
        self._ordered: dict[int, str] = {}
        self._last = start
        self.next = 0
        self._look_ahead()

    def _look_ahead(self) -> None:
        periodic = (self._last // self._every + 1) * self._every
        self.next = min([periodic, *self._ordered])

    def order(self, round: int, leaving: str) -> None:
        """Rest at this round too; `leaving` is who stops there, or nobody."""
        self._ordered[round] = leaving
        self._look_ahead()

    def passed(self) -> str:
        """The rest is over; who stops there."""
        self._last = self.next
        leaving = self._ordered.pop(self.next, "")
        self._look_ahead()
        return leaving
