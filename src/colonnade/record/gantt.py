"""Who computed, sent and waited when, as a figure of plotly: a lane for each party, and one for
each link."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from colonnade.errors import RequestError
from colonnade.record.timeline import Span, Timeline

if TYPE_CHECKING:
    import plotly.graph_objects as go

BARS_MAX = 1_500
"""About as many bars of one kind are drawn in a lane: what is closer together than that is one."""
COLOURS = {
    "forward": "#56B4E9",
    "backward": "#0072B2",
    "local": "#009E73",
    "aggregate": "#E69F00",
    "top": "#D55E00",
    "send": "#CC79A7",
    "wait": "#E5E5E5",
}
"""By kind, as colour-blind people can tell them apart; the rest is grey."""
_OTHER = "#7F7F7F"
_LEFT_OUT = ("receive",)
"""A message lies in the inbox from then on; that is nobody's work."""


class Bar(NamedTuple):
    """What is drawn as one: spans of one kind in one lane that are as good as without a gap."""

    lane: str
    kind: str
    start_ns: int
    end_ns: int
    spans: int
    busy_ns: int
    bytes: int
    round: int
    """Of the first."""


def gantt(timelines: Mapping[str, Timeline], clock: str) -> go.Figure:
    """The figure; of a long run, neighbours that no screen could tell apart are drawn as one."""
    try:
        import plotly.graph_objects as go
    except ModuleNotFoundError:
        raise RequestError("plots need plotly: pip install 'colonnade[frames]'") from None
    figure = go.Figure()
    lanes: dict[str, None] = {}
    by_kind: dict[str, list[Bar]] = {}
    for bar in bars(timelines):
        by_kind.setdefault(bar.kind, []).append(bar)
        lanes.setdefault(bar.lane)
    for kind, own in sorted(by_kind.items()):
        figure.add_bar(
            orientation="h",
            name=kind,
            y=[bar.lane for bar in own],
            base=[bar.start_ns / 1e9 for bar in own],
            x=[(bar.end_ns - bar.start_ns) / 1e9 for bar in own],
            customdata=[(bar.round, bar.spans, bar.busy_ns / 1e9, bar.bytes) for bar in own],
            hovertemplate=_HOVER,
            marker_color=COLOURS.get(kind, _OTHER),
            marker_line_width=0,
        )
    order = sorted(lanes, key=lambda lane: (" → " in lane, list(lanes).index(lane)))
    figure.update_layout(
        barmode="overlay",
        bargap=0.25,
        xaxis_title=f"seconds, by the {clock} clock",
        yaxis={"categoryorder": "array", "categoryarray": order[::-1]},
        legend_title_text="",
        height=120 + 36 * len(lanes),
    )
    return figure


_HOVER = (
    "round %{customdata[0]}<br>from %{base:.6g} s<br>%{customdata[1]} together, "
    "%{customdata[2]:.4g} s<br>%{customdata[3]:,} bytes"
)


def bars(timelines: Mapping[str, Timeline], most: int = BARS_MAX) -> list[Bar]:
    """What is drawn; the seconds and bytes of all bars together are those of all spans.

    >>> timeline = Timeline()
    >>> timeline.add("forward", 0, 10, round=1)
    >>> timeline.add("forward", 10, 30, round=2)
    >>> [(bar.lane, bar.start_ns, bar.end_ns, bar.spans) for bar in bars({"lab": timeline}, most=1)]
    [('lab', 0, 30, 2)]
    """
    end_ns = max((span.end_ns for own in timelines.values() for span in own), default=0)
    found: list[Bar] = []
    for party, own in timelines.items():
        found += _merged(party, own, end_ns / most)
    return found


def _merged(party: str, spans: Iterable[Span], apart_ns: float) -> list[Bar]:
    """Spans of a party; those of a kind and lane that begin within so many nanoseconds of the
    one before are drawn with it."""
    open_: dict[tuple[str, str], Bar] = {}
    done: list[Bar] = []
    for span in spans:
        if span.kind in _LEFT_OUT:
            continue
        lane = f"{party} → {span.peer}" if span.kind == "send" and span.peer else party
        key, took = (lane, span.kind), span.end_ns - span.start_ns
        last = open_.get(key)
        if last is not None and span.start_ns - last.start_ns < apart_ns:
            open_[key] = last._replace(
                end_ns=max(last.end_ns, span.end_ns),
                spans=last.spans + 1,
                busy_ns=last.busy_ns + took,
                bytes=last.bytes + span.bytes,
            )
            continue
        if last is not None:
            done.append(last)
        starts = (lane, span.kind, span.start_ns, span.end_ns)
        open_[key] = Bar(*starts, 1, took, span.bytes, span.round)
    return [*done, *open_.values()]
