"""Figures and data frames of what was recorded; plotly and pandas are asked for only here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from colonnade.errors import RequestError, nearest
from colonnade.record.history import Row

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

AGAINST = ("time_s", "round", "epoch", "bytes")
"""What a metric can be plotted against."""


class Curve(NamedTuple):
    """One run's line: its name, those it belongs to, and what was measured of which metric."""

    name: str
    group: str
    metric: str
    rows: Iterable[Row]


def curves(lines: Iterable[Curve], against: str, more: tuple[str, ...] = ()) -> go.Figure:
    """The metric of runs against time, rounds, epochs or bytes, as a plotly figure; `more` is what
    else can be asked for where it is asked.

    >>> curves([], "nope")
    Traceback (most recent call last):
    colonnade.errors.RequestError: nothing can be plotted against 'nope': known are bytes, epoch, \
round, time_s
    """
    if against not in AGAINST:
        hint = nearest(str(against), AGAINST + more)
        raise RequestError(f"nothing can be plotted against {against!r}: {hint}")
    try:
        import plotly.graph_objects as go
    except ModuleNotFoundError:
        raise RequestError("plots need plotly: pip install 'colonnade[frames]'") from None
    figure = go.Figure()
    for line in lines:
        rows = [row | {"bytes": row["bytes_up"] + row["bytes_down"]} for row in line.rows]
        figure.add_scatter(
            x=[row[against] for row in rows],
            y=[row.get(line.metric) for row in rows],
            name=line.name,
            legendgroup=line.group,
        )
        figure.update_layout(xaxis_title=against, yaxis_title=line.metric)
    return figure


def data_frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a pandas data frame."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise RequestError("data frames need pandas: pip install 'colonnade[frames]'") from None
    return pandas.DataFrame(rows)
