"""A party's identity over a long run: reread when its files change, with warnings of expiry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from colonnade.errors import ColonnadeError
from colonnade.tls.identity import Identity

LOOK_S = 5.0
"""How often the files are checked. A change is read once it has been there for a whole interval,
because certificate and key are seldom replaced at the same instant."""
REMIND_S = 24 * 3600.0
"""How often a running party is warned that its certificate expires."""

Read = Callable[[], tuple[Identity, list[str]]]
"""Reads and checks a party's files; returns warnings too."""
Stamp = tuple[tuple[int, ...] | None, ...]


class Keyring:
    """A party's present identity.

    >>> Keyring(Identity("bank", b"", b"", b"")).look()
    []
    """

    def __init__(
        self, identity: Identity, read: Read | None = None, files: Sequence[Path] = ()
    ) -> None:
        self.identity = identity
        self.on_change: Callable[[], None] = lambda: None
        """Called after the identity was replaced."""
        self._read = read
        self._files = files
        self._used = self._seen = self._stamp()
        self._reminded_s = time.monotonic()

    async def run(self, tell: Callable[[str], None]) -> None:
        """Check the files at intervals until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            before = self.identity
            for text in await asyncio.to_thread(self.look):
                tell(text)
            if self.identity is not before:
                self.on_change()

    def look(self) -> list[str]:
        """Reread the files if they have changed, or if a reminder is due; return what to tell.

        Files that are invalid change nothing.
        """
        before, self._seen = self._seen, self._stamp()
        changed = self._seen == before != self._used
        due = time.monotonic() - self._reminded_s > REMIND_S
        if self._read is None or not (changed or due):
            return []
        self._used, self._reminded_s = self._seen, time.monotonic()
        try:
            identity, warnings = self._read()
        except ColonnadeError as error:
            return [f"{error}; until then everything stays as it was"]
        if identity != self.identity:
            self.identity = identity
            warnings = ["read its certificates anew, because files have changed", *warnings]
        return warnings

    def _stamp(self) -> Stamp:
        """A value that differs when any of the files has changed."""
        return tuple(_stamp(path) for path in self._files)


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
