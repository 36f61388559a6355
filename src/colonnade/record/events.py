"""What happens in a job: typed values, told by every party as it happens, in either world.

Whoever wants to know subscribes with a function of an event: the history of a run, progress bars,
the log of a party, the display of `launch`. A program tells its world, and knows of nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import msgspec


class Event(msgspec.Struct, frozen=True, tag=True):
    """Something that happened at a party."""

    party: str
    time_ns: int
    """By the party's own clock, since the job began; virtual in a simulation."""

    recorded: ClassVar[bool] = False
    """Whether it belongs into the party's ledger on disk."""

    def sentence(self) -> str | None:
        """As a line of a log; None for what is no line of its own."""
        return None


Quantiles = tuple[float, float, float]
"""At 10, 50 and 90 %."""


class RoundDone(Event, frozen=True):
    """The active party has aggregated a round; a passive party has used the reply of one of its
    rounds."""

    round: int
    """Counted from 0."""
    rounds: int
    """Of how many."""
    loss: float | None = None
    """Known to the active party only."""
    window: int = 1
    """How many exchanges the party may have in flight."""
    in_flight: int = 0
    """How many it had when it used the reply, this one included; at the active party, how many
    embeddings wait for a later round."""
    staleness: int = 0
    """Own updates between the embedding and the use of its reply."""
    updates: int = 1
    """Updates on this exchange so far: the fresh one."""
    local: int = 0
    """Local updates so far, in all."""
    fresh: int = 0
    """Fresh updates so far, in all."""
    bytes_up: int = 0
    """Training bytes so far, from this party to the active one; at the active party from all."""
    bytes_down: int = 0
    """And in the other direction."""
    sent_ns: int = 0
    """When the embedding was sent; at the active party, when it began to aggregate."""
    replied_ns: int = 0
    """When the reply was taken in; at the active party, when it had aggregated."""
    weights: Quantiles | None = None
    """Where the update weighed its rows: the quantiles of the weights at 10, 50 and 90 %."""


class LocalDone(Event, frozen=True):
    """The party has done a local update."""

    round: int
    """On whose exchange, counted from 0."""
    updates: int
    """Updates on this exchange so far, the fresh one included."""
    local: int
    """Local updates so far, in all."""
    weights: Quantiles | None = None


class Evaluated(Event, frozen=True):
    """The active party has scored a round on the rows that are held out."""

    round: int
    measured: Mapping[str, float]
    best: bool
    """Whether no round was better so far."""
    bytes_up: int
    """Training bytes received up to this round's reply."""
    bytes_down: int
    """Training bytes sent up to this round's reply."""

    def sentence(self) -> str:
        return f"round {self.round + 1}, {figures(self.measured)}"


class Tested(Event, frozen=True):
    """The weights of the best round were tried on the test rows, once, at the end."""

    round: int
    """The best round."""
    measured: Mapping[str, float]

    def sentence(self) -> str:
        weights = f"test rows, with the weights of round {self.round + 1}"
        return f"{weights}, {figures(self.measured)}"


class Measured(msgspec.Struct, frozen=True):
    """What a calibration has measured of a party, and chosen for it; None where there is nothing to
    measure or to choose."""

    party: str
    forward_ns: int
    backward_ns: int
    aggregate_ns: int | None = None
    latency_ns: int | None = None
    """One-way."""
    jitter_ns: int | None = None
    up_bits: int | None = None
    """A second, from the party; None where no limit shows."""
    down_bits: int | None = None
    window: int | None = None
    embedding_bits: int | None = None
    """Of a component; 32 stands for the tensor as it is."""
    gradient_bits: int | None = None


class Calibrated(Event, frozen=True):
    """The active party has measured speeds and lines, and chosen what the method leaves open."""

    recorded: ClassVar[bool] = True
    round: int
    """How many rounds were done."""
    parties: tuple[Measured, ...]
    round_ns: int
    """What it expects: from one round to the next."""
    bytes_up: int
    """In a round, of all passive parties."""
    bytes_down: int

    def sentence(self) -> str:
        chosen = "; ".join(
            f"{each.party} {', '.join(words)}" for each in self.parties if (words := _words(each))
        )
        return f"{measured_when(self.round)}; {chosen or 'there was nothing to choose'}"


def measured_when(rounds: int) -> str:
    """When links and speeds were measured.

    >>> measured_when(0), measured_when(40)
    ('measured before the first round', 'measured after round 40')
    """
    return f"measured after round {rounds}" if rounds else "measured before the first round"


def _words(measured: Measured) -> list[str]:
    """What was chosen for a party."""
    found = [] if measured.window is None else [f"{measured.window} in flight"]
    for role, bits in (("up", measured.embedding_bits), ("down", measured.gradient_bits)):
        if bits is not None:
            found.append(f"{bits} bits {role}")
    return found


def figures(measured: Mapping[str, float]) -> str:
    """What was measured, in one line.

    >>> figures({"auc": 0.91234, "test_loss": 0.5})
    'auc 0.9123, test_loss 0.5000'
    """
    return ", ".join(f"{name} {value:.4f}" for name, value in measured.items())


def is_metric(name: str) -> bool:
    """Whether a measured figure is a metric, and no loss beside it.

    >>> is_metric("auc"), is_metric("validation_loss"), is_metric("log_loss")
    (True, False, True)
    """
    return name == "log_loss" or not name.endswith("_loss")


class RowsScored(Event, frozen=True):
    """More rows were scored, by the active party, or answered for, by a passive one."""

    done: int
    """How many so far."""
    rows: int = 0
    """Of how many; 0 where the party does not know."""

    def progress(self) -> str:
        """How far the party is.

        >>> RowsScored("bank", 0, 4096, 10_000).progress()
        '4,096 of 10,000 rows'
        """
        return f"{self.done:,} of {self.rows:,} rows" if self.rows else f"{self.done:,} rows"


class Notice(Event, frozen=True):
    """Something that a person should know, in words."""

    text: str

    def sentence(self) -> str:
        return self.text


class Recorded(Notice, frozen=True):
    """A notice that belongs into the ledger."""

    recorded: ClassVar[bool] = True


class Started(Event, frozen=True):
    """The party's process has begun, for the first time or again."""

    recorded: ClassVar[bool] = True
    again: bool = False

    def sentence(self) -> str:
        return f"{self.party} starts"


class Listening(Event, frozen=True):
    """The active party takes connections."""

    place: str

    def sentence(self) -> str:
        return f"listens at {self.place}"


class TakesPart(Event, frozen=True):
    """All parties have met, and this one takes part in their run."""

    recorded: ClassVar[bool] = True
    run: str

    def sentence(self) -> str:
        return f"takes part in the run {self.run}"


class Connected(Event, frozen=True):
    """There is a connection with a peer."""

    peer: str
    more: str = ""
    """That more of the kind will not be told one by one, where there is too much of it."""

    def sentence(self) -> str:
        return f"connected with {self.peer}{self.more}"


class Disconnected(Event, frozen=True):
    """The connection with a peer is gone."""

    peer: str
    cause: str = ""
    more: str = ""

    def sentence(self) -> str:
        how = f"broke: {self.cause}" if self.cause else "is lost"
        return f"the connection with {self.peer} {how}{self.more}"


class PeerEnded(Event, frozen=True):
    """The process of a peer has ended before the job did."""

    recorded: ClassVar[bool] = True
    peer: str
    reason: str
    more: str = ""


class PeerLeft(PeerEnded, frozen=True):
    """A peer has stopped as planned."""

    def sentence(self) -> str:
        return f"{self.peer} left: {self.reason}{self.more}"


class PeerFailed(PeerEnded, frozen=True):
    """A peer has failed before anything depended on it."""

    def sentence(self) -> str:
        may = "failed before the first round, and may come again"
        return f"{self.peer} {may}: {self.reason}{self.more}"


class Refused(Event, frozen=True):
    """A peer, or somebody who claims to be one, was refused."""

    recorded: ClassVar[bool] = True
    peer: str
    reason: str
    times: int = 1
    """How often by now."""

    def sentence(self) -> str:
        often = f" ({self.times} times by now)" if self.times > 1 else ""
        return f"refused {self.peer}{often}: {self.reason}"


class Waiting(Event, frozen=True):
    """The party waits: for whom, since when, and until when; None when that has come."""

    what: str | None
    peer: str = ""
    """The one that is waited for most."""
    waited_ns: int = 0
    """For how long already."""

    def sentence(self) -> str | None:
        return self.what


class Resumed(Event, frozen=True):
    """The parties go on from a checkpoint, or from the beginning (0)."""

    recorded: ClassVar[bool] = True
    round: int

    def sentence(self) -> str:
        where = f"the end of round {self.round}" if self.round else "the beginning"
        return f"goes on from {where}"


class Saved(Event, frozen=True):
    """A checkpoint is on disk."""

    recorded: ClassVar[bool] = True
    round: int

    def sentence(self) -> str:
        return f"saved the checkpoint of round {self.round}"


class Finished(Event, frozen=True):
    """The job is over for this party, and its result is kept."""

    recorded: ClassVar[bool] = True
    reason: str
    """`end`, `target`, `patience` or `diverged`; `aligned` or `answered` of what is no training;
    `done`, where the result had been kept before."""
    detail: str = ""

    def sentence(self) -> str:
        reason = ENDS.get(self.reason, self.reason)
        return f"ends: {reason}{self.detail and ', '}{self.detail}"


ENDS = {
    "end": "all rounds are done",
    "target": "the target is reached",
    "aligned": "the common rows are found",
    "answered": "all rows are answered for",
}
"""How a job may end well, in words."""


class Aborted(Event, frozen=True):
    """The party's process ends at once, because somebody insists."""

    reason: str

    def sentence(self) -> str:
        return f"ends at once: {self.reason}"


class Worked(Event, frozen=True):
    """The party has done a piece of work, which began at `time_ns`."""

    kind: str
    """As in the timeline: `forward`, `backward`, `aggregate`, …"""
    ended_ns: int
    round: int = -1
    """For which round, counted from 0; -1 for none."""


class Waited(Worked, frozen=True):
    """The party has waited since `time_ns`."""

    peer: str = ""
    """For whom, where that is known."""


class Busy(Event, frozen=True):
    """How a party has spent its time, in nanoseconds since it last said so: for those to whom every
    piece of work would be too much."""

    worked: Mapping[str, int]
    """By kind, as in the timeline."""
    waited: Mapping[str, int]
    """By the peer that it waited for; "" where that is not known."""


EVENTS: tuple[type[Event], ...] = (
    *(RoundDone, Evaluated, Tested, Notice, Recorded, Started, Connected, Disconnected, PeerLeft),
    *(PeerFailed, Refused, Waiting, Resumed, Saved, Finished, Worked, RowsScored, Calibrated),
    *(Waited, Busy, Aborted, LocalDone, Listening, TakesPart),
)
"""All kinds."""
Subscriber = Callable[[Event], None]
