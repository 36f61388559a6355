"""A real pseudo-terminal with a command in it, and the screen that a person would see."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from types import TracebackType

import pyte

from tests.warm import PATIENCE_S, python


class Terminal:
    """`colonnade` with these words, on a terminal of this size."""

    def __init__(
        self,
        *words: object,
        width: int = 100,
        height: int = 30,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [python(), "-m", "colonnade", *map(str, words)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=kept | {"TERM": "xterm-256color"} | (environment or {}),
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def until(self, *patterns: str) -> str:
        """Wait until all of these are on the screen at once, and return it. A screen may be looked
        at while half of it is drawn, so whatever is expected together has to be named here."""
        end, more = time.monotonic() + PATIENCE_S, True
        while missing := [each for each in patterns if not re.search(each, self.text, re.M)]:
            assert more and time.monotonic() < end, f"no {missing} in\n{self.text}"
            more = self._read(0.5)
        return self.text

    def _read(self, timeout_s: float) -> bool:
        """Take in what has come; whether more may come."""
        ready, _, _ = select.select([self._master], [], [], timeout_s)
        if not ready:
            return True
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # Linux says so when nobody holds the other end any more.
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Wait until the command has ended; its exit code."""
        end = time.monotonic() + PATIENCE_S
        while self._read(0.5):
            assert time.monotonic() < end, self.text
        return self.process.wait(PATIENCE_S)

    @property
    def is_usable(self) -> bool:
        """Whether somebody could go on typing: the cursor is there, at the start of a line."""
        return not self.screen.cursor.hidden and self.screen.cursor.x == 0
