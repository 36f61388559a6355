"""`colonnade report`: runs as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.errors import RequestError, reason
from colonnade.units import show_bytes

Runs = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN...",
        help="Folders of runs: of a simulation or a launch, a party's own, a comparison with all "
        "its runs, or a race.",
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The file to write; by default report.html in the first folder."
    ),
]
Open = Annotated[bool, typer.Option("--open", help="Open it in the browser.")]
_BEGINNING = b"<!doctype html>"


def report(runs: Runs, out: File = None, show: Open = False) -> None:
    """Write runs as one HTML file, which opens anywhere and connects to nothing.

    It has what was reached and at what cost, curves with bands over seeds, the timeline of who
    computed, sent and waited, where time and bytes went, staleness, the job in plain words, what
    left whom, and the model card. Several runs of one job are compared.

    Example: colonnade report runs/first runs/second --open
    """
    from colonnade.page.html import report_html
    from colonnade.page.report import report_of
    from colonnade.record.private import write_whole

    file = out or runs[0] / "report.html"
    _check(file)
    page = report_html(report_of(runs))
    try:
        write_whole(file, page)
    except OSError as error:
        raise RequestError(f"{file} cannot be written: {reason(error)}: give --out") from None
    screen.show(f"{file}, {show_bytes(len(page.encode()))}")
    if show:
        import webbrowser

        if not webbrowser.open(file.resolve().as_uri()):
            screen.stderr().print(f"there is no browser here to open {file}")


def _check(file: Path) -> None:
    """Refuse to write over what is no report, before anything is read."""
    if file.is_dir():
        raise RequestError(f"--out {file} is a folder: give a file, as in {file / 'report.html'}")
    if not file.exists():
        return
    try:
        with file.open("rb") as there:
            ours = there.read(len(_BEGINNING)) == _BEGINNING
    except OSError as error:
        raise RequestError(f"--out {file} cannot be written: {reason(error)}") from None
    if not ours:
        raise RequestError(f"--out {file} is there and is no report: give another file")
