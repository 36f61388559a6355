"""The grid of learning rates that all methods of a race are tuned over, and how it grows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from colonnade.errors import RequestError
from colonnade.job.records import Job
from colonnade.learn.optim import OPTIMIZERS

FACTORS = ("0.25x", "0.5x", "1x", "2x", "4x")
"""The grid where none is given: multiples of each party's own rate."""
STEP = 2.0
"""From one rate to the next where there is only one."""
GROWTH = 4
"""How often a grid may grow at each end."""
DIGITS = 3
"""Of a rate that is added; more would only be hard to read."""
Side = Literal["lowest", "highest"]
CURE = "give rates, as in 0.01,0.03,0.1, or multiples of the job's own, as in 0.5x,1x,2x"


@dataclass(frozen=True)
class Ladder:
    """Learning rates in ascending order: for all parties the same, or multiples of their own."""

    rates: tuple[float, ...]
    relative: bool
    added: tuple[int, int] = (0, 0)
    """How often it has grown at its lower and upper end."""

    @classmethod
    def of(cls, values: Iterable[Any]) -> Ladder:
        """Read rates such as `0.01`, or multiples such as `"2x"`.

        >>> Ladder.of(["0.5x", "2x", "1x"]).rates, Ladder.of([0.1, 0.01]).rates
        ((0.5, 1.0, 2.0), (0.01, 0.1))
        """
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise RequestError(f"the rates are {values!r}: {CURE}")
        read = [_read(value) for value in values]
        if not read:
            raise RequestError(f"there is no rate to tune over: {CURE}")
        if len({relative for _, relative in read}) > 1:
            raise RequestError(f"some rates are multiples and others are not: {CURE}")
        return cls(tuple(sorted({rate for rate, _ in read})), read[0][1])

    def grown(self, side: Side, most: int = GROWTH) -> Ladder | None:
        """With one more rate at an end, a step as long as the last one there; None where it has
        grown as often as it may.

        >>> Ladder.of([0.01, 0.03, 0.1]).grown("highest").rates
        (0.01, 0.03, 0.1, 0.333)
        """
        low, high = self.added
        first, last = self.rates[:2], self.rates[-2:]
        if side == "lowest" and low < most:
            step = first[1] / first[0] if len(first) > 1 else STEP
            rates, added = (_round(self.rates[0] / step), *self.rates), (low + 1, high)
        elif side == "highest" and high < most:
            step = last[1] / last[0] if len(last) > 1 else STEP
            rates, added = (*self.rates, _round(self.rates[-1] * step)), (low, high + 1)
        else:
            return None
        return replace(self, rates=rates, added=added)

    def ends(self, rate: float) -> list[Side]:
        """At which end a rate stands, if at one."""
        ends: dict[Side, float] = {"lowest": self.rates[0], "highest": self.rates[-1]}
        return [side for side, end in ends.items() if rate == end]

    def apply(self, job: Job, rate: float) -> Job:
        """A job in which every optimizer, the top model's own too, has this rate.

        >>> from colonnade.job import load
        >>> job = Ladder.of(["2x"]).apply(load("digits"), 2.0)
        >>> job.parties["lab"].optimizer
        {'name': 'sgd', 'lr': 0.1}
        """
        parties = {
            name: msgspec.structs.replace(party, optimizer=self._with(party.optimizer, rate))
            for name, party in job.parties.items()
        }
        top = job.top
        if top.optimizer is not None:
            top = msgspec.structs.replace(top, optimizer=self._with(top.optimizer, rate))
        return msgspec.structs.replace(job, parties=parties, top=top)

    def _with(self, optimizer: Mapping[str, Any], rate: float) -> dict[str, Any]:
        own = _rate_of(optimizer) if self.relative else 1.0
        return {**optimizer, "lr": float(f"{rate * own:.6g}")}

    def text(self, job: Job, rate: float) -> str:
        """A rate for a person: the number where all parties have the same, else the multiple.

        >>> from colonnade.job import load
        >>> Ladder.of(["2x"]).text(load("digits"), 2.0)
        '0.1'
        """
        made = self.apply(job, rate)
        tables = [party.optimizer for party in made.parties.values()]
        tables += [made.top.optimizer] if made.top.optimizer is not None else []
        found = {table["lr"] for table in tables}
        return f"{found.pop():g}" if len(found) == 1 else f"{rate:g}×"


def _read(value: Any) -> tuple[float, bool]:
    text = str(value).strip()
    relative = text.endswith(("x", "×"))
    try:
        rate = float(text[:-1] if relative else text)
    except ValueError:
        raise RequestError(f"the rate '{text}' is not a number: {CURE}") from None
    if isinstance(value, bool) or not 0 < rate < math.inf:
        raise RequestError(f"the rate '{text}' is not above 0 and finite: {CURE}")
    return rate, relative


def _round(rate: float) -> float:
    return float(f"{rate:.{DIGITS}g}")


def _rate_of(optimizer: Mapping[str, Any]) -> float:
    """The rate of an optimizer's table, or torch's own where it names none."""
    if "lr" in optimizer:
        return float(optimizer["lr"])
    found = OPTIMIZERS[str(optimizer["name"]).lower()]
    return float(inspect.signature(found).parameters["lr"].default)
