"""Which checkpoints a party keeps when all of them have gone back to an older one.

Whenever the parties begin, they begin an *attempt* with a name of its own, and every checkpoint is
marked with the attempt that reached it. Two parties have a checkpoint in common where round and
attempt are the same, so what two pasts left can never be mixed. Nothing has to be deleted when the
parties go back: what an earlier attempt reached stays until the present one has come as far. A
party that claims to have less than it has can make the others lose time, but nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Marks = Mapping[int, str]
"""The attempt that reached each checkpoint, by its round."""


@dataclass(frozen=True)
class Lineage:
    """Where a party stands: in which run, in which attempt, and from which round that began."""

    run: str = ""
    """Empty for a party that has taken part in none."""
    attempt: str = ""
    start: int = 0

    def retained(self, marks: Marks, saved: int, keep: int) -> set[int]:
        """The rounds to keep, when the checkpoint of the round `saved` is there and durable.

        >>> left = {10: "a", 20: "a", 30: "a", 40: "a"}
        >>> sorted(Lineage("r", "b", start=10).retained(left | {20: "b"}, saved=20, keep=2))
        [10, 20, 30, 40]
        >>> sorted(Lineage("r", "b", start=10).retained(left | {30: "b"}, saved=30, keep=2))
        [10, 30, 40]
        """
        line = [
            round
            for round, attempt in sorted(marks.items())
            if round <= self.start or (attempt == self.attempt and round <= saved)
        ]
        beyond = [
            round
            for round, attempt in sorted(marks.items())
            if round > saved and attempt != self.attempt
        ]
        return {*line[-keep:], *beyond[-keep:], saved}


def newest_common(marks: Sequence[Marks]) -> int:
    """The newest checkpoint that everybody has; 0, the beginning, where there is none.

    >>> newest_common([{20: "a", 40: "a"}, {20: "a", 40: "b"}])
    20
    >>> newest_common([{20: "a"}, {}])
    0
    """
    first, *others = marks
    common = [
        round
        for round, attempt in first.items()
        if all(other.get(round) == attempt for other in others)
    ]
    return max(common, default=0)
