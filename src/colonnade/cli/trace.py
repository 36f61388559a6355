"""`colonnade trace`: a run's timeline for Perfetto."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.errors import RequestError, reason


def trace(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help="The folder of a run, or those of several parties of one run."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The new file, compressed if it ends in .gz. [default: RUN/trace.json.gz]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a run's timeline as a trace that opens in Perfetto (ui.perfetto.dev) or Chrome.

    Of several parties' own folders the clocks are aligned by the messages that both ends saw.

    Example: colonnade trace runs/first --out first.json.gz
    """
    from colonnade.record.several import read_together
    from colonnade.record.trace import write_trace

    found = read_together(runs)
    path = out or runs[0] / "trace.json.gz"
    try:
        events = write_trace(path, found.timelines, found.exchanges)
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {reason(error)}") from None
    screen.show(f"{events:,} events are in {path}: open it at https://ui.perfetto.dev")
    for name, clock in found.clocks.items():
        screen.show(f"the clock of {name} is known to {clock.uncertainty_ns / 1e6:.3f} ms")
