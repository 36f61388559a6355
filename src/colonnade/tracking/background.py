"""A tracker at work beside the training: a server that does not answer, or a slow disk, must not
keep a party waiting, and least of all the others."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable
from typing import Any

from colonnade.record.chain import printable

WAITING_MAX = 10_000
"""The most pieces of work that wait; what comes then is dropped."""
CLOSE_S = 60.0
"""How long the end of a run waits for what is still to be written."""
_LETTERS_MAX = 300
_WHO = re.compile(r"(?<=://)[^/@\s]*@")
"""A name and a password in an address."""
Work = Callable[[], Any]


class Background:
    """Does one piece of work after the other in a thread, until one fails.

    >>> done = []
    >>> background = Background()
    >>> background.do(lambda: done.append(1))
    >>> background.close(), done
    (None, [1])
    """

    def __init__(self, close: Work = lambda: None) -> None:
        """`close` is what is done last, whatever happened."""
        self._close = close
        self.fault: str | None = None
        """Why it has given up."""
        self._dropped = 0
        self._work: queue.Queue[Work | None] = queue.Queue(WAITING_MAX)
        self._thread = threading.Thread(target=self._run, name="tracker", daemon=True)
        self._thread.start()

    def do(self, work: Work) -> None:
        """Have something done; at once, as far as the caller is concerned."""
        if self.fault is not None:
            return
        try:
            self._work.put_nowait(work)
        except queue.Full:
            self._dropped += 1

    def close(self, within_s: float | None = None) -> str | None:
        """Wait until all is done; what went wrong, or None."""
        within_s = CLOSE_S if within_s is None else within_s
        self._work_is_over()
        self._thread.join(within_s)
        if self.fault is None and self._thread.is_alive():
            self.fault = f"it has not answered for {within_s:.0f} seconds"
        if self.fault is None and self._dropped:
            self.fault = f"it was too slow, and {self._dropped:,} points were left out"
        return self.fault

    def _work_is_over(self) -> None:
        try:
            self._work.put_nowait(None)
        except queue.Full:
            self.fault = self.fault or "it was too slow for what there was to write"

    def _run(self) -> None:
        # What is given up closes at once, and not when the run ends.
        while not self._has_failed() and (work := self._work.get()) is not None:
            self._try(work)
        self._try(self._close)

    def _has_failed(self) -> bool:
        return self.fault is not None

    def _try(self, work: Work) -> None:
        try:
            work()
        # Whatever a library raises that is not ours must not end a training.
        except Exception as error:  # noqa: BLE001
            self.fault = self.fault or clause(error)


def clause(error: BaseException) -> str:
    """What an error of a library says, in one line, without names and passwords of addresses.

    >>> clause(ValueError("no answer from http://ann:pw@host/api\\n  more"))
    'no answer from http://host/api'
    """
    first = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return printable(_WHO.sub("", first))[:_LETTERS_MAX]
