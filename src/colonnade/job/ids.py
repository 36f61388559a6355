"""How ids are compared (the `[ids]` table of a job)."""

from __future__ import annotations

from typing import Literal

from colonnade.job.train import Record
from colonnade.job.typed import settle


class Ids(Record, frozen=True, kw_only=True):
    """What of an id counts; the same at all parties.

    >>> Ids().text()
    'nfc trim'
    """

    trim: bool = True
    """Whether spaces at its ends are left out."""
    case: Literal["keep", "lower"] = "keep"
    """Whether `AB12` and `ab12` are two ids, or one."""

    def __post_init__(self) -> None:
        settle(self)

    def text(self) -> str:
        """The rule in words, which every digest of an id begins with."""
        words = ("nfc", "trim" if self.trim else "", "lower" if self.case == "lower" else "")
        return " ".join(word for word in words if word)
