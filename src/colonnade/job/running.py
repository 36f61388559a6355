"""How long the parties of a run wait for each other, what they take in, and how they recover.

These are the tables `[limits]`, `[timeouts]` and `[recovery]` of a job. What a job learns does not
depend on them.
"""

from __future__ import annotations

from typing import Literal

from colonnade.errors import JobError
from colonnade.job.train import Record, require
from colonnade.job.typed import settle
from colonnade.units import duration_ns

BYTES_MAX = 2**40
QUEUED_MAX = 2**20
KEPT_MAX = 10_000
RESTARTS_MAX = 10_000
"""Without a bound, parties that fail at every round would begin again for ever."""


class Limits(Record, frozen=True, kw_only=True):
    """Bounds on what a party takes in and keeps, checked before anything is allocated."""

    message_bytes: int = 256 * 2**20
    queue_messages: int = 1024
    """How many messages wait on one link or in one inbox before the sender waits."""
    queue_bytes: int = 256 * 2**20
    """How many bytes wait for one peer before the sender waits; one message always may."""
    table_bytes: int = 4 * 2**30
    """How much the active party keeps of one peer's embeddings, where the method remembers them
    (`quorum=anyone`), and either end of a party's rows, where their differences cross (`ef21+`)."""
    in_flight_bytes: int = 4 * 2**30
    """How much a passive party keeps for exchanges in flight, in windows that are not PASTA's: for
    each a copy of its weights, and an embedding."""

    def __post_init__(self) -> None:
        settle(self)
        for field in self.__struct_fields__:
            least, most = (1, QUEUED_MAX) if field == "queue_messages" else (1024, BYTES_MAX)
            require(
                least <= getattr(self, field) <= most,
                f"limits.{field} must be at least {least}, and {most:,} at the most",
            )


class Timeouts(Record, frozen=True, kw_only=True):
    """How long a party waits over the network, and for what. Nothing waits for ever.

    >>> Timeouts(silence="5s").ns("silence")
    5000000000
    """

    join: str = "10min"
    """Until all parties are there."""
    silence: str = "20s"
    """Nothing is heard of a peer, not even a heartbeat: the connection is made anew."""
    absence: str = "5min"
    """A party that was there is gone or silent: the job fails with its name."""
    stall: str = "1h"
    """A party is alive, but what is awaited of it does not come: the job fails with its name."""
    finish: str = "1min"
    """For the goodbye when the job is over."""

    def __post_init__(self) -> None:
        settle(self)
        for field in self.__struct_fields__:
            require(self.ns(field) > 0, f"timeouts.{field} is 0: give it some time, as in '20s'")
        require(
            self.ns("silence") < self.ns("absence"),
            f"timeouts.silence is {self.silence} and timeouts.absence {self.absence}: a connection "
            "is made anew after a silence, so make absence the longer one",
        )

    def ns(self, field: str) -> int:
        """One of them in nanoseconds."""
        try:
            return duration_ns(getattr(self, field))
        except JobError as error:
            raise JobError(f"timeouts.{field}: {error}") from None


class Recovery(Record, frozen=True, kw_only=True):
    """What parties do about checkpoints, planned stops and faults of a disk."""

    keep: int = 3
    """How many checkpoints a party keeps."""
    on_stop: Literal["wait", "stop"] = "wait"
    """What the others do when a party stops as planned: wait for it, or stop too."""
    on_disk_fault: Literal["go_on", "stop"] = "go_on"
    """What a party does when a checkpoint cannot be written."""
    restarts: int = 100
    """The most returns to one and the same checkpoint before the job fails."""

    def __post_init__(self) -> None:
        settle(self)
        require(
            self.keep >= 2,
            f"recovery.keep is {self.keep}: it must be 2 or more, because a party may crash "
            "before it has the checkpoint that another has already",
        )
        for field, least, most in (("keep", 2, KEPT_MAX), ("restarts", 0, RESTARTS_MAX)):
            value = getattr(self, field)
            require(
                value <= most, f"recovery.{field} is {value}: it must be from {least} to {most:,}"
            )
        require(self.restarts >= 0, f"recovery.restarts is {self.restarts}: it must be 0 or more")
