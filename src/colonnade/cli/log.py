"""`--log json`: what happens, as one JSON object a line, for programs that follow a run.

Every line is ASCII, so nothing in it does anything to a terminal, whoever wrote it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import msgspec

from colonnade.errors import RequestError, reason
from colonnade.record.events import (
    Busy,
    Disconnected,
    Event,
    LocalDone,
    PeerFailed,
    Refused,
    RoundDone,
    RowsScored,
    Worked,
)
from colonnade.record.private import append_to_private
from colonnade.record.table import plain
from colonnade.units import NS_PER

EVERY_NS = NS_PER["s"]
"""How far a party is, is said no more often than this."""
TROUBLE = (Disconnected, PeerFailed, Refused)


class JsonLog:
    """Writes events, and whatever else is said.

    >>> import sys
    >>> log = JsonLog(sys.stdout, stamp=lambda: "2026-11-18T16:00:00.000Z", now_ns=lambda: 0)
    >>> log.say("Notice", "ready", party="lab")
    {"time": "2026-11-18T16:00:00.000Z", "level": "info", "type": "Notice", "text": "ready", \
"party": "lab"}
    """

    def __init__(
        self,
        stream: TextIO,
        closes: bool = False,
        stamp: Callable[[], str] | None = None,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        from colonnade.net.detector import monotonic_ns, utc_stamp

        self._stream, self.is_file = stream, closes
        self._stamp, self._now_ns = stamp or utc_stamp, now_ns or monotonic_ns
        self._told_ns: dict[tuple[type[Event], str], int] = {}
        self._held: dict[tuple[type[Event], str], Event] = {}

    def __call__(self, event: Event) -> None:
        """Write an event; of work, and of how a party spends its time, there is too much."""
        kind = type(event)
        if issubclass(kind, Worked | Busy | LocalDone):
            return
        if issubclass(kind, RoundDone | RowsScored):
            key, now_ns = (kind, event.party), self._now_ns()
            if now_ns - self._told_ns.get(key, -EVERY_NS) < EVERY_NS:
                self._held[key] = event
                return
            self._told_ns[key] = now_ns
            self._held.pop(key, None)
        self._event(event)

    def _event(self, event: Event) -> None:
        told = plain(msgspec.to_builtins(event))
        name, text = told.pop("type"), event.sentence()
        told.pop("text", None)
        level = "warning" if isinstance(event, TROUBLE) else "info"
        self.say(name, text, level, **told)

    def say(self, name: str, text: str | None, level: str = "info", **more: Any) -> None:
        """Write one line."""
        said = {} if text is None else {"text": text}
        line = {"time": self._stamp(), "level": level, "type": name, **said, **plain(more)}
        with suppress(BrokenPipeError):  # Whoever read it has left, which is no reason to end.
            self._stream.write(json.dumps(line, allow_nan=False) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Write how far the parties were at last, and close the file."""
        for event in self._held.values():
            self._event(event)
        self._held.clear()
        if self.is_file:
            self._stream.close()


class SaidAsJson:
    """A file to print to, whose lines go into a log."""

    encoding = "utf-8"

    def __init__(self, log: JsonLog) -> None:
        self._log, self._begun = log, ""

    def write(self, text: str) -> int:
        """Take in a piece; whole lines are logged."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line.strip():
                self._log.say("Notice", line.rstrip())
        return len(text)

    def flush(self) -> None:
        """Do nothing: what has no end yet is no line."""

    def isatty(self) -> bool:
        """Never."""
        return False


def open_log(text: str, stderr: TextIO) -> JsonLog:
    """The log that `--log` asks for: `json` on standard error, or `json:FILE` at the end of a file.

    >>> import sys
    >>> open_log("xml", sys.stderr)
    Traceback (most recent call last):
    colonnade.errors.RequestError: --log xml is not a log: write --log json, or --log json:FILE
    """
    form, colon, name = text.partition(":")
    if form != "json" or (colon and not name):
        raise RequestError(f"--log {text} is not a log: write --log json, or --log json:FILE")
    if not name:
        return JsonLog(stderr)
    try:
        file = append_to_private(Path(name))
    except OSError as error:
        raise RequestError(f"--log: {name} cannot be written: {reason(error)}") from None
    return JsonLog(os.fdopen(file, "a", buffering=1, encoding="ascii"), closes=True)
