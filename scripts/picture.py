"""The picture at the top of README: three methods over the same second of virtual time.

`python -m scripts.picture` writes it anew. It is drawn from the simulator's own record of who did
what and when; a test holds the file against what this makes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import colonnade as cn

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "pipeline.svg"
METHODS = {
    "fedsgd": ("FedSGD", "sends a batch and waits for its gradient"),
    "pasta": ("PASTA", "several batches in flight, and local updates meanwhile"),
    "fullpipe": ("fullpipe", "as many batches in flight as the path holds"),
}
MS = 1_000_000
LATENCY_MS, FORWARD_MS, BACKWARD_MS, AGGREGATE_MS = 100, 10, 20, 10
FROM_MS, SPAN_MS = 3000, 1000
"""The second that is shown: by then the windows have settled."""
BATCHES = 400
ACTIVE, PASSIVE = "bank", "partner"

WIDTH, LEFT, RIGHT, TOP = 960, 78, 16, 76
LANE, FLIGHT, PANEL = 18, 40, 132
COLOURS = {
    "forward": "#56b4e9",
    "backward": "#0072b2",
    "aggregate": "#e69f00",
    "local": "#009e73",
}
"""Told apart by people who do not see all colours (Okabe and Ito)."""
STYLE = """
    .card { fill: #ffffff; stroke: #d4d9e0; }
    text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; fill: #24292f; }
    .title { font-size: 16px; font-weight: 600; }
    .soft { fill: #57606a; }
    .wait { fill: #e6eaef; }
    .up { stroke: #3b93cc; } .down { stroke: #b97a00; }
    .tick { stroke: #8a94a0; }
    @media (prefers-color-scheme: dark) {
      .card { fill: #161b22; stroke: #30363d; }
      text { fill: #e6edf3; }
      .soft { fill: #a3adb8; }
      .wait { fill: #2b323b; }
      .up { stroke: #7cc4ee; } .down { stroke: #f0b429; }
    }
"""  # noqa: E501


@dataclass(frozen=True)
class Piece:
    """What a party did for a while, in milliseconds of the picture."""

    kind: str
    start: float
    end: float


def run_of(method: str) -> cn.Run:
    """The job's messages and clock with one method; nothing is learnt."""
    costs = cn.Costs(
        forward=f"{FORWARD_MS}ms", backward=f"{BACKWARD_MS}ms", aggregate=f"{AGGREGATE_MS}ms"
    )
    job = cn.Job(
        parties={ACTIVE: cn.Party(role="active"), PASSIVE: cn.Party()},
        method={"name": method},
        train=cn.Train(rounds=BATCHES, batch_size=64),
        network=cn.Network(link=cn.Link(latency=f"{LATENCY_MS}ms")),
        compute=cn.Compute(costs=costs),
    )
    return cn.simulate_clock(job, rows=64 * BATCHES, widths={ACTIVE: 16, PASSIVE: 16})


def shown(time_ns: int) -> float:
    """A time of the run in milliseconds of the picture."""
    return time_ns / MS - FROM_MS


def pieces(run: cn.Run, party: str) -> list[Piece]:
    """What a party computed in the second that is shown, local updates told apart."""
    local = [shown(time) for time, what, _ in run.parties[party].actions if what == "local"]
    found: list[Piece] = []
    for kind, start_ns, end_ns, *_ in run.parties[party].spans:
        start, end = max(shown(start_ns), 0), min(shown(end_ns), SPAN_MS)
        if start >= end or kind not in COLOURS:
            continue
        whole = FORWARD_MS + BACKWARD_MS
        if any(until - whole <= shown(start_ns) < until for until in local):
            kind = "local"
        # A local update is one piece, however its passes are recorded.
        if kind == "local" and found and found[-1].kind == kind and found[-1].end == start:
            start = found.pop().start
        found.append(Piece(kind, start, end))
    return found


def flights(run: cn.Run) -> Iterator[tuple[str, float]]:
    """Which way each message goes, and when it leaves."""
    for time, what, _ in run.parties[PASSIVE].actions:
        if what == "send":
            yield "up", shown(time)
    for time, what, _ in run.parties[ACTIVE].actions:
        if what == "aggregate":
            yield "down", shown(time)


def x(milliseconds: float) -> str:
    """Where a time is, from the left."""
    return f"{LEFT + milliseconds * (WIDTH - LEFT - RIGHT) / SPAN_MS:.1f}"


def wide(milliseconds: float) -> str:
    """How wide a duration is."""
    return f"{milliseconds * (WIDTH - LEFT - RIGHT) / SPAN_MS:.1f}"


def rounds(run: cn.Run) -> int:
    """How many gradients the passive party used in the second that is shown."""
    actions = run.parties[PASSIVE].actions
    return sum(what == "fresh" and 0 < shown(time) <= SPAN_MS for time, what, _ in actions)


def idle(run: cn.Run) -> int:
    """The percentage of the second in which the passive party waits."""
    busy = sum(piece.end - piece.start for piece in pieces(run, PASSIVE))
    return round(100 - 100 * busy / SPAN_MS)


def panel(method: str, run: cn.Run, top: float) -> Iterator[str]:
    """One method: the active party's lane, the messages, the passive party's lane."""
    name, words = METHODS[method]
    figures = f"{rounds(run)} rounds, the partner idle {idle(run)} % of the time"
    yield f'  <text class="title" x="16" y="{top:g}">{name}'
    yield f'    <tspan class="soft" font-size="13" font-weight="400" dx="8">{words}</tspan></text>'
    yield f'  <text x="{WIDTH - RIGHT}" y="{top:g}" text-anchor="end">{figures}</text>'
    upper, lower = top + 14, top + 14 + LANE + FLIGHT
    yield '  <g clip-path="url(#second)">'
    for way, leaves in flights(run):
        if -LATENCY_MS < leaves < SPAN_MS:
            ends = (lower, upper + LANE) if way == "up" else (upper + LANE, lower)
            yield (
                f'    <line class="{way}" x1="{x(leaves)}" y1="{ends[0]:g}" '
                f'x2="{x(leaves + LATENCY_MS)}" y2="{ends[1]:g}"/>'
            )
    yield "  </g>"
    for party, y in ((ACTIVE, upper), (PASSIVE, lower)):
        yield f'  <text x="16" y="{y + 14:g}">{party}</text>'
        yield f'  <rect class="wait" x="{x(0)}" y="{y:g}" width="{wide(SPAN_MS)}" height="{LANE}"/>'
        for piece in pieces(run, party):
            width = wide(piece.end - piece.start)
            yield (
                f'  <rect x="{x(piece.start)}" y="{y:g}" width="{width}" height="{LANE}" '
                f'fill="{COLOURS[piece.kind]}"/>'
            )


def legend(y: float) -> Iterator[str]:
    """What the colours stand for."""
    place = LEFT
    names = ("forward", "backward", "aggregate", "local", "wait")
    words = ("forward pass", "backward pass", "top model and loss", "local update", "waiting")
    for kind, text in zip(names, words, strict=True):
        fill = 'class="wait"' if kind == "wait" else f'fill="{COLOURS[kind]}"'
        yield f'  <rect {fill} x="{place}" y="{y - 11:g}" width="12" height="12"/>'
        yield f'  <text class="soft" x="{place + 18}" y="{y:g}">{text}</text>'
        place += 36 + round(7.3 * len(text))
    for way, text in (("up", "embedding"), ("down", "gradient")):
        yield f'  <line class="{way}" x1="{place}" y1="{y:g}" x2="{place + 12}" y2="{y - 10:g}"/>'
        yield f'  <text class="soft" x="{place + 18}" y="{y:g}">{text}</text>'
        place += 36 + round(7.3 * len(text))


def axis(y: float) -> Iterator[str]:
    """The one clock of all three."""
    for at in range(0, SPAN_MS + 1, 200):
        anchor = "end" if at == SPAN_MS else "middle"
        yield f'  <line class="tick" x1="{x(at)}" y1="{y:g}" x2="{x(at)}" y2="{y + 5:g}"/>'
        yield f'  <text class="soft" x="{x(at)}" y="{y + 19:g}" text-anchor="{anchor}">{at} ms</text>'  # noqa: E501


@cache
def runs() -> dict[str, cn.Run]:
    """What is drawn."""
    return {method: run_of(method) for method in METHODS}


def told() -> str:
    """The picture in words, for who does not see it."""
    fedsgd, pasta, fullpipe = runs().values()
    return (
        "One second of virtual time with FedSGD, PASTA and fullpipe on the same clock: with FedSGD "
        f"the partner is idle {idle(fedsgd)} % of the time and completes {rounds(fedsgd)} rounds, "
        f"with PASTA {idle(pasta)} % and {rounds(pasta)} rounds, "
        f"with fullpipe {idle(fullpipe)} % and {rounds(fullpipe)} rounds."
    )


def picture() -> str:
    """The whole file."""
    bottom = TOP + len(METHODS) * PANEL
    height = bottom + 62
    heading = "The same second of virtual time with three methods"
    setting = (
        f"two parties, {LATENCY_MS} ms one way; forward {FORWARD_MS} ms, backward {BACKWARD_MS} ms,"
        f" top model {AGGREGATE_MS} ms"
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="told">',
        f'  <title id="told">{told()}</title>',
        f"  <style>{STYLE}  </style>",
        f'  <clipPath id="second"><rect x="{x(0)}" y="0" width="{wide(SPAN_MS)}" '
        f'height="{height}"/></clipPath>',
        f'  <rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'  <text class="title" x="16" y="28">{heading}</text>',
        f'  <text class="soft" x="16" y="47">{setting}</text>',
    ]
    for place, (method, run) in enumerate(runs().items()):
        lines += panel(method, run, TOP + 4 + place * PANEL)
    lines += axis(bottom - 12)
    lines += legend(bottom + 42)
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture())
