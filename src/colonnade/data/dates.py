"""Days and moments as numbers: how long ago, which year, and where in the year, month and week."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from colonnade.data.layout import Input
from colonnade.data.values import Floats, decoded, is_date, is_text
from colonnade.errors import DataError

_DAYS = (
    "%Y-%m-%d",
    "%d.%m.%Y",
    "%Y/%m/%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%d.%m.%y",
    "%Y%m%d",
)
_TIMES = ("", " %H:%M:%S", " %H:%M", "T%H:%M:%S", "T%H:%M:%SZ")
FORMS = tuple(f"{day}{time}" for time in _TIMES for day in _DAYS)
_SECONDS = 86_400
_SHOWN = ("days", "year", "year_sin", "year_cos", "month_sin", "month_cos", "week_sin", "week_cos")
_CLOCK = ("clock_sin", "clock_cos")


class Moment(msgspec.Struct, frozen=True, tag="date", forbid_unknown_fields=True):
    """What is known of a column of dates.

    >>> fitted = Moment.learn("opened", pa.chunked_array([["2024-01-31", "2024-02-29"]]))
    >>> fitted.form, fitted.names[:2]
    ('%Y-%m-%d', ['opened:days', 'opened:year'])
    """

    name: str
    form: str
    """How text is read, as strftime has it; empty for columns of dates."""
    days_mean: float
    """Days since 1970 in training, the mean and, next, the deviation."""
    days_deviation: float
    year_mean: float
    year_deviation: float
    clock: bool
    """Whether there are times of the day."""
    missing: bool

    def __post_init__(self) -> None:
        limits = (self.days_mean, self.days_deviation, self.year_mean, self.year_deviation)
        if not all(map(math.isfinite, limits)) or min(limits[1], limits[3]) < 0:
            raise ValueError(f"a number of column '{self.name}' is not finite, or below 0")
        if self.form and self.form not in FORMS:
            raise ValueError(f"the form of the dates of column '{self.name}' is not known")

    @property
    def names(self) -> list[str]:
        """The names of the columns it becomes."""
        parts = [*_SHOWN, *(_CLOCK if self.clock else ())]
        return [f"{self.name}:{part}" for part in parts] + [f"{self.name}?missing"] * self.missing

    @property
    def inputs(self) -> list[Input]:
        """What a model makes of them."""
        return [Input() for _ in self.names]

    @property
    def word(self) -> str:
        """How a person is told of it."""
        return "date"

    @classmethod
    def learn(cls, name: str, column: pa.ChunkedArray) -> Moment:
        """What there is to know of training rows."""
        column = decoded(column)
        form = form_of(column) if is_text(column.type) else ""
        if form is None or not (form or is_date(column.type) or pa.types.is_null(column.type)):
            raise DataError(
                f"column '{name}' is to be a date, but not all of its values are: write them as in "
                "2024-01-31, or treat the column otherwise"
            )
        seconds = _seconds(column, form)
        present = seconds[~np.isnan(seconds)]
        days = np.floor(present / _SECONDS)
        years = _years(days)
        means = [float(each.mean()) if each.size else 0.0 for each in (days, years)]
        deviations = [float(each.std()) if each.size else 0.0 for each in (days, years)]
        clock = bool((present % _SECONDS).any())
        missing = 0 < present.size < seconds.size
        return cls(name, form, means[0], deviations[0], means[1], deviations[1], clock, missing)

    def fill(self, column: pa.ChunkedArray, out: npt.NDArray[np.floating]) -> None:
        """Write the encoded column into `out` [rows, len(names)]."""
        seconds = _seconds(decoded(column), self.form)
        absent = np.isnan(seconds)
        filled = np.where(absent, self.days_mean * _SECONDS, seconds)
        days = np.floor(filled / _SECONDS)
        parts = [_scaled(days, self.days_mean, self.days_deviation)]
        parts.append(_scaled(_years(days), self.year_mean, self.year_deviation))
        whole = days.astype(np.int64).astype("datetime64[D]")
        in_year = (whole - whole.astype("datetime64[Y]")).astype(np.float64) / 366
        in_month = (whole - whole.astype("datetime64[M]")).astype(np.float64) / 31
        turns = [in_year, in_month, (days + 3) % 7 / 7]
        if self.clock:
            turns.append(filled % _SECONDS / _SECONDS)
        for turn in turns:
            parts += [np.sin(2 * np.pi * turn), np.cos(2 * np.pi * turn)]
        for place, part in enumerate(parts):
            out[:, place] = np.where(absent, 0.0, part)
        if self.missing:
            out[:, -1] = absent


def form_of(column: pa.ChunkedArray) -> str | None:
    """The form in which all of these texts are dates; None where there is none.

    A day before a month is preferred where both would do.

    >>> form_of(pa.chunked_array([["31.12.2024", None]])), form_of(pa.chunked_array([["soon"]]))
    ('%d.%m.%Y', None)
    """
    words = pc.unique(pc.utf8_trim_whitespace(column)).drop_null()
    if not len(words):
        return None
    # Most texts are no dates, and a few of them show it.
    first = words[:20]
    for form in FORMS:
        if _read(first, form).null_count == 0 and _read(words, form).null_count == 0:
            return form
    return None


def _read(words: pa.Array, form: str) -> pa.Array:
    return pc.strptime(words, format=form, unit="s", error_is_null=True)


def _seconds(column: pa.ChunkedArray, form: str) -> Floats:
    """Seconds since 1970, NaN for what is missing or no date of this form."""
    if form:
        if not (is_text(column.type) or pa.types.is_null(column.type)):
            column = column.cast(pa.string())
        column = _read(pc.utf8_trim_whitespace(column.cast(pa.string())), form)
    if pa.types.is_date(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.timestamp("s"))
    elif not pa.types.is_timestamp(column.type):
        raise DataError(
            f"a column held dates in training and holds {column.type} now: give it dates"
        )
    whole = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    return np.array(pc.cast(whole, pa.float64()).to_numpy(), dtype=np.float64)


def _years(days: Floats) -> Floats:
    whole = days.astype(np.int64).astype("datetime64[D]")
    return whole.astype("datetime64[Y]").astype(np.int64).astype(np.float64) + 1970


def _scaled(values: Floats, mean: float, deviation: float) -> Floats:
    return (values - mean) / deviation if deviation else np.zeros_like(values)
