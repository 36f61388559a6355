"""What the parties of an alignment do: the leading one asks, the others answer.

Either is a value with `take`, for a letter that has come, and `work`, which gives the next piece of
work, or None where only a letter helps. Neither knows how letters travel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from colonnade.align.desk import Desk, RowFile, Secrets
from colonnade.align.evaluations import Evaluations
from colonnade.align.garbled import Words
from colonnade.align.group import BYTES, Batch, batch
from colonnade.align.idset import IdSet
from colonnade.align.plan import CHUNK, Plan
from colonnade.align.sealing import Channel
from colonnade.align.work import words
from colonnade.align.workers import Workers
from colonnade.errors import BreachError
from colonnade.wire.messages import Sealed

TAG_BYTES, COMMON_BYTES = 16, 16
TAGS_PIECE = 65_536
"""The most tags of a letter."""
ATTEMPT_BYTES = 2
COUNT = np.dtype("<u8")
Letters = list[Sealed]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Found:
    """What comes out of an alignment."""

    rows: Rows
    """The rows of the own table that all parties have, in the common order."""
    common: str
    """A name that all parties of the alignment know, and nobody else."""
    ids: Words
    """The digests of these rows' ids."""


@dataclass(frozen=True)
class Place:
    """All that a role works with."""

    me: str
    plan: Plan
    ids: IdSet
    """All of the party's ids."""
    generations: Sequence[IdSet]
    """Those that each step has brought; the present one is the last."""
    secrets: Secrets
    """Those to draw from in this step."""
    channels: Mapping[str, Channel]
    desk: Desk
    workers: Workers
    evaluations: Evaluations

    @property
    def step(self) -> int:
        """0 is the first."""
        return self.secrets.step

    @property
    def news(self) -> IdSet:
        """The ids that this step brings."""
        return self.generations[-1]

    def rows(self, name: str, width: int) -> list[RowFile]:
        """A file for the ids of each step, with a row for each."""
        return self.desk.rows(name, [len(ids) for ids in self.generations], width)

    def found(self, news: Words, common: bytes) -> Found:
        """The result: what all had before, in the order in which it was, then what is new."""
        ids = np.concatenate([self.desk.common(self.step - 1), news])
        places = self.ids.find(ids)
        assert (places >= 0).all(), "an id of the result is not in the table"
        return Found(self.ids.rows(places), common.hex(), ids)

    def had(self, ids: Words) -> npt.NDArray[np.bool_]:
        """Which of these ids all parties had before this step."""
        before = self.desk.common(self.step - 1)
        return np.isin(_joined(ids), _joined(before))


def _joined(rows: Words) -> npt.NDArray[np.void]:
    """Rows of two words as one thing each."""
    joined: npt.NDArray[np.void] = np.ascontiguousarray(rows).view(np.dtype((np.void, 16))).ravel()
    return joined


class Role(Protocol):
    """A party's part, from the checkpoint on from which it begins."""

    place: Place
    found: Found | None

    @property
    def done(self) -> int:
        """How many rounds are behind this party."""
        ...

    def take(self, letter: Sealed, content: bytes) -> None:
        """A letter has come and was opened; one that is not due is a breach."""
        ...

    def work(self) -> Callable[[], Letters] | None:
        """The next piece of work, which gives the letters to send; None while there is none."""
        ...

    def waits_for(self) -> str:
        """For whom this party waits, and for what."""
        ...


class Seen:
    """Which points have come: none may come twice.

    >>> seen, points = Seen(), np.eye(16, 32, dtype=np.uint8)
    >>> seen.add(points), seen.add(points[:1])
    (True, False)
    """

    def __init__(self) -> None:
        self._sorted = np.empty((0, 2), dtype=np.uint64)
        self._recent: list[Words] = []

    def add(self, points: Batch) -> bool:
        """Whether none of these, which is a batch of its own, came before."""
        # Half of a point's bytes tell it from all others.
        news = words(points[:, :16])
        recent = np.concatenate([news, *self._recent])
        recent = recent[np.lexsort((recent[:, 1], recent[:, 0]))]
        if (recent[1:] == recent[:-1]).all(axis=1).any() or self._known(news):
            return False
        self._recent.append(news)
        if sum(map(len, self._recent)) > max(8 * CHUNK, len(self._sorted) // 4):
            whole = np.concatenate([self._sorted, *self._recent])
            self._sorted = whole[np.lexsort((whole[:, 1], whole[:, 0]))]
            self._recent.clear()
        return True

    def _known(self, news: Words) -> bool:
        if not len(self._sorted):
            return False
        at = np.searchsorted(self._sorted[:, 0], news[:, 0])
        same = self._sorted[np.minimum(at, len(self._sorted) - 1)] == news
        return bool(same.all(axis=1).any())


def check_points(letter: Sealed, content: bytes, chunk: tuple[int, int], seen: Seen) -> None:
    """Refuse more or fewer points than a round has, and those that came before."""
    due = chunk[1] - chunk[0]
    if len(content) != due * BYTES:
        raise BreachError(
            letter.sender,
            f"{letter.sender} sent {len(content) / BYTES:,g} points in round {letter.round + 1}, "
            f"and {due:,} are due",
        )
    if not seen.add(batch(content)):
        raise BreachError(letter.sender, f"{letter.sender} sent the same point twice")


def not_due(letter: Sealed) -> BreachError:
    """For a letter that nobody asked for."""
    what = f"a {type(letter).__name__} numbered {letter.round}"
    return BreachError(letter.sender, f"{letter.sender} sent {what}, which is not due")
