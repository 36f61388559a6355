"""Every error a caller can meet.

    ColonnadeError
    ├── RequestError        the request is wrong; one sentence with the cure; exit code 2
    │   ├── JobError        a job file or a --set is wrong
    │   │   └── RefusedError another party refused this one before the first round
    │   └── DataError       a table, an array or a named data set is wrong or missing
    ├── StoppedError        somebody wanted it to stop; exit code 130
    └── FailedError         the job began and could not go on; exit code 1
        ├── DeadlockError   everybody waits and nothing is under way
        ├── PartyError      a party refused another's message, or broke the protocol
        │   ├── AbsentError a party did not come within the job's timeouts
        │   └── BreachError a party sent what it may not send (or NaN: NotFiniteError)
        ├── CheckpointError a checkpoint cannot be written (colonnade.record.checkpoints)
        └── WireError       bytes that are not a message of ours

Our own mistakes are not here: they assert.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ColonnadeError(Exception):
    """The root of all errors raised on purpose; `exit_code` is what the command line returns."""

    exit_code = 1
    told: str | None = "it cannot go on, and its own log says why"
    """What other parties are told of it over the network; None is its own sentence. That may name
    files of this host, so only errors that concern the others tell it."""

    def for_peers(self) -> str:
        """What other parties are told.

        >>> FailedError("/home/ann/runs cannot be written").for_peers()
        'it cannot go on, and its own log says why'
        """
        return str(self) if self.told is None else self.told


class RequestError(ColonnadeError):
    """The request is wrong. The message names the fault and the cure in one sentence."""

    exit_code = 2


class JobError(RequestError):
    """A job file, a record built in Python, or a `--set` is wrong."""


class RefusedError(JobError):
    """Another party refused this one in the handshake: it knows why, and goes on without it."""


class DataError(RequestError, ValueError):
    """A table, an array or a named data set is wrong or cannot be found."""


class StoppedError(ColonnadeError):
    """Somebody asked for the end: the message says what was kept."""

    exit_code = 130


class FailedError(ColonnadeError):
    """The job began and could not go on."""


class DeadlockError(FailedError):
    """Every party waits and nothing is under way; the message says who waits for what."""

    told = None


class PartyError(FailedError):
    """A party refused what another sent, or another did not keep to the protocol."""

    told = None


class AbsentError(PartyError):
    """A party was awaited for as long as the job's timeouts allow, and did not come."""


class BreachError(PartyError):
    """A party sent what it may not send: the message says what, and `peer` is its name."""

    def __init__(self, peer: str, message: str) -> None:
        super().__init__(message)
        self.peer = peer


class NotFiniteError(BreachError):
    """A party sent NaN or infinite numbers, from which nothing can be learnt."""


class WireError(FailedError):
    """Bytes that are not a well-formed message of ours."""

    told = None


def reason(error: OSError) -> str:
    """The operating system's reason for an error.

    >>> reason(PermissionError(13, "Permission denied"))
    'permission denied'
    """
    return (error.strerror or str(error)).lower()


_WORD_MAX = 100


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a clause that offers the nearest known word, or lists all of them.

    >>> nearest("epoch", ["epochs", "rounds"])
    "did you mean 'epochs'?"
    >>> nearest("zzz", ["epochs", "rounds"])
    'known are epochs, rounds'
    """
    names = sorted(known)
    # Comparing takes time by the product of the lengths, and nobody mistypes a page of text.
    close = difflib.get_close_matches(word, names, n=1) if len(word) <= _WORD_MAX else []
    if close:
        return f"did you mean '{close[0]}'?"
    return f"known are {', '.join(names)}" if names else "none are known"
