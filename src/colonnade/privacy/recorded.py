"""A party's recording (`record.traffic`), read and put in order: which tensors crossed, to whom, of
which rows. It may have come from anybody, and is believed in nothing before it is checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from colonnade.data.splits import SPLITS
from colonnade.errors import RequestError
from colonnade.formats import check_metadata
from colonnade.record.reading import metadata_of, read_weights, shapes_of
from colonnade.record.traffic import BYTES_MAX, EVERYBODY, FOLDER, KINDS, PIECE_BYTES, pieces_in

Array = NDArray[Any]
Rows = NDArray[np.int64]
_SPLIT = rf"(?::(?P<split>{'|'.join(SPLITS[1:])}))?"
_NAME = re.compile(
    r"\d{1,15}:(?P<direction>sent|received):(?P<peer>\*|[A-Za-z0-9_-]{1,64}):"
    rf"(?P<kind>{'|'.join(KINDS)}):(?P<round>\d{{1,15}}){_SPLIT}"
)
_OWN = re.compile(rf"own:(?P<own>labels|columns):\d{{1,15}}{_SPLIT}")
EMBEDDINGS = ("upload", "embedding", "evaluation")
"""What is sent of a party's columns that its receiver reads, in the order in which they cross in a
round."""
_EVALUATED = ("evaluation", "sum", "summand", "sealed")
"""What may be of other rows than those of the training."""
_READ_BYTES_MAX = 2 * BYTES_MAX + 64 * PIECE_BYTES
"""More than any recorder writes, of several processes too."""
_ROWS_MAX = 2**40
_LARGEST = 1e15
"""Squares of larger numbers, added up, have no room in 32 bits."""
_AGAIN = "copy the whole folder of the run again, or record it again"


@dataclass(frozen=True, eq=False)
class Stream:
    """All tensors of one kind that crossed one way, row by row, in the order in which they did.

    >>> crossed = Stream.of([(0, np.array([4, 7]), np.ones((2, 3))),
    ...                      (1, np.array([7]), np.zeros((1, 3)))])
    >>> crossed.release.tolist(), crossed.ids.tolist(), crossed.releases
    ([0, 0, 1], [4, 7], 2)
    """

    rows: Rows
    """The row that each line is of."""
    values: Array
    """[lines, width]"""
    batch: Rows
    """Which tensor each line is of."""
    round: Rows
    """The round of each line."""

    @classmethod
    def of(cls, tensors: Iterable[tuple[int, Rows, Array]]) -> Stream:
        """From round, rows and values of each tensor."""
        rounds, rows, values = zip(*tensors, strict=True)
        sizes = [len(each) for each in rows]
        numbers = np.arange(len(sizes))
        return cls(
            np.concatenate(rows),
            np.concatenate(values),
            np.repeat(numbers, sizes),
            np.repeat(np.asarray(rounds, np.int64), sizes),
        )

    @classmethod
    def joined(cls, streams: Iterable[Stream]) -> Stream:
        """Several of them as one, round by round; in a round one after the other.

        >>> early, late = (Stream.of([(n, np.array([4]), np.full((1, 1), n))]) for n in (0, 1))
        >>> Stream.joined([late, early]).values[:, 0].tolist()
        [0, 1]
        """
        whole = list(streams)
        if len(whole) == 1:
            return whole[0]
        parts = [
            (int(each.round[lines][0]), each.rows[lines], values)
            for each in whole
            for lines, values in each.batches()
        ]
        return cls.of(sorted(parts, key=lambda part: part[0]))

    def __post_init__(self) -> None:
        ids, inverse = np.unique(self.rows, return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        counts = np.bincount(inverse)
        release = np.empty(len(order), np.int64)
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        release[order] = np.arange(len(order)) - starts
        known = {"ids": ids, "place": inverse, "counts": counts, "release": release}
        for name, value in known.items():
            object.__setattr__(self, name, value)

    ids: Rows = field(init=False)
    """The rows that crossed, each once."""
    place: Rows = field(init=False)
    """Of each line, the place of its row in `ids`."""
    counts: Rows = field(init=False)
    """How often each row crossed."""
    release: Rows = field(init=False)
    """For the how-manieth time the row of each line crossed, from 0."""

    @property
    def releases(self) -> int:
        """The most times that any row crossed."""
        return int(self.counts.max())

    def first(self) -> Stream:
        """Each row when it crossed for the first time, and never again."""
        return self.only(self.release == 0)

    def only(self, lines: NDArray[np.bool_]) -> Stream:
        """Some of the lines."""
        return Stream(self.rows[lines], self.values[lines], self.batch[lines], self.round[lines])

    def within(self, rows: Rows) -> Stream:
        """The lines of some rows."""
        return self.only(np.isin(self.rows, rows))

    def batches(self) -> Iterator[tuple[slice, Array]]:
        """The lines of each tensor, and its values."""
        edges = np.flatnonzero(np.diff(self.batch)) + 1
        for start, end in zip([0, *edges], [*edges, len(self.batch)], strict=True):
            yield slice(start, end), self.values[start:end]

    def first_values(self) -> Array:
        """What crossed of each row of `ids` when it did for the first time."""
        first = self.first()
        return first.values[np.argsort(first.place)]

    def pooled(self, scores: Array) -> Array:
        """A figure for each row from one for each line: their mean."""
        return np.bincount(self.place, scores) / self.counts


@dataclass(frozen=True, eq=False)
class Own:
    """A party's own labels or columns of the rows that were recorded."""

    rows: Rows
    values: Array

    def has(self, rows: Rows) -> bool:
        """Whether it knows all of some rows."""
        return bool(np.isin(rows, self.rows).all())

    def of(self, rows: Rows) -> Array:
        """Those of some rows; refuses rows of which nothing is known."""
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        if (self.rows[places] != rows).any():
            raise RequestError(f"the recording lacks the truth about some of its rows: {_AGAIN}")
        return self.values[places]


@dataclass(frozen=True, eq=False)
class Recording:
    """What one party has recorded, of the training rows."""

    party: str
    streams: dict[tuple[str, str, str], Stream]
    """By direction, peer and kind."""
    labels: Own | None = None
    """Whole numbers are classes, others are quantities; None at a passive party."""
    columns: Own | None = None
    evaluated: dict[str, Recording] = field(default_factory=dict)
    """The same of other rows that were evaluated on, by their split."""

    @property
    def rounds(self) -> int:
        """How many rounds it covers."""
        return 1 + max((int(each.round.max()) for each in self.streams.values()), default=-1)

    def by_split(self) -> dict[str, Recording]:
        """All rows that there are, by their split."""
        return {SPLITS[0]: self} | self.evaluated

    def sent(self, *kinds: str) -> dict[str, Stream]:
        """By receiver, all that was sent of some kinds."""
        peers = dict.fromkeys(peer for way, peer, kind in self.streams if way == "sent")
        found = {peer: [self.streams.get(("sent", peer, kind)) for kind in kinds] for peer in peers}
        given = {peer: [each for each in of if each is not None] for peer, of in found.items()}
        return {peer: Stream.joined(streams) for peer, streams in given.items() if streams}


def read_recording(party: str, folder: Path) -> Recording | None:
    """The recording in a party's folder; None where there is none.

    >>> read_recording("bank", Path("nowhere")) is None
    True
    """
    place = folder / FOLDER
    if place.is_symlink():
        raise RequestError(f"{place} is no plain folder: {_AGAIN}")
    paths, size = pieces_in(folder), 0
    for path in paths:
        shapes_of(path)
        check_metadata("recording", metadata_of(path), path)
        size += path.stat().st_size
        if size > _READ_BYTES_MAX:
            raise RequestError(
                f"the recording in {place} is larger than {_READ_BYTES_MAX:,} bytes, which no "
                f"party keeps: {_AGAIN}"
            )
    return recording_of(party, (_load(path) for path in paths)) if paths else None


def _load(path: Path) -> dict[str, Array]:
    try:
        return safetensors.numpy.load(read_weights(path))
    except (safetensors.SafetensorError, ValueError, KeyError):
        raise RequestError(f"the recording in {path} is damaged: {_AGAIN}") from None


Tensors = list[tuple[int, Rows, Array]]
"""Round, rows and values of each."""


def recording_of(party: str, pieces: Iterable[dict[str, Array]]) -> Recording:
    """A recording from the tensors of its pieces."""
    crossed: dict[str, dict[tuple[str, str, str], Tensors]] = {split: {} for split in SPLITS}
    own: dict[str, dict[str, Tensors]] = {split: {} for split in SPLITS}
    for piece in pieces:
        for name in sorted(piece, key=_order):
            if name.endswith(":rows"):
                continue
            values, rows = piece[name], piece.get(f"{name}:rows")
            if (found := _NAME.fullmatch(name)) is not None:
                # Labels are a list, or a column where the loss takes them so.
                tells = found["kind"] == "labels"
                rows = _checked(party, values, rows, (1, 2) if tells else (2,), whole=tells)
                key = found["direction"], found["peer"], found["kind"]
                flat = values.reshape(len(values), -1)
                of = crossed[_split(party, found["split"], *key)]
                of.setdefault(key, []).append((int(found["round"]), rows, flat))
            elif (mine := _OWN.fullmatch(name)) is not None:
                tells = mine["own"] == "labels"
                rows = _checked(party, values, rows, (1,) if tells else (2,), whole=tells)
                truth = own[mine["split"] or SPLITS[0]]
                truth.setdefault(mine["own"], []).append((0, rows, values))
            else:
                raise _odd(party)
    train, *others = (_of_split(party, crossed[split], own[split]) for split in SPLITS)
    evaluated = zip(SPLITS[1:], others, strict=True)
    return replace(train, evaluated={split: each for split, each in evaluated if each.streams})


def _split(party: str, split: str | None, direction: str, peer: str, kind: str) -> str:
    """The rows that a tensor is of, if somebody can have recorded it of these."""
    hidden = kind in ("summand", "sealed")
    if (kind == "sum") != ((direction, peer) == ("received", EVERYBODY)):
        raise _odd(party)
    if (hidden and direction != "sent") or (split is not None and kind not in _EVALUATED):
        raise _odd(party)
    return split or SPLITS[0]


def _of_split(
    party: str, crossed: dict[tuple[str, str, str], Tensors], own: dict[str, Tensors]
) -> Recording:
    widths: dict[tuple[str, ...], set[tuple[int, ...]]] = {}
    for (direction, peer, kind), tensors in crossed.items():
        # A party's embeddings are as wide whatever they are for.
        alike = (direction, peer) if kind in EMBEDDINGS else (direction, peer, kind)
        widths.setdefault(alike, set()).update(each[2].shape[1:] for each in tensors)
    for name, tensors in own.items():
        widths["own", name] = {each[2].shape[1:] for each in tensors}
    if any(len(found) > 1 for found in widths.values()):
        raise _odd(party)
    streams = {key: Stream.of(tensors) for key, tensors in crossed.items()}
    truth = {name: _own(tensors) for name, tensors in own.items()}
    return Recording(party, streams, truth.get("labels"), truth.get("columns"))


def _order(name: str) -> int:
    head = name.partition(":")[0]
    return int(head) if head.isdecimal() and len(head) < 16 else -1


def _checked(
    party: str, values: Array, rows: Array | None, dimensions: tuple[int, ...], whole: bool
) -> Rows:
    """The rows of a tensor, if it can be one that was recorded; `whole` numbers may be labels."""
    if rows is None or rows.dtype != np.int64 or rows.ndim != 1 or not len(rows):
        raise _odd(party)
    if values.ndim not in dimensions or len(values) != len(rows) or not values.size:
        raise _odd(party)
    if values.dtype != np.float32 and not (whole and values.dtype == np.int64):
        raise _odd(party)
    if rows.min() < 0 or rows.max() >= _ROWS_MAX:
        raise _odd(party)
    # Not a comparison the other way round: NaN is to be refused too.
    if values.dtype == np.float32 and not (np.abs(values) <= _LARGEST).all():
        raise RequestError(
            f"the recording of {party} has numbers that are not finite or larger than "
            f"{_LARGEST:.0e}, as a training that diverged has them: nothing can be said of it"
        )
    return rows


def _own(tensors: list[tuple[int, Rows, Array]]) -> Own:
    rows, first = np.unique(np.concatenate([each[1] for each in tensors]), return_index=True)
    return Own(rows, np.concatenate([each[2] for each in tensors])[first])


def _odd(party: str) -> RequestError:
    return RequestError(f"the recording of {party} has tensors that no party records: {_AGAIN}")
