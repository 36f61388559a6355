"""Bits by the link: a quantiser whose bits are chosen while a job runs, within bounds that the job
states.

How many bits a line has room for is known only when it has been measured. So the job says between
how many bits a sender may choose; whoever leads the job measures the lines and says which, and what
a receiver takes, what a dry run shows and what a policy judges is the most that the bounds allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from colonnade.compress.base import ANY, ENCODINGS, Encoding, Key, Occasion, plain, whole
from colonnade.compress.differences import Differences, differences
from colonnade.compress.feedback import ErrorFeedback, error_feedback
from colonnade.compress.scalar import scalar
from colonnade.errors import RequestError
from colonnade.wire.messages import Packed

PLAIN_BITS = 32
"""Stands for the tensor's own bytes."""
LADDER = (PLAIN_BITS, 16, 12, 8, 6, 5, 4, 3, 2, 1)
"""The bits that can be chosen."""


@dataclass(frozen=True)
class ByLink:
    """From `least` to `most` bits a component; see `by_link`."""

    least: int
    most: int

    @property
    def text(self) -> str:
        return f"by_link:{self.least}:{self.most}"

    @property
    def choices(self) -> tuple[int, ...]:
        """The bits that can be chosen, the most first."""
        return tuple(bits for bits in LADDER if self.least <= bits <= self.most)

    def at(self, bits: int) -> Encoding:
        """The encoding with so many bits."""
        return plain() if bits == PLAIN_BITS else scalar(bits)

    def encoder(self, key: Key) -> _Chosen:
        return _Chosen(self, key)

    def admits(self, packed: Packed, round: int, known: bool) -> bool:
        """Of any bits within the bounds: fewer than were chosen harm only the sender, and more cost
        no more than the job allows."""
        if packed.codec == "plain":
            return self.most == PLAIN_BITS
        return any(
            scalar(bits).admits(packed, round, known) for bits in self.choices if bits != PLAIN_BITS
        )


def by_link(least: int = 3, most: int = PLAIN_BITS) -> Encoding:
    """As many bits a component as the line has room for, from `least` to `most`; 32 stands for the
    tensor as it is. Until something is chosen it writes the most.

    >>> by_link(3, 8).choices, by_link(4, 4), by_link(32, 32) == plain()
    ((8, 6, 5, 4, 3), Scalar(bits=4, scale='clipped', dither=False), True)
    """
    for bits in (least, most):
        if bits not in LADDER:
            known = ", ".join(map(str, sorted(LADDER)))
            raise RequestError(f"by_link cannot have {bits} bits: choose among {known}")
    if least > most:
        raise RequestError(f"by_link:{least}:{most} has no bits to choose from: swap the bounds")
    made = ByLink(least, most)
    return made.at(most) if least == most else made


def chooses(encoding: Encoding) -> ByLink | None:
    """The part of an encoding that has bits to choose; None where nothing has.

    >>> from colonnade.compress import parse
    >>> chooses(parse("ef+by_link:3:8")), chooses(parse("scalar:4"))
    (ByLink(least=3, most=8), None)
    """
    while isinstance(encoding, ErrorFeedback | Differences):
        encoding = encoding.inner
    return encoding if isinstance(encoding, ByLink) else None


def chosen(encoding: Encoding, bits: int) -> Encoding:
    """The encoding that has so many bits for good; as it is, where it has none to choose.

    >>> from colonnade.compress import parse
    >>> chosen(parse("ef+by_link:3:8"), 4).text, chosen(parse("half"), 4).text
    ('ef+scalar:4', 'half')
    """
    part = chooses(encoding)
    if part is None:
        return encoding
    made = part.at(bits)
    if isinstance(encoding, ErrorFeedback):
        return error_feedback(made)
    return differences(made) if isinstance(encoding, Differences) else made


def _read(rest: str, parse: Any) -> Encoding:
    words = rest.split(":") if rest else []
    if len(words) > 2:
        raise RequestError(f"by_link:{rest} has too many words: write for example by_link:3:16")
    return by_link(*(whole("by_link:3:16", word) for word in words))


ENCODINGS["by_link"] = _read


class _Chosen:
    """Writes with the bits that were chosen last."""

    def __init__(self, encoding: ByLink, key: Key) -> None:
        self._encoding = encoding
        self._key = key
        self._bits = encoding.most

    def choose(self, bits: int) -> None:
        assert bits in self._encoding.choices, "beyond the bounds, which whoever asks checks"
        self._bits = bits

    def encode(self, tensor: torch.Tensor, use: Occasion = ANY) -> Packed:
        return self._encoding.at(self._bits).encoder(self._key).encode(tensor, use)

    def state(self) -> dict[str, int]:
        return {"bits": self._bits}

    def restore(self, state: Any) -> None:
        self._bits = state["bits"]
