"""The only door between a party program and the outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Protocol, TypeVar

from colonnade.errors import BreachError
from colonnade.record.events import Event
from colonnade.wire.ledger import Ledger
from colonnade.wire.messages import Message

T = TypeVar("T")


class Work(IntEnum):
    """The kinds of work that a world is told apart."""

    FORWARD = 0
    BACKWARD = 1
    AGGREGATE = 2
    TOP = 3
    ENCODE = 4
    """Writing a tensor as it crosses the wire."""
    DECODE = 5
    """Reading one."""
    LOCAL_FORWARD = 6
    """Those of a local update, which cost as much as those of a fresh one."""
    LOCAL_BACKWARD = 7
    EVALUATE = 8
    """Embeddings of held-out rows, scores, and the copies of weights that they need."""
    SAVE = 9
    """Checkpoints and results, written and read, and the models that they are put into."""
    ALIGN = 10
    """Ids, under blinds and keys."""
    SCORE = 11
    """Embeddings and scores of rows after the training."""


FORWARD, BACKWARD, AGGREGATE = Work.FORWARD, Work.BACKWARD, Work.AGGREGATE
ENCODE, DECODE = Work.ENCODE, Work.DECODE
LOCAL_FORWARD, LOCAL_BACKWARD = Work.LOCAL_FORWARD, Work.LOCAL_BACKWARD
"""Those of every round, for the loops: Python 3.11 takes long to find a member in its class."""
_OTHERWISE = {LOCAL_FORWARD: "local", LOCAL_BACKWARD: "local", Work.SAVE: "checkpoint"}
NAMES = tuple(_OTHERWISE.get(kind, kind.name.lower()) for kind in Work)
"""By kind, what the timeline calls it."""
UNCHARGED = frozenset({Work.EVALUATE, Work.SAVE, Work.ALIGN, Work.SCORE})
"""What is no part of the training: it costs no virtual time."""
COSTS = {
    FORWARD: "forward",
    BACKWARD: "backward",
    AGGREGATE: "aggregate",
    Work.TOP: "top",
    ENCODE: "codec",
    DECODE: "codec",
    LOCAL_FORWARD: "forward",
    LOCAL_BACKWARD: "backward",
}
"""By kind that is charged, the field of a job's costs that says how much."""
LONG = UNCHARGED - {Work.SCORE}
"""What may take as long as it likes without keeping the party from being heard."""


class Regrouped(Exception):  # noqa: N818 - not an error: the parties go on together
    """A party has started again, so all begin again from a checkpoint; the text says who."""


class Over(Exception):  # noqa: N818 - not an error
    """The job was ended by the others while this party was away; its results are in its files."""


class World(Protocol):
    """What a party sees of the outside: a clock, messages, and a place to compute."""

    me: str
    peers: tuple[str, ...]
    ledger: Ledger
    stopping: str | None
    """Why somebody wants this party to stop at the next occasion; None as long as nobody does."""

    def now(self) -> int:
        """Nanoseconds since the job began."""

    def tell(self, event: Event) -> None:
        """Something happened at this party: tell whoever has subscribed."""

    def token(self) -> str:
        """A name that nobody has had before: 32 hexadecimal digits."""

    async def begin(self) -> None:
        """Begin, or begin again after `Regrouped`: nothing that was sent before still counts."""

    async def part(self) -> None:
        """Everything is done: stay until everybody else is done too, in case they need us."""

    async def sleep(self, ns: int) -> None:
        """Let time pass."""

    async def send(self, to: str, message: Message) -> None:
        """Queue a message; waits while the queue to that peer is full, and takes in meanwhile.

        Raises `Regrouped`, as does `receive`, when the parties have to begin again.
        """

    async def receive(
        self, until: int | None = None, waiting_for: Callable[[], str] | None = None
    ) -> tuple[str, Message] | None:
        """The next message and its sender; None when the instant `until` came first, or somebody
        has called `interrupt`.

        `waiting_for` tells a person what is awaited; it is called only when somebody asks.
        """

    def interrupt(self) -> None:
        """Let a `receive` that waits, or the next one that would, return None: there is something
        else for the program to look at."""

    def refused(self, peer: str, reason: str) -> None:
        """A party does not fit the job and was told so; it may come again."""

    def agree(self, start: int) -> None:
        """All parties mean the same job and go on from the same checkpoint, or from the beginning
        (0): until they begin again, nobody can be spared."""

    def expel(self, breach: BreachError) -> None:
        """A party sent what it may not send. A passive one over the network is refused, and all
        begin again, with it or another process of its name; else this raises the breach."""

    def pending(self) -> int:
        """How many messages can be received without waiting."""

    def compute(self, work: Callable[[], T], kind: Work, round: int = -1) -> Awaitable[T]:
        """Do the work and charge the party's time for it, unless it is `UNCHARGED`.

        `round` is the one that it is for, for the timeline; -1 for none."""

    def off_clock(self, in_order: bool = False) -> AbstractContextManager[None]:
        """Inside, work, messages and waiting are not charged: for what only measures the training.

        With `in_order` a message still comes after those that were sent before it."""
