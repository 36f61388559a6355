"""When messages left: each is queued by the program, and taken by the transport some time later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from colonnade.net.session import Session


class Sent(NamedTuple):
    """A message on its way out."""

    peer: str
    kind: str
    round: int
    size: int
    queued_ns: int


class Sends:
    """Follows what is queued until the transport has it.

    Writers tell of frames while the program may be computing in a thread of its own, so what they
    tell is kept here until the program is back and notes it in its timeline.

    >>> sends, session = Sends(lambda: 9), Session(1)
    >>> session.put(bytearray(b"embedding"))
    >>> sends.queued(session, Sent("bank", "Embedding", 0, 9, queued_ns=5))
    >>> list(sends.taken())
    []
    >>> sends.written("bank", session, 0)
    >>> [(sent.queued_ns, until_ns) for sent, until_ns in sends.taken()]
    [(5, 9)]
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._queued: dict[str, deque[tuple[Session, int, Sent]]] = {}
        self._taken: deque[tuple[Sent, int]] = deque()

    def queued(self, session: Session, sent: Sent) -> None:
        """The newest frame of a session is this message."""
        waiting = self._queued.setdefault(sent.peer, deque())
        waiting.append((session, session.newest, sent))

    def written(self, peer: str, session: Session, number: int) -> None:
        """The transport has a frame, and so all before it. One that is sent again after a
        reconnection was noted the first time."""
        waiting, now_ns = self._queued.get(peer), self._now()
        while waiting and waiting[0][0] is session and waiting[0][1] <= number:
            self._taken.append((waiting.popleft()[2], now_ns))

    def settle(self) -> None:
        """Nobody waits for the transport any longer: what is still queued is noted as of now."""
        now_ns = self._now()
        for waiting in self._queued.values():
            while waiting:
                self._taken.append((waiting.popleft()[2], now_ns))

    def taken(self) -> Iterator[tuple[Sent, int]]:
        """What left since this was last asked, and until when it took."""
        while self._taken:
            yield self._taken.popleft()
