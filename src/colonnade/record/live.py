"""The events of a run that goes on, in a file of its folder, for whoever follows it meanwhile.

`live.jsonl` has one JSON object a line: events as they are told, and before those of each process
an `Opened` that says which run it is. What happens all the time (rounds above all) is written at
most twice a second for each party. A file that has grown is thinned out: of its rounds every second
one goes, and from then on they are written as rarely, so that a run of any length fits.

As long as the process runs, it holds a lock on the file; a file without one is of a process that
has ended. When the run's own files have all that it says, it is removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from colonnade.errors import reason
from colonnade.record.events import (
    Calibrated,
    Connected,
    Disconnected,
    Evaluated,
    Event,
    Finished,
    Notice,
    PeerEnded,
    Refused,
    Resumed,
    RoundDone,
    Saved,
    Started,
    Tested,
    Waiting,
    Worked,
)
from colonnade.record.private import OWNER_ONLY, append_to_private
from colonnade.units import NS_PER

_fcntl: Any
try:
    import fcntl as _fcntl
except ImportError:
    _fcntl = None

FILE = "live.jsonl"
BYTES_MAX = 4 * 2**20
LINE_BYTES_MAX = 64 * 2**10
EVERY_NS = NS_PER["s"] // 2
"""Between two lines of one kind of a party, of what happens all the time."""
WAITING_EVERY_NS = 10 * NS_PER["s"]
LOCK_TRIES = 100
"""Whoever asks whether a run goes on holds the lock for an instant."""
_ONCE = (
    *(Evaluated, Tested, Calibrated, Notice, Started, Connected, Disconnected, PeerEnded),
    *(Refused, Resumed, Saved, Finished),
)
"""What is written each time that it happens."""
_MANY = (b'{"type":"RoundDone"', b'{"type":"Evaluated"')
"""How the lines begin that are thinned out, the first of them first."""
_encode = msgspec.json.encode
Key = tuple[type[Event], str]


class Opened(msgspec.Struct, frozen=True, tag=True):
    """A process begins to write: which run it is."""

    job: str
    method: str
    """As a command line names it."""
    seed: int
    active: str
    parties: tuple[str, ...]
    clock: str
    """Of what the times of the events are: `virtual` or `wall`."""
    at_ns: int
    """Unix time."""
    target: float | None = None


class Live:
    """Writes the events of a run into its folder; a subscriber. A disk that cannot be written is
    said once, and the run goes on.

    >>> import tempfile
    >>> from colonnade.record.events import Saved
    >>> opened = Opened("digits", "fedsgd", 0, "lab", ("lab", "clinic"), "virtual", 0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     live = Live(Path(folder), opened, now=lambda: 0)
    ...     live(Saved("lab", 7, 3))
    ...     live.close(done=False)
    ...     (Path(folder) / FILE).read_text().splitlines()[1]
    '{"type":"Saved","party":"lab","time_ns":7,"round":3}'
    """

    def __init__(
        self,
        folder: Path,
        opened: Opened,
        *,
        now: Callable[[], int],
        tell: Callable[[str], None] = lambda said: None,
        anew: bool = False,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        """`now` is a clock in nanoseconds by which lines are rare enough; `tell` is told where the
        file cannot be written; `anew` says that what an earlier process wrote is of no use."""
        self.path, self._opened, self._now, self._tell = folder / FILE, opened, now, tell
        self._anew, self._bytes_max = anew, bytes_max
        self._file: int | None = None
        self._is_open = True
        self._bytes = 0
        self._every_ns = EVERY_NS
        self._written_ns: dict[Key, int] = {}
        self._held: dict[Key, Event] = {}
        """The last of what came too soon after the one before it."""
        self._awaited: dict[str, str | None] = {}

    def __call__(self, event: Event) -> None:
        """Write what happened, unless it happens all the time."""
        # Every piece of work comes here: this is the quickest way out.
        if isinstance(event, Worked) or not self._is_open:
            return
        if isinstance(event, _ONCE):
            # Before an evaluation the round that it is of, so that its loss stands beside it.
            self._write(self._released(event.party) + _line(event))
        elif self._is_due(event):
            self._write(_line(event))

    def open(self) -> None:
        """Begin now, and not with the first event."""
        self._write(b"")

    def close(self, done: bool) -> None:
        """The process ends; the file goes where the run is `done`, and its files say the same."""
        held = b"".join(map(_line, self._held.values()))
        self._held.clear()
        if held and not done and self._file is not None:
            self._write(held)
        self._is_open = False
        if done and self._file is not None:
            with suppress(OSError):
                self.path.unlink()
        self._release()

    def _is_due(self, event: Event) -> bool:
        key, now_ns = (type(event), event.party), self._now()
        every_ns = self._every_ns
        if isinstance(event, Waiting):
            awaited = event.what and event.what.partition(":")[0]
            changed = awaited != self._awaited.get(event.party)
            self._awaited[event.party] = awaited
            if not changed and event.what is None:
                return False
            every_ns = 0 if changed else WAITING_EVERY_NS
        if now_ns - self._written_ns.get(key, now_ns - every_ns) < every_ns:
            self._held[key] = event
            return False
        self._written_ns[key] = now_ns
        self._held.pop(key, None)
        return True

    def _released(self, party: str) -> bytes:
        held = self._held.pop((RoundDone, party), None)
        return b"" if held is None else _line(held)

    def _write(self, lines: bytes) -> None:
        try:
            if self._file is None:
                self._begin()
            assert self._file is not None
            if self._bytes + len(lines) > self._bytes_max:
                self._thin()
            os.write(self._file, lines)
            self._bytes += len(lines)
        except OSError as error:
            # It is for those who look on: no training ends for it.
            self._is_open = False
            self._release()
            self._tell(f"{self.path} cannot be written ({reason(error)}): nobody can follow")

    def _begin(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = append_to_private(self.path)
        _lock(self._file)
        if self._anew:
            os.ftruncate(self._file, 0)
        self._bytes = os.fstat(self._file).st_size
        # The process before may have ended within a line.
        first = b"\n" if self._bytes else b""
        first += _line(self._opened)
        os.write(self._file, first)
        self._bytes += len(first)

    def _thin(self) -> None:
        """Put a shorter file in the place of this one, which keeps what matters most."""
        content = self.path.read_bytes()[: 2 * self._bytes_max]
        kept = thinned(content, self._bytes_max // 2)
        beside = self.path.with_name(f".{FILE}.part")
        beside.unlink(missing_ok=True)
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, OWNER_ONLY)
        try:
            _lock(file)
            os.write(file, kept)
            beside.replace(self.path)
        except BaseException:
            os.close(file)
            raise
        self._release()
        self._file, self._bytes = file, len(kept)
        # As rare as those that were kept, so that the course of the run is told evenly.
        before, after = (text.count(_MANY[0]) for text in (content, kept))
        self._every_ns *= max(2, -(-before // max(1, after)))

    def _release(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.close(self._file)
            self._file = None


def thinned(content: bytes, bytes_max: int) -> bytes:
    """The lines of a file with fewer of those that are many, so that they fit: of rounds every
    second goes until they do, then of evaluations, and at last the oldest of all.

    >>> rounds = b"".join(b'{"type":"RoundDone","round":%d}\\n' % n for n in range(4))
    >>> [line[-2:-1] for line in thinned(rounds, 100).split()]
    [b'0', b'2', b'3']
    """
    lines = [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
    for kind in _MANY:
        places = _places(lines, kind)
        # Each kind keeps a third: evaluations must not crowd out the rounds, nor the other way.
        while _size(lines) > bytes_max and 3 * sum(len(lines[n]) for n in places) > bytes_max:
            if len(places) < 4:
                break
            # The first and the last stay, so that the course of the run does.
            gone = set(places[1:-1:2])
            lines = [line for place, line in enumerate(lines) if place not in gone]
            places = _places(lines, kind)
    while _size(lines) > bytes_max and len(lines) > 1:
        # The first says which run it is.
        many = {place for kind in _MANY for place in _places(lines, kind)}
        others = [place for place in range(1, len(lines)) if place not in many]
        oldest = others or range(1, len(lines))
        gone = set(oldest[: max(1, len(oldest) // 4)])
        lines = [line for place, line in enumerate(lines) if place not in gone]
    return b"".join(lines)


def _places(lines: list[bytes], begins: bytes) -> list[int]:
    return [place for place, line in enumerate(lines) if line.startswith(begins)]


def _size(lines: list[bytes]) -> int:
    return sum(map(len, lines))


def is_followed(path: Path) -> bool:
    """Whether a process writes a live file now.

    >>> is_followed(Path("nowhere") / FILE)
    False
    """
    if _fcntl is None:
        return path.exists()
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        _fcntl.flock(file, _fcntl.LOCK_SH | _fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def _line(said: Event | Opened) -> bytes:
    line = _encode(said)
    # Nobody reads a line that is longer; a peer may have sent the words in it.
    return line + b"\n" if len(line) < LINE_BYTES_MAX else b""


def _lock(file: int) -> None:
    """For as long as the file is open. That somebody else has it is no reason not to write."""
    if _fcntl is None:
        return
    for _ in range(LOCK_TRIES):
        with suppress(BlockingIOError):
            _fcntl.flock(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
            return
