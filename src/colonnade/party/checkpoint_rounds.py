"""The rounds after which a party saves its state: nothing is in flight then.

They are the same at all parties. Everybody knows those of the checkpoint interval. One that is
added on the way, because a party wants to leave, is named by the active party far enough ahead
that nobody can have passed it.
"""

from __future__ import annotations

NEVER = 1 << 62


class CheckpointRounds:
    """Which round is the next to save after.

    >>> rounds = CheckpointRounds(every=10)
    >>> rounds.add(13, leaving="telco")
    >>> rounds.next
    10
    >>> rounds.advance(), rounds.next
    ('', 13)
    >>> rounds.advance(), rounds.next
    ('telco', 20)
    """

    def __init__(self, every: int | None, start: int = 0) -> None:
        self._every = every or NEVER
        self._added: dict[int, str] = {}
        self._last = start
        self.next = 0
        self._find_next()

    def _find_next(self) -> None:
        periodic = (self._last // self._every + 1) * self._every
        self.next = min([periodic, *self._added])

    def add(self, round: int, leaving: str) -> None:
        """Save after this round too; `leaving` is who stops there, or nobody."""
        self._added[round] = leaving
        self._find_next()

    def advance(self) -> str:
        """The state is saved: on to the next; who stops here."""
        self._last = self.next
        leaving = self._added.pop(self.next, "")
        self._find_next()
        return leaving
