"""`colonnade look`: what will become of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.options import Json
from colonnade.errors import RequestError
from colonnade.job.party_file import PartyFile, load_party, own_job
from colonnade.job.records import Job, Party
from colonnade.record.chain import printable

if TYPE_CHECKING:
    from rich.table import Table

    from colonnade.data.look import Report


def look(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help="A table (CSV, Parquet, a folder of Parquet, Arrow), or a party file that names "
            "one.",
        ),
    ],
    rows: Annotated[
        int, typer.Option(metavar="N", help="How many rows to look at, from the first on.")
    ] = 100_000,
    as_json: Json = False,
) -> None:
    """Show what each column of a table is, what it will become, and what is odd about it.

    Nothing is changed. The lines at the end are for the party file: change them to say otherwise.

    Example: colonnade look customers.csv
    """
    from colonnade.data.look import look as look_at

    if rows < 1:
        raise RequestError(f"--rows is {rows}: it must be 1 or more")
    path, party = _party(source)
    report = look_at(path, party, rows)
    if as_json:
        screen.show_json(report.to_dict())
        return
    screen.show(_heading(report))
    screen.show(_table(report))
    screen.show("\nFor the party file:\n\n" + "\n".join(report.party_file))


def _party(source: Path) -> tuple[str, Party]:
    """The table of a party file, with all that it says; or a table by itself."""
    if source.suffix != ".toml":
        return str(source), Party()
    file = load_party(source)
    if file.table is None:
        raise RequestError(f"{source} names no table: set table to the party's file")
    return file.table, _entry(file)


def _entry(file: PartyFile) -> Party:
    role: dict[str, Party] = {"me": Party(role="active"), "other": Party()}
    return own_job(Job(parties=role), "me", file).parties["me"]


def _heading(report: Report) -> str:
    from colonnade.data.look import separator_name

    parts = [f"{report.rows:,} rows" if report.whole else f"the first {report.rows:,} rows"]
    if report.written:
        parts.append(f"separated by {separator_name(report.written['separator'])}")
        parts.append(report.written["encoding"])
        parts.append(f"decimal {'comma' if report.written['decimal'] == ',' else 'point'}")
    inputs = sum(column.inputs for column in report.columns)
    return f"{report.path}: {', '.join(parts)}; {inputs:,} inputs of a model\n"


def _table(report: Report) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("column", "is", "becomes"):
        table.add_column(title, overflow="fold")
    table.add_column("inputs", justify="right")
    table.add_column("missing", justify="right")
    table.add_column("examples", overflow="fold")
    table.add_column("note", overflow="fold", style="yellow")
    for each in report.columns:
        table.add_row(
            Text(printable(each.name)),
            each.kind,
            each.becomes,
            f"{each.inputs:,}" if each.inputs else "",
            f"{each.missing:.1%}" if each.missing else "",
            Text(printable(", ".join(each.examples))),
            Text(printable("; ".join(each.warnings))),
        )
    return table
