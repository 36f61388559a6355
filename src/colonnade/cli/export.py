"""`colonnade export`: a party's own model, for use elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from colonnade.cli import screen
from colonnade.cli.inspect import RunPath
from colonnade.cli.options import Allow
from colonnade.errors import RequestError, reason

FORMATS = ("torch-export", "onnx")
PARTS = ("bottom", "top")


def export(
    run: RunPath,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The new file: --to telco.pt2.")],
    party: Annotated[
        str | None,
        typer.Option(
            "--party", metavar="NAME", help="Whose model, where the folder has those of several."
        ),
    ] = None,
    part: Annotated[
        str,
        typer.Option(
            metavar="PART", help="bottom: from rows to embeddings; top: from those to scores."
        ),
    ] = "bottom",
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="torch-export, or onnx.")
    ] = "torch-export",
    allow: Allow = None,
) -> None:
    """Write a party's model as a program that runs without colonnade.

    A file beside it, FILE.json, says what it reads and gives, and how rows become its numbers.

    Example: colonnade export runs/credit --party telco --to telco.pt2
    """
    for option, value, known in (("--part", part, PARTS), ("--format", form, FORMATS)):
        if value not in known:
            raise RequestError(f"{option} is '{value}': choose {' or '.join(known)}")
    beside = to.with_name(f"{to.name}.json")
    for path in (to, beside):
        if path.exists() or path.is_symlink():
            raise RequestError(f"{path} is there already: choose another --to, or remove it")
    from colonnade.learn import export as exporting
    from colonnade.learn.saved import read_saved
    from colonnade.record.private import write_whole

    assert get_args(exporting.Format) == FORMATS and get_args(exporting.Part) == PARTS
    saved = read_saved(run, party or _only(run))
    made = exporting.export(saved, part, form, allow or [])  # type: ignore[arg-type]
    try:
        write_whole(to, [made.content])
        write_whole(beside, made.description)
    except OSError as error:
        raise RequestError(f"{to} cannot be written: {reason(error)}") from None
    screen.show(
        f"the {part} model of {saved.card.party}, {saved.version}, is in {to}; what it reads and "
        f"gives is in {beside}"
    )


def _only(run: Path) -> str:
    """The party of a folder that has one."""
    from colonnade.record.inspection import parties_of

    names = list(parties_of(run))
    if len(names) > 1:
        raise RequestError(f"{run} has models of several parties: give --party {names[0]}")
    return names[0]
