"""What a policy may look at: a party's own view of its training.

All state of a party that decisions rest on is here, so policies can be pure functions of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from colonnade.packed import LongList


class Role(IntEnum):
    """Which of the two programs a party runs."""

    ACTIVE = 0
    PASSIVE = 1


class Exchange(msgspec.Struct):
    """One mini-batch as a party remembers it."""

    round: int
    rows: NDArray[np.int64]
    """The rows of the batch."""
    forward: Any = None
    """The party's own forward pass that made its embedding, for the fresh update."""
    gradient: Any = None
    """At a passive party: the gradient of the loss by its embedding, where it is given that."""
    others: Any = None
    """What the other parties contributed: at the active party their embeddings; at a passive one
    that is given a snapshot, their embeddings and the top model."""
    answer: Any = None
    """At the active party: the derivatives it replied with."""
    packed: Any = None
    """At the active party: the embeddings as they crossed the wire, by party."""
    replied_ns: int = 0
    """When the reply came."""
    forward_ns: int = 0
    """How long the party's own forward pass took."""
    completes: int | None = None
    """At the active party: the round of the job that its aggregation completes, if any."""
    updates: int = 0
    """Updates done on this exchange, the fresh one included."""
    agreed: int = 1
    """How many were agreed on when the fresh one was done."""
    sampled: int | None = None
    """How many local updates came before its last one; None before its first."""
    updates_then: int = 0
    """At a passive party: all updates done when its embedding was made."""


Action = tuple[int, str, int]
"""When, what (`send`, `aggregate`, `reply`, `again`, `fresh`, `local`), and on which round's
exchange; `again` is a forward pass at the present weights, which the next `fresh` goes through."""
Effort = tuple[int, float]
"""How many updates, and with which learning rate."""
MOST_MAX = 1_000
"""The most exchanges in flight: for each a passive party keeps a copy of its weights."""
PROBE_BYTES_MAX = 8192
"""The longest message that only measures a line."""
PACK_EVERY = 256
"""Fresh updates between two occasions on which the long lists are packed."""
ACTION, EFFORT = "qsq", "qd"
"""Their fields, for a `LongList`."""


@dataclass(slots=True)
class Window:
    """How many exchanges a party may have in flight, and what it was before the last signal."""

    size: int = 1
    previous: int = 1


@dataclass(slots=True)
class Spare:
    """At a passive party: whether it has time for more than it must do."""

    again: bool = False
    """Whether it goes forward again for stale replies."""
    since: int = 0
    """Fresh updates when it was last judged."""
    idle_ns: int = 0
    """For how long the party had idled until then."""
    until: int = 0
    """Fresh updates after which it is judged again."""


@dataclass(slots=True)
class Path:
    """At the active party: what it has measured of how fast rounds follow each other."""

    phase: str = "start"
    way_ns: int = 0
    """The shortest round with one exchange in flight; 0 before there was one."""
    ways: dict[str, float] = field(default_factory=dict)
    """How much of such a round each party's own exchange takes, without waiting for others."""
    rate: float = 0.0
    """Rounds a nanosecond, before the windows were last changed to see what that brings."""
    slower: int = 0
    """Measurements on end in which rounds came slower than that."""
    trips: int = 0
    """Measurements since the window was first full."""
    since: int = 0
    """The present measurement begins with this round, the first with full windows."""
    until: int = 4
    """It ends with this one."""
    began_ns: int = 0
    round_ns: int = 0
    """When the last round was aggregated."""
    waited_least: dict[str, int] = field(default_factory=dict)
    """The shortest time that an embedding of each party has waited in it for those of others."""
    waited_most: dict[str, int] = field(default_factory=dict)
    windows: dict[str, int] = field(default_factory=dict)
    """Everybody's window."""
    before: dict[str, int] = field(default_factory=dict)
    """What they were before the last trial."""
    trials: int = 0
    """How many times one party's window was made smaller until that did not pay."""


@dataclass(slots=True)
class View:
    """A party's state, as far as decisions rest on it."""

    role: Role
    rounds: int
    """Batches of the whole job."""
    per_epoch: int
    parties: int
    """How many parties hold a part of the model: K in the papers."""
    per_round: int = 1
    """Fresh updates that make a round; more than one where each answers a single party."""
    now_ns: int = 0
    round: int = 0
    """The next round to aggregate (active) or to use a reply of (passive)."""
    sent: int = 0
    """Embeddings sent; the next batch to send."""
    replies: int = 0
    """Replies that are here and not used yet."""
    fresh: int = 0
    """Fresh updates done."""
    local: int = 0
    """Local updates done."""
    finished_ns: int = 0
    """When the last update was done."""
    actions: LongList[Action] = field(default_factory=partial(LongList, ACTION))
    """Everything the party did that its weights or messages depend on, in order."""
    update_ns: int = 0
    """How long the last update took, its forward pass included; 0 while none is known."""
    forward_ns: int = 0
    """How long the last forward pass took; 0 while none is known."""
    backward_ns: int = 0
    """How long the last backward pass took, with its step."""
    idle_ns: int = 0
    """At a passive party: for how long it has waited for messages."""
    spare: Spare = field(default_factory=Spare)
    aggregate_ns: int = 0
    """At the active party: how long the last aggregation took."""
    top_ns: int = 0
    """At the active party: how much of a local update is the pass through the top model, going by
    the last one; a fresh update has it from the aggregation."""
    efforts: LongList[Effort] = field(default_factory=partial(LongList, EFFORT))
    """Updates from each fresh one up to the next, and the learning rate they began with."""
    agreed: int = 1
    """How many updates on an exchange the parties have agreed on, where they do."""
    reported: dict[str, int] = field(default_factory=dict)
    """At the active party: how many updates each party with columns could do in the time given."""
    locals_since_fresh: int = 0
    """Local updates since the last fresh one."""
    sent_since_fresh: bool = False
    """Whether a batch was sent since the last fresh update, beyond those of the refill."""
    in_flight_max: int = 0
    """The most exchanges that were ever in flight."""
    window: Window = field(default_factory=Window)
    room: int = MOST_MAX
    """How many exchanges in flight fit into the party's memory."""
    staleness: int = 0
    """Own updates between the embedding and the use of the last reply."""
    kept: deque[Exchange] = field(default_factory=deque)
    """Exchanges that local updates may use, oldest first."""
    arrived: dict[str, int] = field(default_factory=dict)
    """At the active party: the newest round whose embedding each passive party has sent."""
    answered: dict[str, int] = field(default_factory=dict)
    """At the active party: the newest round of each passive party that has its reply."""
    waiting: Collection[tuple[str, int]] = ()
    """At the active party: whose embedding of which round is here and not used, oldest first."""
    came_ns: dict[tuple[str, int], int] = field(default_factory=dict)
    """At the active party: when embeddings came that are not used, where the window asks."""
    path: Path = field(default_factory=Path)
    signals: dict[str, int] = field(default_factory=dict)
    """At the active party: the control signal that goes with the next reply to each passive."""
    signalled: int = -1
    """At the active party: the last round whose signals were settled while it idled."""

    def meet(self, peers: Collection[str]) -> None:
        """At the active party: these are the passive parties, and nothing has come yet."""
        self.arrived = dict.fromkeys(peers, -1)
        self.answered = dict.fromkeys(peers, -1)
        self.signals = dict.fromkeys(peers, 0)
        self.reported = dict.fromkeys(peers, 1)

    @property
    def in_flight(self) -> int:
        """Exchanges sent whose reply was not used yet."""
        return self.sent - self.round

    @property
    def updates(self) -> int:
        """Updates done, fresh and local."""
        return self.fresh + self.local

    @property
    def completing(self) -> int | None:
        """The round that the next fresh update completes; None where it takes more than one."""
        if self.per_round == 1:
            return self.fresh
        round, missing = divmod(self.fresh + 1, self.per_round)
        return None if missing else round - 1

    def remember(
        self, exchange: Exchange, keep: int, began_ns: int, now_ns: int, rate: float
    ) -> None:
        """The fresh update on an exchange is done; local updates may use it from now on."""
        self.fresh += 1
        self.round = self.fresh // self.per_round
        own_ns = exchange.forward_ns + now_ns - began_ns
        self.update_ns = own_ns + self.top_ns or self.update_ns
        self.finished_ns = now_ns
        self.efforts.append((1, rate))
        self.actions.append((now_ns, "fresh", exchange.round))
        self.locals_since_fresh = 0
        self.sent_since_fresh = False
        exchange.updates, exchange.agreed = 1, self.agreed
        self.kept.append(exchange)
        if len(self.kept) > keep:
            self.kept.popleft()
        if not self.fresh % PACK_EVERY:
            self.efforts.pack()
            self.actions.pack()

    def updated(self, exchange: Exchange, began_ns: int, now_ns: int) -> None:
        """A local update on an exchange is done."""
        exchange.sampled = self.local
        self.local += 1
        self.locals_since_fresh += 1
        self.actions.append((now_ns, "local", exchange.round))
        self.update_ns = now_ns - began_ns
        updates, rate = self.efforts[-1]
        self.efforts[-1] = (updates + 1, rate)
        self.finished_ns = now_ns
        exchange.updates += 1

    @property
    def epoch(self) -> int:
        """Finished epochs, by the party's own rounds."""
        return self.round // self.per_epoch
