"""The ledger of a party that never ends: messages are counted many at a time.

A line for each of hundreds of messages a second would fill a disk. So a line is written for many
messages *before* they cross: it says how many may, and of how many bytes together. Only when they
are used up the next one is written, for twice as many if that was soon. So the ledger never says
less than what has crossed, whenever the process ends; when it ends in order, a last line for each
kind takes back what was not used, and the sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.record.chain import Chain, Key, Verified
from colonnade.units import NS_PER
from colonnade.wire.ledger import Direction

SOON_NS, SELDOM_NS = 10 * NS_PER["s"], 60 * NS_PER["s"]
"""What is used up within the one is doubled; where it lasts for the other, messages have a line
each."""
AT_ONCE_MAX = 65_536
"""The most messages of one line."""


@dataclass(slots=True)
class Ahead:
    """What the ledger says of one kind of message, beyond what has crossed."""

    messages: int = 0
    bytes: int = 0
    at_once: int = 1
    """How many messages the last line was for."""
    written_ns: int = -(10**18)


def _at_once(before: int, lasted_ns: int) -> int:
    if lasted_ns < SOON_NS:
        return min(2 * before, AT_ONCE_MAX)
    return before if lasted_ns < SELDOM_NS else 1


class TalliedChain(Chain):
    """A chain with a line for many messages.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from colonnade.record.chain import verify
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chain = TalliedChain.open(Path(folder) / "chain", "telco", "job", 0)
    ...     for _ in range(1000):
    ...         chain.message(0, "sent", "bank", "Answer", -1, 90)
    ...     chain.close()
    ...     found = verify(Path(folder) / "chain")
    >>> found.totals, found.entries < 20
    ({('bank', 'sent', 'Answer'): (1000, 90000)}, True)
    """

    def __init__(self, found: Verified, file: int) -> None:
        super().__init__(found, file)
        self._ahead: dict[Key, Ahead] = {}
        self._last_ns = 0

    def message(
        self, now_ns: int, direction: Direction, peer: str, kind: str, round: int, size: int
    ) -> None:
        """Count a message, which the ledger knows of before it crosses."""
        key: Key = direction, peer, kind
        ahead = self._ahead.setdefault(key, Ahead())
        if ahead.messages < 1 or ahead.bytes < size:
            ahead.at_once = _at_once(ahead.at_once, now_ns - ahead.written_ns)
            ahead.written_ns = now_ns
            self._add(now_ns, key, -1, ahead.at_once, ahead.at_once * size)
            ahead.messages += ahead.at_once
            ahead.bytes += ahead.at_once * size
        ahead.messages -= 1
        ahead.bytes -= size
        self._last_ns = now_ns

    def close(self) -> None:
        """Take back what was not used, and close the file."""
        if self._file >= 0:
            for key, ahead in self._ahead.items():
                if ahead.messages or ahead.bytes:
                    self._add(self._last_ns, key, -1, -ahead.messages, -ahead.bytes)
            self._ahead.clear()
        super().close()
