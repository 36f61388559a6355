"""The count of what crossed: messages and encoded bytes, by peer, direction and kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from colonnade.wire.messages import MESSAGES, Message, Purpose

Direction = Literal["sent", "received"]
_PURPOSE_OF: dict[str, Purpose] = {
    message.__name__: message.PURPOSE for message in MESSAGES.values()
}


class Entry(TypedDict):
    """One row of a ledger."""

    peer: str
    direction: Direction
    kind: str
    purpose: Purpose
    messages: int
    bytes: int


class Ledger:
    """One party's count.

    >>> from colonnade.wire.messages import Failure
    >>> ledger = Ledger()
    >>> ledger.count("telco", "sent", Failure, 40)
    >>> ledger.training_bytes("sent"), ledger.training_bytes("received")
    (40, 0)
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Direction, str], list[int]] = {}
        self._training: dict[str, list[list[int]]] = {"sent": [], "received": []}
        """Those of them that make the training: they are added up in every round."""
        self._last_size = 0

    def count(self, peer: str, direction: Direction, kind: type[Message], size: int) -> None:
        """Add one message of `size` encoded bytes."""
        key = (peer, direction, kind.__name__)
        try:
            tally = self._counts[key]
        except KeyError:
            tally = self._counts[key] = [0, 0]
            self._sort_out()
        tally[0] += 1
        tally[1] += size
        self._last_size = size

    def copy(self) -> Ledger:
        """The same counts."""
        other = Ledger()
        other._counts = {key: list(tally) for key, tally in self._counts.items()}
        other._sort_out()
        return other

    def before(self, peer: str, kind: type[Message]) -> Ledger:
        """The counts before the last message, which came from this peer and was of this kind."""
        other = self.copy()
        tally = other._counts[peer, "received", kind.__name__]
        tally[0] -= 1
        tally[1] -= self._last_size
        return other

    def take(self, other: Ledger, peer: str | None = None) -> None:
        """Count what the other has counted, of all peers or of one, and nothing else of them."""
        mine = self._counts if peer is not None else {}
        kept = {key: tally for key, tally in mine.items() if key[0] != peer}
        theirs = {k: list(t) for k, t in other._counts.items() if peer in (None, k[0])}
        self._counts = kept | theirs
        self._sort_out()

    def _sort_out(self) -> None:
        self._training = {"sent": [], "received": []}
        for (_, way, kind), tally in self._counts.items():
            if _PURPOSE_OF.get(kind, "control") in ("training", "control"):
                self._training[way].append(tally)

    @classmethod
    def of(cls, entries: list[Entry]) -> Ledger:
        """The ledger of some rows; the inverse of `entries`."""
        ledger = cls()
        ledger._counts = {
            (row["peer"], row["direction"], row["kind"]): [row["messages"], row["bytes"]]
            for row in entries
        }
        ledger._sort_out()
        return ledger

    def training_bytes(self, direction: Direction) -> int:
        """Bytes of all that makes the training, or starts and ends it."""
        total = 0
        for tally in self._training[direction]:
            total += tally[1]
        return total

    def all_bytes(self, direction: Direction) -> int:
        """Bytes of all messages."""
        return sum(tally[1] for (_, way, _), tally in self._counts.items() if way == direction)

    def entries(self) -> list[Entry]:
        """All rows, in a fixed order."""
        return entries_of(self._counts)


def entries_of(counts: Mapping[tuple[str, Direction, str], Sequence[int]]) -> list[Entry]:
    """Messages and bytes by peer, direction and kind as rows of a ledger, in a fixed order.

    >>> entries_of({("bank", "sent", "Finish"): (1, 40)})[0]["purpose"]
    'control'
    """
    return [
        Entry(
            peer=peer,
            direction=way,
            kind=kind,
            # The chain of a file may name any kind.
            purpose=_PURPOSE_OF.get(kind, "control"),
            messages=messages,
            bytes=size,
        )
        for (peer, way, kind), (messages, size) in sorted(counts.items())
        if messages
    ]
