"""What happens in a job: typed values, told by every party as it happens, in either world.

Whoever wants to know subscribes with a function of an event: the history of a run, progress bars,
the log of a party, the display of `launch`. A program tells its world, and knows of nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec


class Event(msgspec.Struct, frozen=True, tag=True):
    """Something that happened at a party."""

    party: str
    time_ns: int
    """By the party's own clock, since the job began; virtual in a simulation."""


class RoundDone(Event, frozen=True):
    """The active party has aggregated a round; a passive party has used the reply of one of its
    rounds."""

    round: int
    """Counted from 0."""
    loss: float | None = None
    """Known to the active party only."""


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


class Tested(Event, frozen=True):
    """The weights of the best round were tried on the test rows, once, at the end."""

    round: int
    """The best round."""
    measured: Mapping[str, float]


Subscriber = Callable[[Event], None]
