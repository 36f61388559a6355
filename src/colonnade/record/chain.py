"""The append-only, hash-chained file of everything that left or entered a party.

It has one JSON object a line: the first names party and job, then each message and note has one:

    {"n":12,"at":…,"way":"sent","peer":"bank","kind":"Embedding","round":3,"bytes":16464,"hash":"…"}

A service, whose messages have no end, counts many in one line (see `tally.py`), which says in
`messages` how many.

`at` is Unix time in nanoseconds. `hash` is the SHA-256 of the hash before it, as text, and of all
that its own line has before `,"hash":`. A line that is changed, taken out, put in or moved breaks
the chain. That the last lines were cut off, or that the whole file was written anew, shows only
against a hash that somebody else keeps. A line that was never finished stays: the next entry
follows it on the same line, says in `torn` how many bytes it found, and its hash covers them.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from colonnade.errors import FailedError, RequestError, reason
from colonnade.formats import FORMATS, check
from colonnade.record.private import append_to_private
from colonnade.units import show_bytes
from colonnade.wire.ledger import Direction, Entry

VERSION = FORMATS["ledger"].version
LINE_BYTES_MAX = 65_536
NOTE_LETTERS_MAX = 1_000
NOTES_MAX = 1_000  # the last so many notes of a chain stay in memory
MARKS_MAX = 256  # as many checkpoints back a chain can be followed

Key = tuple[Direction, str, str]
"""Which way, with which peer, of which kind."""
Totals = dict[tuple[str, Direction, str], tuple[int, int]]
"""Messages and bytes by peer, direction and kind."""

_END = b',"hash":"%s"}\n'
_END_BYTES = len(_END % bytes(64))


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One entry as it is read: the first has `chain`, a message `way`, a note `note`."""

    n: int
    at: int
    hash: str
    chain: int | None = None
    party: str = ""
    job: str = ""
    way: Direction | None = None
    peer: str = ""
    kind: str = ""
    round: int | None = None
    messages: int = 1
    bytes: int = 0
    note: str | None = None
    kept: int | None = None
    again: int | None = None
    torn: int = 0


class Chain:
    """A party's chain, open for appending by one thread of one process.

    Every entry is handed to the operating system at once, so that it outlives the process; only
    `sync` and `close` wait until it outlives a loss of power. `head` is the last one's hash,
    `before` what had crossed when it was opened."""

    def __init__(self, found: Verified, file: int) -> None:
        self.path, self.entries, self.head = found.path, found.entries, found.head
        self._file, self._torn, self._fault, self.before = file, found.torn, "", found.totals
        self._names: dict[Key, str] = {}

    @classmethod
    def open(cls, path: str | Path, party: str, job: str, now_ns: int) -> Chain:
        """Begin a chain, or go on with the one that is there once all of it is verified."""
        try:
            file = append_to_private(Path(path))
            found = verify(path)
        except OSError as error:
            why = f"{reason(error)}: use a folder that can be written"
            raise RequestError(f"the ledger {path} cannot be opened, {why}") from None
        ours = not found.entries or (found.party, found.job) == (party, job)
        if found.fault or not ours:
            os.close(file)
            fault = found.fault or f"it is of {printable(found.party)} or of another job"
            raise RequestError(f"the ledger {path} is of no use, {fault}: move it away")
        chain = cls(found, file)
        if not found.entries:
            names = f'"party":{json.dumps(party)},"job":{json.dumps(job)}'
            chain._append(f'{{"n":0,"at":{now_ns},"chain":{VERSION},{names}')
        elif found.torn:
            chain.note(now_ns, f"found {len(found.torn)} bytes of a line that was never finished")
        return chain

    def message(
        self, now_ns: int, direction: Direction, peer: str, kind: str, round: int, size: int
    ) -> None:
        """Add a message of `size` encoded bytes; `round` is -1 where it belongs to none."""
        self._add(now_ns, (direction, peer, kind), round, 1, size)

    def _add(self, now_ns: int, key: Key, round: int, messages: int, size: int) -> None:
        direction, peer, kind = key
        names = self._names.get(key)
        if names is None:
            ends = f'"peer":{json.dumps(peer)},"kind":{json.dumps(kind)}'
            self._names[key] = names = f',"way":"{direction}",{ends},"round":'
        many = "" if messages == 1 else f',"messages":{messages}'
        self._append(f'{{"n":{self.entries},"at":{now_ns}{names}{round}{many},"bytes":{size}')

    def note(
        self, now_ns: int, text: str, *, kept: int | None = None, again: int | None = None
    ) -> None:
        """Add a note: `kept` where it marks a checkpoint, `again` where it goes back to one.

        Both are the round that comes next; 0 is the very beginning and needs no mark."""
        said = json.dumps(printable(text[:NOTE_LETTERS_MAX]))
        said += f',"kept":{kept}' if kept is not None else ""
        said += f',"again":{again}' if again is not None else ""
        self._append(f'{{"n":{self.entries},"at":{now_ns},"note":{said}')

    def sync(self) -> None:
        """Wait until everything is on the disk."""
        if self._fault:
            raise FailedError(self._fault)
        try:
            os.fsync(self._file)
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """Flush to the disk and close the file."""
        if self._file >= 0:
            self.sync()
            os.close(self._file)
            self._file = -1

    def _append(self, body: str) -> None:
        torn, self._torn = self._torn, b""
        start = (f'{body},"torn":{len(torn)}' if torn else body).encode()
        head = sha256(self.head.encode() + torn + start).hexdigest()
        line = start + _END % head.encode()
        try:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            self._fail(error)
        self.head, self.entries = head, self.entries + 1

    def _fail(self, error: OSError) -> NoReturn:
        """Refuse this write and all that follow: the last line may be torn."""
        if not self._fault:
            assert self._file >= 0, "the chain is closed"
            cure = "make room or mend the disk, then start the same command again"
            self._fault = f"the ledger {self.path} cannot be written ({reason(error)}): {cure}"
            os.close(self._file)
            self._file = -1
        raise FailedError(self._fault) from None


def printable(text: str) -> str:
    """A text that does nothing to a terminal.

    >>> printable("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)


@dataclass
class Verified:
    """What a chain holds, up to its end or to its first broken line."""

    path: Path
    party: str = ""
    job: str = ""
    entries: int = 0
    """Good lines, the first one and notes included; `head` is the hash of the last."""
    head: str = ""
    fault: str = ""
    """What is wrong with the next line, as a clause that names it; empty where all are good."""
    torn: bytes = b""
    """The start of a last line that was never finished."""
    totals: Totals = field(default_factory=dict)
    """All that crossed."""
    standing: Totals = field(default_factory=dict)
    """The same without what was undone by a return to a checkpoint, and repeated."""
    notes: deque[Line] = field(default_factory=lambda: deque(maxlen=NOTES_MAX))
    _marks: dict[int, Totals] = field(default_factory=dict, repr=False)

    def _take(self, line: Line) -> None:
        if line.way is not None:
            key = (line.peer, line.way, line.kind)
            for totals in (self.totals, self.standing):
                messages, size = totals.get(key, (0, 0))
                totals[key] = (messages + line.messages, size + line.bytes)
        elif line.note is not None:
            self.notes.append(line)
            if line.kept is not None:
                self._marks[line.kept] = dict(self.standing)
                if len(self._marks) > MARKS_MAX:
                    del self._marks[min(self._marks)]
            if line.again is not None:
                before = {} if line.again == 0 else self.standing
                self.standing = dict(self._marks.get(line.again, before))
        else:
            self.party, self.job = line.party, line.job
        self.entries, self.head = self.entries + 1, line.hash


def verify(path: str | Path, each: Callable[[Line], None] | None = None) -> Verified:
    """Read a chain line by line up to its end or its first fault; `each` gets every good entry. One
    of a format that is not read here is refused."""
    found = Verified(Path(path))
    for raw in _lines(found.path):
        # What is appended to a torn line must not make it too long to be read.
        if not raw.endswith(b"\n") and len(raw) < LINE_BYTES_MAX // 2:
            found.torn = raw
            break
        if not found.entries:
            check("ledger", _version_of(raw), found.path)
        line = _read(raw, found.entries, found.head)
        if isinstance(line, str):
            found.fault = f"line {found.entries + 1} {line}"
            break
        found._take(line)
        if each is not None:
            each(line)
    return found


class _Beginning(msgspec.Struct, frozen=True):
    chain: Any = None


def _version_of(raw: bytes) -> Any:
    """What the first line says of the format, whatever else it says."""
    try:
        return msgspec.json.decode(raw, type=_Beginning).chain
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from iter(lambda: file.readline(LINE_BYTES_MAX), b"")
    except OSError as error:
        raise RequestError(f"the ledger {path} cannot be read: {reason(error)}") from None


def _read(raw: bytes, n: int, head: str) -> Line | str:
    """The entry of a whole line, or what is wrong with it."""
    # Within a JSON string the quotes would have backslashes, so this is where the entry begins.
    start, body = max(raw.rfind(b'{"n":'), 0), raw[:-_END_BYTES]
    try:
        line = msgspec.json.decode(raw[start:], type=Line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "is not an entry of a ledger"
    if line.n != n:
        return f"has number {line.n} where {n} belongs: lines were taken out, put in or moved"
    if raw != body + _END % sha256(head.encode() + body).hexdigest().encode():
        return "was changed: its hash is not that of its text"
    whole = [line.way is not None, line.note is not None, line.chain == VERSION and n == 0]
    if whole.count(True) != 1 or (n == 0) != whole[2] or line.torn != start:
        return f"is no message, note or beginning as format {VERSION} has them"
    return line


def reconcile(mine: Sequence[Entry], me: str, theirs: Sequence[Entry], peer: str) -> list[str]:
    """A sentence for each count on which two ends of a link differ; the same at both ends.

    >>> from colonnade.wire.ledger import Ledger
    >>> from colonnade.wire.messages import Finish
    >>> bank, telco = Ledger(), Ledger()
    >>> bank.count("telco", "sent", Finish, 40)
    >>> reconcile(bank.entries(), "bank", telco.entries(), "telco")
    ['telco counts 0 Finish messages (0 B) from bank, bank counts 1 (40 B) sent']
    """
    counts: dict[tuple[str, str, str], list[int]] = {}
    for owner, other, rows in ((me, peer, mine), (peer, me, theirs)):
        for row in rows:
            if row["peer"] == other:
                sent = row["direction"] == "sent"
                link = (owner, other) if sent else (other, owner)
                count = counts.setdefault((*link, row["kind"]), [0, 0, 0, 0])
                count[0 if sent else 2] += row["messages"]
                count[1 if sent else 3] += row["bytes"]
    return [
        f"{receiver} counts {got} {printable(kind)} message{'s' * (got != 1)} "
        f"({_size(got_bytes, sent_bytes)}) from {sender}, "
        f"{sender} counts {sent} ({_size(sent_bytes, got_bytes)}) sent"
        for (sender, receiver, kind), (sent, sent_bytes, got, got_bytes) in sorted(counts.items())
        if (sent, sent_bytes) != (got, got_bytes)
    ]


def _size(count: int, other: int) -> str:
    """A size in few figures, or in as many as tell it from the other."""
    short = show_bytes(count)
    return f"{count:,} bytes" if count != other and short == show_bytes(other) else short
