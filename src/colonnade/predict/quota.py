"""How many rows a passive party answers for, how fast, and which."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import RequestError
from colonnade.job.policy import Policy
from colonnade.predict.rows import LACKING, Rows
from colonnade.record.private import write_whole
from colonnade.units import NS_PER

COUNT = "answered"
_MINUTE_NS = 60 * NS_PER["s"]
_AHEAD = 100
"""The count on disk is ahead by up to this share of the most: to write it for every answer would
cost more than the answer."""


class Quota:
    """What `policy.predict_…` allows; the count of rows outlives the process.

    >>> quota = Quota(Policy(predict_rows_per_minute=3))
    >>> quota.refuse(2, now_ns=0), quota.answered
    (None, 2)
    >>> quota.refuse(2, now_ns=10**9)
    'policy.predict_rows_per_minute is 3: ask again later, or for fewer rows'
    """

    def __init__(
        self,
        policy: Policy,
        folder: Path | None = None,
        listed: NDArray[np.bool_] | None = None,
    ) -> None:
        """`listed` says which rows may be asked for, where not all may."""
        self.answered = 0
        """By this process."""
        self._most, self._rate, self._listed = (
            policy.predict_rows_max,
            policy.predict_rows_per_minute,
            listed,
        )
        self._path = None if folder is None else folder / COUNT
        self._count = self._reserved = self._kept()
        self._recent: deque[tuple[int, int]] = deque()
        self._in_minute = 0

    def _kept(self) -> int:
        if self._most is None or self._path is None or not self._path.is_file():
            return 0
        text = self._path.read_text().strip()
        if not text.isdecimal():
            raise RequestError(
                f"{self._path} is damaged, which counts the rows that were answered for: put it "
                "back, or write a number of rows into it"
            )
        return int(text)

    def refuse(self, rows: int, now_ns: int) -> str | None:
        """Why so many rows are not answered for; None if they are, and counted."""
        if self._most is not None and self._count + rows > self._most:
            return (
                f"policy.predict_rows_max is {self._most:,}, and {self._count:,} rows are used up"
            )
        if self._rate is not None:
            while self._recent and now_ns - self._recent[0][0] >= _MINUTE_NS:
                self._in_minute -= self._recent.popleft()[1]
            if self._in_minute + rows > self._rate:
                return (
                    f"policy.predict_rows_per_minute is {self._rate:,}: ask again later, or for "
                    "fewer rows"
                )
            self._recent.append((now_ns, rows))
            self._in_minute += rows
        self._count += rows
        self.answered += rows
        self._reserve()
        return None

    def _reserve(self) -> None:
        if self._most is None or self._path is None or self._count <= self._reserved:
            return
        self._reserved = min(self._most, self._count + self._most // _AHEAD)
        write_whole(self._path, f"{self._reserved}\n")

    def settle(self) -> None:
        """The process ends in order: keep what was answered for, and not what was set aside."""
        if self._path is not None and self._reserved > self._count:
            self._reserved = self._count
            write_whole(self._path, f"{self._count}\n")

    def allowed(self, rows: Rows) -> Rows:
        """The rows as if the party had no others than those that may be asked for."""
        if self._listed is None:
            return rows
        known = rows != LACKING
        return np.where(known & self._listed[np.where(known, rows, 0)], rows, LACKING)
