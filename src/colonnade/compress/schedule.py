"""Encodings that change over the rounds.

C-VFL's Theorem 4.4 converges if the compression error falls with the round, and takes the choice
of parameters for that from its Table 1 with T = t0, the current round counted from one:

    scalar    bits = Ω(log2(… √t0))     so each component gets log2 √t0 more bits
    lattice   V = O(1 / (… √t0))        V is proportional to 2^(-2·bits): ½·log2 √t0 more bits

Both make the error O(1/√t0). The scalar row asks for more than that: its error is proportional
to 2^(-2·bits), which then falls as 1/t0. `diminishing` follows the table as it is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch

from colonnade.compress.base import (
    ANY,
    ENCODINGS,
    WRAPPERS,
    Encoder,
    Encoding,
    Key,
    Occasion,
    Parse,
    admits,
    remembers,
    whole,
    without_importance,
)
from colonnade.compress.by_link import chooses
from colonnade.compress.lattice import Lattice
from colonnade.compress.scalar import Scalar
from colonnade.compress.scaling import Scale
from colonnade.errors import RequestError
from colonnade.wire.messages import Packed


@dataclass(frozen=True)
class Steps:
    """Another encoding from certain rounds on; see `steps`."""

    parts: tuple[tuple[int, Encoding], ...]

    @property
    def text(self) -> str:
        return "steps:" + ",".join(f"{start}={part.text}" for start, part in self.parts)

    def at(self, round: int) -> Encoding:
        """The encoding of a round."""
        return next(encoding for start, encoding in reversed(self.parts) if start <= round)

    def encoder(self, key: Key) -> Encoder:
        return _ScheduledEncoder(self, key)

    def admits(self, packed: Packed, round: int, known: bool) -> bool:
        return admits(self.at(round), packed, round, known)

    def without_importance(self) -> Encoding:
        return steps([(start, without_importance(part)) for start, part in self.parts])


def steps(parts: Sequence[tuple[int, Encoding]]) -> Encoding:
    """Each encoding from its round on; the first one's round is 0.

    A schedule without a change is the encoding itself.

    >>> from colonnade.compress import scalar
    >>> steps([(0, scalar(2)), (100, scalar(4))]).at(99)
    Scalar(bits=2, scale='clipped', dither=False)
    >>> steps([(0, scalar(2)), (100, scalar(2))]) == scalar(2)
    True
    """
    starts = [start for start, _ in parts]
    if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
        raise RequestError(
            f"steps at rounds {starts}: give ascending rounds, and let the first be 0"
        )
    if any(isinstance(encoding, Steps) for _, encoding in parts):
        raise RequestError("steps within steps: write all of them as one list")
    if any(remembers(encoding) for _, encoding in parts):
        raise RequestError(
            "ef21+ within steps would begin anew at each: write it before all of them, as in "
            "ef21+steps:0=scalar:2,100=scalar:4"
        )
    if any(chooses(encoding) for _, encoding in parts):
        raise RequestError(
            "by_link within steps: its bits follow the link already, so write it alone"
        )
    changes = [parts[0]] + [b for a, b in pairwise(parts) if a[1] != b[1]]
    return changes[0][1] if len(changes) == 1 else Steps(tuple(changes))


@dataclass(frozen=True)
class Diminishing:
    """A quantiser whose bits grow with the rounds; see `diminishing`."""

    first: Scalar | Lattice

    @property
    def text(self) -> str:
        return f"diminishing+{self.first.text}"

    def at(self, round: int) -> Encoding:
        """The encoding of a round: the table's, rounded up, up to the most bits there are."""
        octaves = round.bit_length()
        # The smallest whole g with 2^g >= √t0, in whole numbers: logarithms round at powers.
        more = (octaves + 1) // 2 if isinstance(self.first, Scalar) else (octaves + 3) // 4
        return replace(self.first, bits=min(self.first.BITS_MAX, self.first.bits + more))

    def encoder(self, key: Key) -> Encoder:
        return _ScheduledEncoder(self, key)

    def admits(self, packed: Packed, round: int, known: bool) -> bool:
        return admits(self.at(round), packed, round, known)


def diminishing(
    kind: Callable[[int, Scale, bool], Scalar | Lattice],
    first_bits: int,
    scale: Scale = "clipped",
    dither: bool = False,
) -> Encoding:
    """`scalar` or `lattice` with an error that falls with the round as C-VFL's Table 1 demands.

    >>> from colonnade.compress import lattice, scalar
    >>> [diminishing(scalar, 2).at(round).bits for round in (0, 1, 4, 16, 64)]
    [2, 3, 4, 5, 6]
    >>> [diminishing(lattice, 2).at(round).bits for round in (0, 1, 15, 16, 255, 256)]
    [2, 3, 3, 4, 4, 5]
    """
    first = kind(first_bits, scale, dither)
    if not isinstance(first, Scalar | Lattice):
        raise RequestError("only scalar and lattice can be diminishing: choose one of them")
    return first if first.bits == first.BITS_MAX else Diminishing(first)


def _step(text: str, parse: Parse) -> tuple[int, Encoding]:
    start, equals, encoding = text.partition("=")
    if not equals:
        raise RequestError(f"'{text}' is no step: write for example steps:0=scalar:2,100=scalar:4")
    return whole("steps:0=scalar:2,100=scalar:4", start), parse(encoding)


def _read_diminishing(text: str, parse: Parse) -> Encoding:
    name = text.partition(":")[0]
    first = parse(text) if name in ("scalar", "lattice") else None
    if not isinstance(first, Scalar | Lattice):
        raise RequestError(
            f"'{text}' cannot be diminishing: write for example diminishing+scalar:2"
        )
    return diminishing(type(first), first.bits, first.scale, first.dither)


ENCODINGS["steps"] = lambda rest, parse: steps([_step(part, parse) for part in rest.split(",")])
WRAPPERS["diminishing"] = _read_diminishing


class _ScheduledEncoder:
    def __init__(self, schedule: Steps | Diminishing, key: Key) -> None:
        self._schedule = schedule
        self._key = key
        self._encoders: dict[Encoding, Encoder] = {}
        self._begun: dict[Encoding, int] = {}
        """In which round each was first used: that names it in a file."""

    def encode(self, tensor: torch.Tensor, use: Occasion = ANY) -> Packed:
        encoding = self._schedule.at(use.round)
        if encoding not in self._encoders:
            self._encoders[encoding] = encoding.encoder(self._key)
            self._begun[encoding] = use.round
        return self._encoders[encoding].encode(tensor, use)

    def state(self) -> dict[int, Any]:
        return {self._begun[part]: encoder.state() for part, encoder in self._encoders.items()}

    def restore(self, state: Any) -> None:
        self._begun = {self._schedule.at(round): round for round in state}
        self._encoders = {part: part.encoder(self._key) for part in self._begun}
        for part, round in self._begun.items():
            self._encoders[part].restore(state[round])
