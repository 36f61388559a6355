"""Who takes part in a race: methods, and the settings in which each of them is tried."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from colonnade import methods as known_methods
from colonnade.errors import RequestError, nearest
from colonnade.job.records import Job
from colonnade.job.texts import parse_method
from colonnade.record.table import toml_text
from colonnade.run.ladder import Ladder
from colonnade.run.naming import method_text

BASELINE = "fedsgd"
AVERAGES = ("none", "ema:0.999")
TIMEOUTS = ("50ms", "100ms", "200ms")
MAIN_OPTIONS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "celu": ("r", (2, 5, 10)),
    "cvfl": ("q", (2, 5, 10)),
    "efvfl": ("compressor", ("scalar:2", "scalar:4", "topk:0.25")),
    "fedbcd": ("updates", (2, 5, 10)),
    "flexvfl": ("timeout", TIMEOUTS),
    "flexvfl_s": ("most", (2, 4, 8)),
    "fullpipe": ("most", (8, 16)),
    "pasta": ("b_max", (2, 3, 5)),
    "sync_max": ("timeout", TIMEOUTS),
    "sync_min": ("timeout", TIMEOUTS),
}
"""The option that a method's gain depends on most, and the values that are tried. A method that is
not here is tried as it is."""


@dataclass(frozen=True)
class Entrant:
    """A method in a race."""

    label: str
    table: dict[str, Any]
    options: dict[str, tuple[Any, ...]]
    """The values that are tried, by option."""
    averages: tuple[str, ...]

    @property
    def is_baseline(self) -> bool:
        """Whether it is plain split training, which all others are compared with."""
        return self.label == BASELINE

    def settings(self, rates: Sequence[float]) -> list[Setting]:
        """Every combination of rate, options and average."""
        return [
            Setting(self.label, self.table, rate, dict(zip(self.options, values, strict=True)), own)
            for rate in rates
            for values in itertools.product(*self.options.values())
            for own in self.averages or (None,)
        ]


@dataclass(frozen=True)
class Setting:
    """One way to run a method: a point of its grid."""

    label: str
    table: dict[str, Any]
    rate: float
    options: dict[str, Any]
    average: str | None
    """None where the method itself says what is averaged."""

    @property
    def method(self) -> dict[str, Any]:
        """The job's `[method]` table."""
        averaged = {} if self.average in (None, "none") else {"average": self.average}
        return {**self.table, **self.options, **averaged}

    @property
    def option_text(self) -> str:
        """What was chosen among options."""
        return ", ".join(f"{key}={_bare(value)}" for key, value in self.options.items())

    def job(self, base: Job, ladder: Ladder) -> Job:
        """The job that is trained."""
        return ladder.apply(msgspec.structs.replace(base, method=self.method), self.rate)

    def text(self, base: Job, ladder: Ladder) -> str:
        """The setting for a person."""
        return f"{method_text(self.method)}, rate {ladder.text(base, self.rate)}"


def entrants(
    methods: Sequence[str | Mapping[str, Any]],
    options: Mapping[str, Sequence[Any]],
    averages: Sequence[str] = AVERAGES,
) -> list[Entrant]:
    """The methods of a race, each with its grid; FedSGD is always among them, and the first.

    `options` has values by `method.option`, in the place of those of `MAIN_OPTIONS`.

    >>> [each.label for each in entrants(["fedbcd:updates=5", "pasta"], {})]
    ['fedsgd', 'fedbcd:updates=5', 'pasta']
    >>> entrants(["fedbcd"], {"fedbcd.updates": [3, 4]})[1].options
    {'updates': (3, 4)}
    """
    if not methods:
        raise RequestError("there is no method to race with FedSGD: name some, as in fedbcd,pasta")
    tables = [parse_method(each) if isinstance(each, str) else dict(each) for each in methods]
    tables = [{"name": table.get("name", BASELINE), **table} for table in tables]
    plain = {"name": BASELINE}
    tables = [plain, *(table for table in tables if table != plain)]
    labels = [method_text(table) for table in tables]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise RequestError(f"{twice} is named twice: name every method once")
    if not averages:
        raise RequestError("there is no average to try: write none, or none,ema:0.999")
    given = _by_method(options, [str(table["name"]) for table in tables])
    found = [
        Entrant(
            label,
            table,
            _grid(label, table, given.get(table["name"], {})),
            () if _averages(table) else tuple(dict.fromkeys(averages)),
        )
        for label, table in zip(labels, tables, strict=True)
    ]
    for each in found:
        for setting in each.settings([1.0]):
            known_methods.build(setting.method)
    return found


def _by_method(
    options: Mapping[str, Sequence[Any]], names: Sequence[str]
) -> dict[str, dict[str, tuple[Any, ...]]]:
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    for key, values in options.items():
        name, dot, option = key.rpartition(".")
        if not dot or not name or not option or not values:
            raise RequestError(
                f"'{key}' is no option with values: write METHOD.OPTION=V,V, as in "
                "fedbcd.updates=2,5,10"
            )
        if name not in names:
            raise RequestError(
                f"the option {key} is of {name}, which is not in the race: {nearest(name, names)}"
            )
        found.setdefault(name, {})[option] = tuple({_bare(each): each for each in values}.values())
    return found


def _grid(
    label: str, table: Mapping[str, Any], given: dict[str, tuple[Any, ...]]
) -> dict[str, tuple[Any, ...]]:
    for option in given:
        if option in table:
            raise RequestError(
                f"{label} says what {option} is, and others are to be tried for it: leave out "
                "one of the two"
            )
    option, values = MAIN_OPTIONS.get(str(table["name"]), ("", ()))
    grid = {option: values} if option and option not in table else {}
    # Options that are given stand in the place of the main one: a grid of both would be large.
    return given or grid


def _bare(value: Any) -> str:
    return value if isinstance(value, str) else toml_text(value)


def _averages(table: Mapping[str, Any]) -> bool:
    """Whether the method itself says what is averaged."""
    return "average" in table or known_methods.build(table).average.averages
